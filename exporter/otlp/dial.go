package otlp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter"
)

// dial connects to a gRPC server.
func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.server.Store(nil)
	conn, err := c.settings.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l := &listener{Conn: conn, heard: make(chan struct{})}
	c.server.Store(l)
	return l, nil
}

// A listener is a connection that keeps the first bytes that the server has sent. They
// show what kind of server it is; the errors of net/http do not.
type listener struct {
	net.Conn
	once    sync.Once
	heard   chan struct{} // closed once the server has sent first, or nothing
	first   []byte
	closing atomic.Bool
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.once.Do(func() {
		l.first = bytes.Clone(p[:min(n, 8)])
		close(l.heard)
	})
	if l.closing.Load() {
		l.Conn.Close()
	}
	return n, err
}

// Close leaves a server that has sent nothing some time to do so: a server of another
// protocol may close the connection while net/http still writes, and after that
// net/http would not read its answer. There is always a goroutine in Read.
func (l *listener) Close() error {
	select {
	case <-l.heard:
		return l.Conn.Close()
	default:
		l.closing.Store(true)
		return l.Conn.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// lastWords is how long a server may take to answer after the connection was closed.
const lastWords = 100 * time.Millisecond

// notGRPC says why a request failed, if the server does not speak gRPC, or not to this
// client. Otherwise it returns nil.
func (c *connection) notGRPC(ctx context.Context) error {
	l := c.server.Load()
	if l == nil { // dialling has failed
		return nil
	}
	select {
	case <-l.heard:
	case <-ctx.Done():
		return nil
	}
	switch at := c.settings.shown(); {
	case len(l.first) == 0:
		return uploadError(exporter.Unreachable, "the server closed the connection", fmt.Sprintf("is %s the right address, and scheme?", at))
	case c.settings.tls != nil: // the error says it
	case bytes.HasPrefix(l.first, []byte("HTTP/1")):
		return uploadError(exporter.Unreachable, "the server speaks HTTP, not gRPC", hintHTTP)
	case l.first[0] == tlsAlert:
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
	conn, err := d.DialContext(ctx, network, s.address())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	tunnel, err := openTunnel(ctx, conn, proxy, address)
	if err != nil {
		conn.Close()
	}
	return tunnel, err
}

// openTunnel makes a proxy pass everything on to address.
func openTunnel(ctx context.Context, conn net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	switch proxy.Scheme {
	case "http":
	case "https":
		secure := tls.Client(conn, &tls.Config{ServerName: proxy.Hostname()})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secure
	default:
		return nil, fmt.Errorf("a proxy of type %q is not supported over gRPC", proxy.Scheme)
	}
	connect := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": {exporterAgent}}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		connect.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := connect.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, connect)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{code: resp.StatusCode}
	}
	return &tunnel{conn, r}, nil
}

// A tunnel is a connection through a proxy. The reader may hold what the receiver has
// sent right after the proxy's answer.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.r.Read(p) }
