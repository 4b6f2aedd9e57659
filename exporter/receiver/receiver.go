// Package receiver is an OTLP receiver for traces, over gRPC and HTTP. It hands
// each request to a function.
package receiver

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
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
	grpc, http net.Listener // nil if it is off
	stop       []func()     // the servers
	drain      []func(context.Context)
	cancel     context.CancelFunc // of the requests
	serving    sync.WaitGroup
}

// Timeouts that cut off slow clients.
const (
	greetingTimeout = 2 * time.Second // over gRPC; Close waits for it
	headerTimeout   = 10 * time.Second
	bodyTimeout     = 30 * time.Second
	idleTimeout     = time.Minute
)

// Start listens on both addresses.
func Start(cfg Config) (r *Receiver, err error) {
	r = new(Receiver)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	s := newService(cfg)
	if r.grpc, err = listen(ctx, cfg.GRPC); r.grpc != nil {
		server := s.grpcServer()
		r.serve(server.Serve, r.grpc, server.Stop)
		r.drain = append(r.drain, func(context.Context) { server.GracefulStop() })
	}
	if err == nil {
		r.http, err = listen(ctx, cfg.HTTP)
	}
	if err != nil {
		r.Close()
		return nil, err
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
		r.drain = append(r.drain, func(ctx context.Context) { _ = server.Shutdown(ctx) })
	}
	return r, nil
}

func (r *Receiver) serve(serve func(net.Listener) error, l net.Listener, stop func()) {
	r.stop = append(r.stop, stop)
	r.serving.Go(func() { _ = serve(l) }) // until Close
}

// Handler returns a handler that serves OTLP/HTTP, for use in another server.
func Handler(cfg Config) http.Handler { return newService(cfg).handler() }

// GRPCEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for gRPC, empty if
// gRPC is off.
func (r *Receiver) GRPCEndpoint() string { return endpoint(r.grpc) }

// HTTPEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for HTTP, empty if
// HTTP is off.
func (r *Receiver) HTTPEndpoint() string { return endpoint(r.http) }

// Drain accepts no more requests, and waits until the others are answered or ctx ends. Close
// must follow.
func (r *Receiver) Drain(ctx context.Context) {
	var drained sync.WaitGroup
	for _, drain := range r.drain {
		drained.Go(func() { drain(ctx) })
	}
	all := make(chan struct{})
	go func() { drained.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
	}
}

// Close cancels the context of all requests being handled, and returns once
// the listeners are closed.
func (r *Receiver) Close() {
	r.cancel()
	for _, stop := range r.stop {
		stop()
	}
	r.serving.Wait()
}

// MaxConnections is how many connections a port has at a time.
const MaxConnections = 256

// Limit returns a listener that closes connections at once while MaxConnections are open:
// clients try again.
func Limit(l net.Listener) net.Listener { return &limited{Listener: l} }

type limited struct {
	net.Listener
	open atomic.Int64
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave := sync.OnceFunc(func() { l.open.Add(-1) }) // servers may close a connection twice
		if l.open.Add(1) <= MaxConnections {
			return &conn{c, leave}, nil
		}
		leave()
		_ = c.Close()
	}
}

type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// listen returns nil for Off.
func listen(ctx context.Context, address string) (net.Listener, error) {
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
	return Limit(l), nil
}

func endpoint(l net.Listener) string {
	if l == nil {
		return ""
	}
	return "http://" + l.Addr().String()
}
