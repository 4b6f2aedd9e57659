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
	"github.com/spantee/spantee/exporter/spool"
)

// forward listens for an address and counts the connections that carry requests.
func forward(t *testing.T, address string) (listening string, connections *atomic.Int32) {
	t.Helper()
	connections = new(atomic.Int32)
	return serveConns(t, func(in net.Conn) { relay(in, address, func() { connections.Add(1) }) }), connections
}

// relay connects in with an address. It calls used if in carries a request.
func relay(in net.Conn, address string, used func()) {
	defer in.Close()
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	var answering sync.WaitGroup
	answering.Go(func() { _, _ = io.Copy(in, out); in.Close() })
	const greeting = 100 // at most: what a client of HTTP/2 sends before its first request
	if _, err := io.CopyN(out, in, greeting); err == nil {
		used()
		_, _ = io.Copy(out, in)
	}
	out.Close()
	answering.Wait()
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
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", test.compression)
			settings, err := Resolve(Config{Signal: spool.Metrics, Protocol: test.protocol, Endpoint: "http://" + address})
			if err != nil {
				t.Fatal(err)
			}
			metrics := settings.MetricExporter(spans)
			send := func() {
				t.Helper()
				request, err := metrics.Encode(&metricdata.ResourceMetrics{})
				if err == nil {
					err = metrics.UploadMetrics(t.Context(), request)
				}
				if err != nil {
					t.Error(err)
				}
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
