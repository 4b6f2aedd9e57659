package otlp

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// The methods of OTLP's services.
const (
	tracesMethod  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	metricsMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

// call sends a request over gRPC.
func (s *Settings) call(ctx context.Context, to *connection, request []byte) (*response, error) {
	method := tracesMethod
	if s.signal == Metrics {
		method = metricsMethod
	}
	answer := new(response)
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(s.headers))
	return answer, to.grpc.Invoke(ctx, method, request, answer, grpc.ForceCodecV2(encoded{&to.copies}))
}

// encoded is the codec of requests that are encoded already.
type encoded struct{ copies *copies }

// Marshal copies the request: gRPC may still read it after the response has come.
func (e encoded) Marshal(request any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.Copy(request.([]byte), e.copies)}, nil
}

func (encoded) Unmarshal(wire mem.BufferSlice, answer any) error {
	b := wire.Materialize()
	if saysNothing(b) {
		return nil
	}
	return proto.Unmarshal(b, answer.(*response))
}

// Name is empty so that the content type is application/grpc, which every receiver
// knows.
func (encoded) Name() string { return "" }

// copies keeps the buffer of the last request for the next one. gRPC's own pool would
// lose it at the next garbage collection.
type copies struct {
	mu    sync.Mutex
	spare []byte
}

// maxSpare is the size of the largest buffer that is kept. A full request of the
// Exporter fits into it.
const maxSpare = 2 << 20

// Get implements [mem.BufferPool].
func (c *copies) Get(length int) *[]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.spare
	c.spare = nil
	if cap(b) < length {
		b = make([]byte, length+length/8) // the next request may be a little larger
	}
	b = b[:length]
	return &b
}

// Put implements [mem.BufferPool].
func (c *copies) Put(b *[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cap(*b) <= maxSpare && cap(*b) > cap(c.spare) {
		c.spare = *b
	}
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
		grpc.WithUserAgent(s.withUserAgent(exporterAgent)),
		grpc.WithDisableServiceConfig(), // else gRPC asks the DNS server for one before it connects
		// By default gRPC backs off for up to two minutes, and fails every attempt
		// in between without dialing.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 20 * time.Second, // gRPC's default
		}),
		// By default gRPC dials a receiver that is not there again and again, for 30
		// minutes after the last request. After this time it closes a connection, too:
		// the next request makes another one.
		grpc.WithIdleTimeout(30 * time.Second),
	}
	if s.compression == "gzip" {
		opts = append(opts, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	}
	return opts
}
