package receivertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// Addresses returns n loopback addresses where nothing listens yet. They stay free
// until something does: no system gives a port below 32768 to a client that
// connects. A port above may go to any client, even to the one that redials it.
func Addresses(n int) ([]string, error) {
	var held []string
	for range 100 * n {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // only at the end, so that none comes twice
		held = append(held, l.Addr().String())
		if len(held) == n {
			return held, nil
		}
	}
	return nil, fmt.Errorf("found %d of %d free addresses", len(held), n)
}
