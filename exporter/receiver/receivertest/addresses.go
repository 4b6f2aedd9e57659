package receivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
)

// The ports that Addresses gives: no system gives one below 32768 to a client that
// connects. A port above may go to any client, even to the one that redials it.
const firstPort, ports = 10_000, 20_000

// nextPort counts the ports that this process has asked for. It starts at random,
// because the tests of another package may run at the same time.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(ports)) }

// Addresses returns n loopback addresses where nothing listens, other ones at each
// call.
func Addresses(n int) ([]string, error) {
	var free []string
	for range 100 * n {
		address := fmt.Sprint("127.0.0.1:", firstPort+nextPort.Add(1)%ports)
		if listens(address) {
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
