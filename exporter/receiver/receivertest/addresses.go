package receivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// The ports of Addresses are in blocks, of which each process has its own, because the
// tests of several packages run at the same time. No system gives a port below 32768 to
// a client that connects. A port above may go to any client, even to the one that
// redials it.
const firstPort, blocks, blockSize = 10_000, 20, 1_000

// block listens at the first port of a block, which no other process takes meanwhile.
var block = sync.OnceValues(func() (net.Listener, error) {
	for _, i := range rand.Perm(blocks) {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprint("127.0.0.1:", firstPort+i*blockSize))
		if err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no free block of ports")
})

// asked counts the ports of the block that were asked for.
var asked atomic.Uint32

// Addresses returns n loopback addresses where nothing listens, other ones at each
// call.
func Addresses(n int) ([]string, error) {
	l, err := block()
	if err != nil {
		return nil, err
	}
	first := l.Addr().(*net.TCPAddr).Port
	var free []string
	for range 100 * n {
		address := fmt.Sprint("127.0.0.1:", first+1+int(asked.Add(1)%(blockSize-1)))
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
