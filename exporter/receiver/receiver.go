// Package receiver is an OTLP receiver for traces, over gRPC and HTTP. It hands
// each request to a function.
package receiver

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Off is the address of a protocol that is not served.
const Off = "off"

// A Config says where to listen and what to do with the requests.
type Config struct {
	GRPC, HTTP string // host:port, or Off; empty is a free port on loopback

	// Handle is required. It is called for every request, by several goroutines at
	// once. Its error is returned to the client: a gRPC status unchanged, any other
	// error as Internal. A nil response means that everything was accepted.
	Handle func(context.Context, *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error)

	// Open is called with the spans that a process, named by source, has open. If
	// Open is nil, such requests are refused, as by any collector.
	Open func(source string, spans []*tracepb.ResourceSpans)

	// MaxCost is how much memory a request may take once decoded; 64 MB if zero.
	MaxCost int
}

// A Receiver listens until Close.
type Receiver struct {
	grpcAddr, httpAddr net.Addr
	grpcServer         *grpc.Server
	httpServer         *http.Server
	cancel             context.CancelFunc // of the requests over HTTP
	serving            sync.WaitGroup
}

// Timeouts that cut off slow clients.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 5 * time.Minute
)

// Start listens on both addresses.
func Start(cfg Config) (*Receiver, error) {
	if cfg.Handle == nil {
		return nil, errors.New("receiver: no Handle")
	}
	ctx, cancel := context.WithCancel(context.Background())
	grpcListener, err := listen(ctx, cfg.GRPC)
	if err != nil {
		cancel()
		return nil, err
	}
	httpListener, err := listen(ctx, cfg.HTTP)
	if err != nil {
		cancel()
		if grpcListener != nil {
			_ = grpcListener.Close()
		}
		return nil, err
	}
	s := newService(cfg)
	r := &Receiver{cancel: cancel}
	// Serve returns when Close is called, with an error that says so.
	if grpcListener != nil {
		r.grpcAddr = grpcListener.Addr()
		r.grpcServer = s.grpcServer()
		r.serving.Go(func() { _ = r.grpcServer.Serve(grpcListener) })
	}
	if httpListener != nil {
		r.httpAddr = httpListener.Addr()
		r.httpServer = &http.Server{
			Handler:           s.handler(),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       bodyTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ErrorLog:          log.New(io.Discard, "", 0), // it would print to stderr
		}
		r.serving.Go(func() { _ = r.httpServer.Serve(httpListener) })
	}
	return r, nil
}

// listen returns nil for Off.
func listen(ctx context.Context, address string) (net.Listener, error) {
	switch address {
	case Off:
		return nil, nil
	case "":
		address = "127.0.0.1:0"
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// Handler returns a handler that serves OTLP/HTTP, for use in another server.
func Handler(cfg Config) http.Handler { return newService(cfg).handler() }

// GRPCEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for gRPC, empty if
// gRPC is off.
func (r *Receiver) GRPCEndpoint() string { return endpoint(r.grpcAddr) }

// HTTPEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for HTTP, empty if
// HTTP is off.
func (r *Receiver) HTTPEndpoint() string { return endpoint(r.httpAddr) }

func endpoint(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return "http://" + addr.String()
}

// Close cancels the context of all HTTP requests being handled, and returns once
// the listeners are closed.
func (r *Receiver) Close() {
	r.cancel()
	if r.grpcServer != nil {
		r.grpcServer.Stop()
	}
	if r.httpServer != nil {
		_ = r.httpServer.Close()
	}
	r.serving.Wait()
}
