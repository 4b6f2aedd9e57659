package receivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
)

// Addresses returns n loopback addresses where nothing listens. They stay free
// until something listens there: no system gives a port below 32768 to a client that
// connects. A port above may go to any client, even to the one that redials it.
func Addresses(n int) ([]string, error) {
	var free []string
	for range 100 * n {
		address := fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		if slices.Contains(free, address) || listens(address) {
			continue
		}
		if free = append(free, address); len(free) == n {
			return free, nil
		}
	}
	return nil, errors.New("no free addresses")
}

// Released returns once the ports of sockets that were closed before are free: a
// process that is being started shares the sockets of this one until its program
// begins.
func Released() {
	syscall.ForkLock.RLock() // held while a process is being started
	defer syscall.ForkLock.RUnlock()
}

// listens tells whether something listens at an address. It does not try to listen
// there itself: see Released.
func listens(address string) bool {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
