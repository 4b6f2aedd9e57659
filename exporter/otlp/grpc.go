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
	"google.golang.org/grpc/encoding/gzip"
)

func (s *Settings) grpcClient(to *connection) otlptrace.Client {
	return otlptracegrpc.NewClient(
		otlptracegrpc.WithGRPCConn(to.grpc),
		otlptracegrpc.WithHeaders(s.headers),
		otlptracegrpc.WithTimeout(s.timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}), // the Exporter retries
	)
}

// dialing returns the target and the credentials for gRPC.
func (s *Settings) dialing() (target string, creds credentials.TransportCredentials) {
	switch s.endpoint.Scheme {
	case "https":
		return s.endpoint.Host, credentials.NewTLS(s.tls)
	case "unix":
		return s.endpoint.String(), insecure.NewCredentials()
	}
	return s.endpoint.Host, insecure.NewCredentials()
}

func (s *Settings) dialOptions(creds credentials.TransportCredentials) []grpc.DialOption {
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent(strings.TrimSpace(s.userAgent + " OTel OTLP Exporter Go/" + otlptrace.Version())),
		grpc.WithChainUnaryInterceptor(recordAnswer),
		// By default gRPC backs off for up to two minutes, and fails every attempt
		// in between without dialing.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 20 * time.Second, // gRPC's default
		}),
	}
	if s.compression == "gzip" {
		opts = append(opts, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	}
	return opts
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
