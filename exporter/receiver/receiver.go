// Package receiver is an OTLP receiver for traces, over gRPC and HTTP. It hands
// each request to a function.
package receiver

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Off is the address of a protocol that is not served.
const Off = "off"

// A Config says where to listen and what to do with the requests.
type Config struct {
	GRPC, HTTP string // host:port, or Off; empty is a free port on loopback

	// Handle is required. It is called for every request, an encoded TracesData, by several
	// goroutines at once. Its error is returned to the client: a gRPC status unchanged, any other
	// error as Internal.
	Handle func(ctx context.Context, request []byte) (Rejected, error)

	// Open is called with the same of the spans that a process, named by source, has open. If
	// Open is nil, such requests are refused, as by any collector.
	Open func(source string, request []byte)

	// MaxCost is how much memory a request may take once decoded; 64 MB if zero.
	MaxCost int
}

// Rejected is what was not accepted of a request; zero for nothing.
type Rejected struct {
	Spans   int64
	Message string // why, or a warning
}

// A Receiver listens until Close.
type Receiver struct {
	grpc, http *listener          // nil if it is off
	stop       []func()           // the servers
	cancel     context.CancelFunc // of the requests
	serving    sync.WaitGroup
}

// Timeouts that cut off slow clients.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = time.Minute
)

// Start listens on both addresses.
func Start(cfg Config) (r *Receiver, err error) {
	r = new(Receiver)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	if r.grpc, err = listen(ctx, cfg.GRPC); err == nil {
		r.http, err = listen(ctx, cfg.HTTP)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	s := newService(cfg)
	if r.grpc != nil {
		server := s.grpcServer()
		r.serve(server.Serve, r.grpc, server.Stop)
	}
	if r.http != nil {
		server := &http.Server{
			Handler:           s.handler(),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       bodyTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ErrorLog:          log.New(io.Discard, "", 0), // by default it prints to stderr
		}
		r.serve(server.Serve, r.http, func() { _ = server.Close() })
	}
	return r, nil
}

func (r *Receiver) serve(serve func(net.Listener) error, l *listener, stop func()) {
	r.stop = append(r.stop, stop)
	r.serving.Go(func() { _ = serve(l) }) // until Close
}

// Handler returns a handler that serves OTLP/HTTP, for use in another server.
func Handler(cfg Config) http.Handler { return newService(cfg).handler() }

// GRPCEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for gRPC, empty if
// gRPC is off.
func (r *Receiver) GRPCEndpoint() string { return r.grpc.endpoint() }

// HTTPEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for HTTP, empty if
// HTTP is off.
func (r *Receiver) HTTPEndpoint() string { return r.http.endpoint() }

// Close cancels the context of all requests being handled, and returns once
// the listeners are closed.
func (r *Receiver) Close() {
	r.cancel()
	r.grpc.cut()
	r.http.cut()
	for _, stop := range r.stop {
		stop()
	}
	r.serving.Wait()
}

// maxConnections is how many connections a port has at a time. Further ones are closed at
// once: clients try again.
const maxConnections = 256

// A listener bounds the connections that are open. It can close all of them, because a
// gRPC server that stops waits for every client that has connected and sent nothing.
type listener struct {
	net.Listener

	mu   sync.Mutex
	open map[net.Conn]bool
}

// listen returns nil for Off.
func listen(ctx context.Context, address string) (*listener, error) {
	switch address {
	case Off:
		return nil, nil
	case "":
		address = "127.0.0.1:0"
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, open: map[net.Conn]bool{}}, nil
}

func (l *listener) endpoint() string {
	if l == nil {
		return ""
	}
	return "http://" + l.Addr().String()
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if accepted := l.add(conn); accepted != nil {
			return accepted, nil
		}
		_ = conn.Close()
	}
}

// add returns nil if too many connections are open.
func (l *listener) add(conn net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == maxConnections {
		return nil
	}
	accepted := &acceptedConn{conn, l}
	l.open[accepted] = true
	return accepted
}

// cut closes the listener and all connections.
func (l *listener) cut() {
	if l == nil {
		return
	}
	_ = l.Close()
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

type acceptedConn struct {
	net.Conn
	of *listener
}

func (c *acceptedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
