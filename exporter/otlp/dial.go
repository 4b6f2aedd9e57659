package otlp

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter"
)

// dial connects to a gRPC server.
func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.dialled.Store(nil)
	conn, err := c.settings.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &watchedConn{Conn: conn, heard: make(chan struct{})}
	c.dialled.Store(w)
	return w, nil
}

// A watchedConn is a connection that keeps the first bytes that the server has sent. They
// show what kind of server it is; the errors of net/http do not.
type watchedConn struct {
	net.Conn
	once    sync.Once
	heard   chan struct{} // closed once the server has sent first, or nothing
	first   []byte
	closing atomic.Bool
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.once.Do(func() {
		w.first = bytes.Clone(p[:min(n, 8)])
		close(w.heard)
	})
	if w.closing.Load() {
		_ = w.Conn.Close()
	}
	return n, err
}

// Close leaves a server that has sent nothing some time to do so: a server of another
// protocol may close the connection while net/http still writes, and after that
// net/http would not read its answer. There is always a goroutine in Read.
func (w *watchedConn) Close() error {
	select {
	case <-w.heard:
		return w.Conn.Close()
	default:
		w.closing.Store(true)
		return w.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// lastWords is how long a server may take to answer after the connection was closed.
const lastWords = 100 * time.Millisecond

// notGRPC says why a request failed, if the server does not speak gRPC, or not to this
// client. Otherwise it returns niw.
func (c *connection) notGRPC(ctx context.Context) error {
	w := c.dialled.Load()
	if w == nil { // dialling has failed
		return nil
	}
	select {
	case <-w.heard:
	case <-ctx.Done():
		return nil
	}
	switch at := c.settings.shown(); {
	case len(w.first) == 0:
		return uploadError(exporter.Unreachable, "the server closed the connection", fmt.Sprintf("is %s the right address, and scheme?", at))
	case c.settings.tls != nil: // the error says it
	case bytes.HasPrefix(w.first, []byte("HTTP/1")):
		return uploadError(exporter.Unreachable, "the server speaks HTTP, not gRPC", hintHTTP)
	case w.first[0] == tlsAlert:
		return uploadError(exporter.Unreachable, causeWantsTLS, hintTLS)
	}
	return nil
}

// tlsAlert is the first byte of a TLS server's answer to what is not TLS.
const tlsAlert = 0x15

// dial connects to the receiver, or to a proxy and through it. net/http would not open
// a tunnel for a connection without TLS.
func (s *Settings) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if s.endpoint.Scheme == "unix" {
		return d.DialContext(ctx, "unix", s.endpoint.Opaque+s.endpoint.Path)
	}
	proxy := s.proxy()
	if proxy == nil {
		return d.DialContext(ctx, network, address)
	}
	if proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, uploadError(exporter.Misconfigured, fmt.Sprintf("a %s:// proxy is not supported over gRPC", proxy.Scheme), "use an http:// proxy, or OTLP over HTTP")
	}
	conn, err := d.DialContext(ctx, network, s.address())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	tunnel, err := openTunnel(ctx, conn, proxy, address)
	if err != nil {
		_ = conn.Close()
	}
	return tunnel, err
}
