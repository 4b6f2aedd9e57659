package otlp

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/metrics/metricstest"
)

// forward listens for an address and counts the connections to it.
func forward(t *testing.T, address string) (listening string, connections *atomic.Int32) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			out, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
			if err != nil {
				in.Close()
				return
			}
			all.Go(func() { _, _ = io.Copy(out, in); out.Close() })
			all.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String(), connections
}

// TestMetricsShareTheConnection sends spans and metrics over one connection, if
// nothing is different about it. It is there until both have stopped.
func TestMetricsShareTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		protocol, compression string // of metrics
		connections           int32
	}{
		"gRPC":                 {"grpc", "", 1},
		"HTTP":                 {"http/protobuf", "", 1},
		"compressed otherwise": {"grpc", "gzip", 2},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := metricstest.Start(t)
			at := receiver.GRPCEndpoint()
			if test.protocol != "grpc" {
				at = receiver.HTTPEndpoint()
			}
			address, connections := forward(t, strings.TrimPrefix(at, "http://"))
			spans, err := New(Config{Protocol: test.protocol, Endpoint: "http://" + address})
			if err != nil {
				t.Fatal(err)
			}
			settings, err := Resolve(Config{Signal: Metrics, Protocol: test.protocol, Endpoint: "http://" + address, Compression: test.compression})
			if err != nil {
				t.Fatal(err)
			}
			metrics, err := settings.MetricExporter(spans)
			if err != nil {
				t.Fatal(err)
			}
			send := func() {
				t.Helper()
				if err := metrics.UploadMetrics(t.Context(), metrics.Encode(&metricdata.ResourceMetrics{})); err != nil {
					t.Error(err)
				}
			}
			if err := spans.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := spans.UploadTraces(t.Context(), encodeRequest(&tracepb.ResourceSpans{})); err != nil {
				t.Error(err)
			}
			send()
			if err := spans.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			send()
			if n := connections.Load(); n != test.connections {
				t.Errorf("%d connections, want %d", n, test.connections)
			}
			metrics.Close()
		})
	}
}
