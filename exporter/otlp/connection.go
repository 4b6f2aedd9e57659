package otlp

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/unary"
)

// A connection leads to one receiver. Spans and metrics share it if they go to
// the same one: to make another costs a short session more than what it sends.
type connection struct {
	settings *Settings
	http     http.Client
	ahead    *dialledAhead // nil over HTTP
	users    atomic.Int32
	dialled  atomic.Pointer[watchedConn] // the last; nil if dialling has failed

	mu   sync.Mutex
	open map[*watchedConn]bool
}

// idleTimeout is how long a connection is kept without a request.
const idleTimeout = 30 * time.Second

// connect returns a connection with one user. Over gRPC it begins to dial, over HTTP
// the first request does.
func (s *Settings) connect() *connection {
	// By default all clients share one transport, and leave its connections open
	// when they stop.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	transport.IdleConnTimeout = idleTimeout
	c := &connection{settings: s, open: map[*watchedConn]bool{}, http: http.Client{
		Transport: transport,
		// A request is for the configured endpoint only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	transport.DialContext = c.dial
	if s.protocol == "grpc" {
		transport.Protocols, transport.Proxy = unary.Protocols(), nil
		transport.TLSClientConfig = requireHTTP2(s.tls)
		c.ahead = dialAhead(transport, s.base())
		c.http.Transport = c.ahead
	}
	c.users.Store(1)
	return c
}

// requireHTTP2 makes the handshake fail if the server does not choose HTTP/2: net/http
// would go on with HTTP/1.
func requireHTTP2(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if state.NegotiatedProtocol != "h2" {
			return errors.New(noALPN)
		}
		return nil
	}
	return cfg
}

// noALPN is the text of the error if a server speaks TLS, but not HTTP/2.
const noALPN = "the server has not chosen HTTP/2"

// shared returns the connection of client, with one more user, if it serves these
// settings, too. Else it returns nil.
func (s *Settings) shared(of *client) *connection {
	if of == nil || !s.sameReceiver(of.settings) {
		return nil
	}
	to := of.connect()
	for n := to.users.Load(); n > 0; n = to.users.Load() { // it is open
		if to.users.CompareAndSwap(n, n+1) {
			return to
		}
	}
	return nil
}

// ShareConn returns the gRPC connection of a client of this package, nil over HTTP. It
// stays open until the client has stopped and the SharedConn is closed.
func ShareConn(with exporter.Client) *SharedConn {
	of, _ := with.(*client)
	if of == nil || of.settings.protocol != "grpc" {
		return nil
	}
	to := of.settings.shared(of)
	if to == nil {
		return nil
	}
	return &SharedConn{&to.http, to}
}

// A SharedConn is a share in a connection.
type SharedConn struct {
	*http.Client
	of *connection
}

// Close gives up the share.
func (c *SharedConn) Close() error {
	c.of.release()
	return nil
}

func (s *Settings) sameReceiver(as *Settings) bool {
	return s.protocol == as.protocol && s.endpoint.Scheme == as.endpoint.Scheme && s.endpoint.Host == as.endpoint.Host &&
		(s.endpoint.Scheme != "unix" || s.endpoint.String() == as.endpoint.String()) &&
		s.compression == as.compression && s.userAgent == as.userAgent && s.tlsFiles == as.tlsFiles
}

// release is called by each user. The last one closes the connection.
func (c *connection) release() {
	if c.users.Add(-1) == 0 {
		c.cut()
	}
}
