// Package receiver is the other end of OTLP: it takes traces over gRPC and over
// HTTP, as a collector does, and hands each request to a function.
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
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/keepalive"
)

// A Config says where to listen and what to do with the requests.
type Config struct {
	GRPC, HTTP string // host:port; empty is a free port on loopback

	// Handle is required. It is called for every request, by several goroutines
	// at once. Its error reaches the client: a gRPC status as such, any other as
	// internal. A nil response means that all was accepted.
	Handle func(context.Context, *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error)
}

// A Receiver listens until Close.
type Receiver struct {
	grpcAddr, httpAddr net.Addr
	grpcServer         *grpc.Server
	httpServer         *http.Server
	cancel             context.CancelFunc // of the requests over HTTP
	serving            sync.WaitGroup
}

// A client that is slower than this is cut off.
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
		_ = grpcListener.Close()
		return nil, err
	}
	s := service{handle: cfg.Handle}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.serveTraces)
	r := &Receiver{
		grpcAddr: grpcListener.Addr(),
		httpAddr: httpListener.Addr(),
		grpcServer: grpc.NewServer(
			grpc.ConnectionTimeout(headerTimeout),
			grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
		),
		httpServer: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       bodyTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ErrorLog:          log.New(io.Discard, "", 0), // it would print to stderr
		},
		cancel: cancel,
	}
	coltracepb.RegisterTraceServiceServer(r.grpcServer, s)
	// They return when Close is called, with an error that says so.
	r.serving.Go(func() { _ = r.grpcServer.Serve(grpcListener) })
	r.serving.Go(func() { _ = r.httpServer.Serve(httpListener) })
	return r, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// GRPCEndpoint is what OTEL_EXPORTER_OTLP_ENDPOINT has to be for gRPC.
func (r *Receiver) GRPCEndpoint() string { return "http://" + r.grpcAddr.String() }

// HTTPEndpoint is what OTEL_EXPORTER_OTLP_ENDPOINT has to be for HTTP.
func (r *Receiver) HTTPEndpoint() string { return "http://" + r.httpAddr.String() }

// Close breaks off the requests being handled, by their context, and returns
// when nobody listens any more.
func (r *Receiver) Close() {
	r.cancel()
	r.grpcServer.Stop()
	_ = r.httpServer.Close()
	r.serving.Wait()
}

// A service is what both protocols do with a request.
type service struct {
	coltracepb.UnimplementedTraceServiceServer
	handle func(context.Context, *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error)
}

// Export serves gRPC.
func (s service) Export(ctx context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	resp, err := s.handle(ctx, req)
	if err != nil {
		return nil, toStatus(err).Err()
	}
	if resp == nil {
		resp = new(coltracepb.ExportTraceServiceResponse)
	}
	return resp, nil
}
