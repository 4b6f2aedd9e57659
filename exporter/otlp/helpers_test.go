package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
)

func TestMain(m *testing.M) {
	if os.Getenv("OTLP_TEST_CHILD") == "sink" {
		sink()
		os.Exit(0)
	}
	if os.Getenv("OTLP_TEST_CHILD") == "proxied" {
		proxied()
		os.Exit(0)
	}
	for _, kv := range os.Environ() { // a developer's own collector is not for tests
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	remove := writeAuthority()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { remove(); os.Exit(code) }))
}

var protocols = []string{"grpc", "http/protobuf", "http/json"}

func endpointOf(r *receivertest.Receiver, protocol string) string {
	if protocol == "grpc" {
		return r.GRPCEndpoint()
	}
	return r.HTTPEndpoint()
}

func newClient(t *testing.T, cfg Config) exporter.Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sized is a span of so many bytes on the wire.
func sized(name string, size int) *tracepb.Span {
	span := &tracepb.Span{Name: name, SpanId: []byte("12345678")}
	for n := size - proto.Size(span); proto.Size(span) != size; n-- { // n bytes and their framing
		span.TraceState = strings.Repeat("x", n)
	}
	return span
}

func encode(span *tracepb.Span) []byte {
	b, err := proto.Marshal(span)
	if err != nil {
		panic(err)
	}
	return b
}

func encodeRequest(spans ...*tracepb.ResourceSpans) []byte {
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		panic(err)
	}
	return b
}

func closeWithin(t *testing.T, e *exporter.Exporter, d time.Duration) exporter.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return e.Close(ctx)
}

func wantReport(t *testing.T, r exporter.Report, delivered, dropped int, cause string) {
	t.Helper()
	if r.Ended != delivered+dropped || r.Delivered != delivered || r.Dropped != dropped {
		t.Errorf("%d ended, %d delivered and %d dropped, want %d and %d", r.Ended, r.Delivered, r.Dropped, delivered, dropped)
	}
	if got := fmt.Sprint(r.Cause); dropped > 0 && !strings.Contains(got, cause) {
		t.Errorf("cause is %q, want %q", got, cause)
	}
}

// serveConns runs a server on a free port until the test ends, and returns its address.
// serve is called for each connection, and closes it.
func serveConns(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// grpcServer serves gRPC, by the package of its authors, until the test ends. It returns
// its URL, and the metadata of each request, with the method and the time left.
func grpcServer(t *testing.T) (url string, requests <-chan metadata.MD) {
	t.Helper()
	got := make(chan metadata.MD, 10)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		method, _ := grpc.MethodFromServerStream(stream)
		deadline, _ := stream.Context().Deadline()
		got <- metadata.Join(md, metadata.Pairs(":path", method, "timeout", time.Until(deadline).String()))
		return stream.SendMsg(new(coltracepb.ExportTraceServiceResponse))
	}))
	return serveGRPC(t, server), got
}

// metricsServer serves metrics over gRPC until the test ends, and returns its URL.
func metricsServer(t *testing.T, service colmetricpb.MetricsServiceServer) (url string) {
	t.Helper()
	server := grpc.NewServer()
	colmetricpb.RegisterMetricsServiceServer(server, service)
	return serveGRPC(t, server)
}

// serveGRPC runs a server until the test ends.
func serveGRPC(t *testing.T, server *grpc.Server) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return "http://" + listener.Addr().String()
}

// metricsClient returns a client that is stopped when the test ends.
func metricsClient(t *testing.T, cfg Config) exporter.MetricsClient {
	t.Helper()
	cfg.Signal = Metrics
	settings, err := Resolve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := settings.MetricsClient()
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return c
}

// nobody is the origin of spans without a resource.
var nobody = new(spool.Origin)

// export exports an encoded span.
func export(e *exporter.Exporter, wire []byte, from *spool.Origin) {
	_ = e.Export([]*spool.Span{spool.NewSpan(wire, from)}, nil)
}

// oneGauge is a request with one data point.
func oneGauge(t *testing.T) []byte {
	t.Helper()
	body, err := proto.Marshal(&colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricpb.ResourceMetrics{{ScopeMetrics: []*metricpb.ScopeMetrics{{
		Metrics: []*metricpb.Metric{{Name: "m", Data: &metricpb.Metric_Gauge{Gauge: &metricpb.Gauge{DataPoints: []*metricpb.NumberDataPoint{{}}}}}},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// wantPartial checks that a receiver has rejected 3 data points because they are too
// old.
func wantPartial(t *testing.T, err error) {
	t.Helper()
	upload, ok := errors.AsType[*exporter.UploadError](err)
	if !ok || upload.Verdict != exporter.Partial || upload.Rejected != 3 || upload.Error() != "rejected by the collector: too old" {
		t.Errorf("%+v", upload)
	}
}
