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

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/internal/unary"
)

// Off is the address of a protocol that is not served.
const Off = "off"

// A Config says where to listen and what to do with the requests.
type Config struct {
	GRPC, HTTP string // host:port, or Off; empty is a free port on loopback

	// Handle is required. It is called for every request, by several goroutines at
	// once. Its error is returned to the client: a gRPC status unchanged, any other
	// error as Internal.
	Handle func(context.Context, []*tracepb.ResourceSpans) (Rejected, error)

	// Open is called with the spans that a process, named by source, has open. If
	// Open is nil, such requests are refused, as by any collector.
	Open func(source string, spans []*tracepb.ResourceSpans)

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
	grpcAddr, httpAddr net.Addr
	servers            []*http.Server
	cancel             context.CancelFunc // of the requests
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
	if grpcListener != nil {
		r.grpcAddr = grpcListener.Addr()
		protocols := unary.Protocols()
		protocols.SetHTTP1(true) // to say that the port is the wrong one
		r.serve(ctx, grpcListener, s.grpcHandler(), protocols)
	}
	if httpListener != nil {
		r.httpAddr = httpListener.Addr()
		r.serve(ctx, httpListener, s.handler(), nil)
	}
	return r, nil
}

// maxFrame is the largest HTTP/2 frame that a client may send, as with grpc-go. By
// default it would be 1 MiB, and clients keep several frames in memory.
const maxFrame = 16 << 10

// serve serves in the background. Without protocols, it serves those of net/http.
func (r *Receiver) serve(ctx context.Context, l net.Listener, h http.Handler, protocols *http.Protocols) {
	server := &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxReadFrameSize: maxFrame},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(io.Discard, "", 0), // it would print to stderr
	}
	r.servers = append(r.servers, server)
	r.serving.Go(func() { _ = server.Serve(l) }) // returns when Close is called, with an error that says so
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

// Close cancels the context of all requests being handled, and returns once
// the listeners are closed.
func (r *Receiver) Close() {
	r.cancel()
	for _, server := range r.servers {
		_ = server.Close()
	}
	r.serving.Wait()
}
