package otlp

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// forward listens for an address and counts the connections that carry requests.
func forward(t *testing.T, address string) (listening string, connections *atomic.Int32) {
	t.Helper()
	connections = new(atomic.Int32)
	return serveConns(t, func(in net.Conn) { relay(in, address, func() { connections.Add(1) }) }), connections
}

// relay connects in with an address. It calls used if in carries a request.
func relay(in net.Conn, address string, used func()) {
	defer in.Close()
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	var answering sync.WaitGroup
	answering.Go(func() { _, _ = io.Copy(in, out); in.Close() })
	const greeting = 100 // at most: what a client of HTTP/2 sends before its first request
	if _, err := io.CopyN(out, in, greeting); err == nil {
		used()
		_, _ = io.Copy(out, in)
	}
	out.Close()
	answering.Wait()
}
