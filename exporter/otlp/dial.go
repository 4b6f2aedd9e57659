package otlp

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter"
)

// dial connects to the receiver.
func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.dialled.Store(nil)
	conn, err := c.settings.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if c.settings.protocol == "grpc" {
		conn = coalesce(conn)
	}
	w := &watchedConn{Conn: conn, of: c, heard: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[w] = true
	c.dialled.Store(w)
	return w, nil
}

// cut closes all connections, whatever is under way: net/http does not close one before
// it has forgotten its unanswered requests.
func (c *connection) cut() {
	if c.ahead != nil {
		c.ahead.end()
	}
	c.http.CloseIdleConnections()
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, w := range open {
		w.hear(nil)
		_ = w.Close()
	}
}

// A watchedConn is a connection that keeps the first bytes that the server has sent.
// They show what kind of server it is; the errors of net/http do not.
type watchedConn struct {
	net.Conn
	of    *connection
	once  sync.Once
	heard chan struct{} // closed once the server has sent first, or nothing
	first []byte
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.hear(p[:n])
	return n, err
}

func (w *watchedConn) hear(p []byte) {
	w.once.Do(func() {
		w.first = bytes.Clone(p[:min(len(p), 8)])
		close(w.heard)
	})
}

// Close leaves a server that has sent nothing some time to do so: a server of another
// protocol may close the connection while net/http still writes, and after that
// net/http would not read its answer.
func (w *watchedConn) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w)
	w.of.mu.Unlock()
	select {
	case <-w.heard:
		return w.Conn.Close()
	default:
	}
	time.AfterFunc(lastWords, func() {
		w.hear(nil)
		_ = w.Conn.Close()
	})
	return nil
}

// lastWords is how long a server may take to answer after the connection was closed.
const lastWords = 100 * time.Millisecond

// notGRPC says why a request failed, if the server does not speak gRPC, or not to this
// client. Otherwise it returns nil.
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
	case len(w.first) >= 4 && w.first[3] != settingsFrame:
		return uploadError(exporter.Unreachable, causeNotGRPC, fmt.Sprintf(hintAddress, at))
	}
	return nil
}

// dialTimeout is how long a server may take to accept a connection. An attempt may end
// before, and net/http goes on for the next one.
const dialTimeout = 20 * time.Second

const (
	// tlsAlert is the first byte of a TLS server's answer to what is not TLS.
	tlsAlert = 0x15

	// settingsFrame is the fourth byte of what a server of HTTP/2 sends first.
	settingsFrame = 4
)

// dial connects to the receiver. Over gRPC, it connects to a proxy and through it:
// net/http would not open a tunnel for a connection without TLS.
func (s *Settings) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if s.endpoint.Scheme == "unix" {
		return d.DialContext(ctx, "unix", s.endpoint.Opaque+s.endpoint.Path)
	}
	proxy := s.proxy()
	if proxy == nil || s.protocol != "grpc" {
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
