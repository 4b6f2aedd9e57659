package otlp

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

func newGRPC(s *Settings) *client {
	target, creds := s.dialing()
	opts := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(target),
		otlptracegrpc.WithTLSCredentials(creds),
		otlptracegrpc.WithHeaders(s.headers),
		otlptracegrpc.WithTimeout(s.timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}), // the Exporter retries
		otlptracegrpc.WithDialOption(s.dialOptions()...),
	}
	if s.compression != "" { // WithCompressor("none") makes the client log an error
		opts = append(opts, otlptracegrpc.WithCompressor(s.compression))
	}
	return &client{Client: otlptracegrpc.NewClient(opts...), settings: s, stopped: func() {}}
}

// dialing returns what gRPC is to dial, and how to secure the connection.
func (s *Settings) dialing() (target string, creds credentials.TransportCredentials) {
	switch s.endpoint.Scheme {
	case "https":
		return s.endpoint.Host, credentials.NewTLS(s.tls)
	case "unix":
		return s.endpoint.String(), insecure.NewCredentials()
	}
	return s.endpoint.Host, insecure.NewCredentials()
}

func (s *Settings) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUserAgent(strings.TrimSpace(s.userAgent + " OTel OTLP Exporter Go/" + otlptrace.Version())),
		grpc.WithChainUnaryInterceptor(recordAnswer),
		// By default gRPC would not dial again for up to two minutes, and
		// fail every attempt in between without trying.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 20 * time.Second, // gRPC's default
		}),
	}
}

// recordAnswer keeps what the receiver replied.
func recordAnswer(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	a := answerTo(ctx)
	a.err = err
	if response, ok := reply.(*coltracepb.ExportTraceServiceResponse); ok && err == nil {
		a.partial = response.GetPartialSuccess()
	}
	return err
}
