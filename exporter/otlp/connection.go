package otlp

import (
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/spantee/spantee/exporter"
)

// A connection leads to one receiver. Spans and metrics share it if they go to
// the same one: to make another costs a short session more than what it sends.
type connection struct {
	grpc   *grpc.ClientConn // nil over HTTP
	copies copies           // of requests over gRPC
	http   *http.Transport
	users  atomic.Int32
}

// connect returns a connection with one user. Nothing is dialled before the first
// request.
func (s *Settings) connect() (*connection, error) {
	c := new(connection)
	c.users.Store(1)
	if s.protocol != "grpc" {
		// By default all clients share one transport, and leave its connections open
		// when they stop.
		c.http = http.DefaultTransport.(*http.Transport).Clone()
		c.http.TLSClientConfig = s.tls
		return c, nil
	}
	target, creds := s.dialing()
	conn, err := grpc.NewClient(target, s.dialOptions(creds)...)
	if err != nil {
		return nil, err
	}
	c.grpc = conn
	return c, nil
}

// shared returns the connection of client, with one more user, if it serves these
// settings, too. Else it returns nil.
func (s *Settings) shared(of *client) *connection {
	if of == nil || !s.sameReceiver(of.settings) {
		return nil
	}
	to, err := of.connect()
	if err != nil {
		return nil
	}
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
	return &SharedConn{to.grpc, to}
}

// A SharedConn is a share in a connection.
type SharedConn struct {
	*grpc.ClientConn
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
	switch {
	case c.users.Add(-1) > 0:
	case c.grpc != nil:
		_ = c.grpc.Close()
	default:
		c.http.CloseIdleConnections()
	}
}
