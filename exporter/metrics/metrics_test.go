package metrics_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/goleak"

	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/mapping"
)

func TestMain(m *testing.M) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // as main does
	goleak.VerifyTestMain(m)
}

// record starts a Recorder that sends to endpoint, at each interval if that is not zero.
func record(t *testing.T, protocol, endpoint string, interval time.Duration) *metrics.Recorder {
	t.Helper()
	settings, err := otlp.Resolve(otlp.Config{Signal: otlp.Metrics, Protocol: protocol, Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	to, err := settings.MetricExporter()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, to, interval)
}

func start(t *testing.T, to sdk.Exporter, interval time.Duration) *metrics.Recorder {
	t.Helper()
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", fmt.Sprint(cmp.Or(interval, time.Hour).Milliseconds()))
	return metrics.New(to, "1.2", resource.NewSchemaless(attribute.String("service.instance.id", fmt.Sprint("instance-", instances.Add(1)))))
}

var instances atomic.Int32

// finish closes a Recorder within the time that any machine needs.
func finish(t *testing.T, r *metrics.Recorder) (left []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return r.Close(ctx)
}

// trace feeds a stream to a Recorder.
func trace(t *testing.T, r *metrics.Recorder, stream []byte) {
	t.Helper()
	m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	for out, err := range m.Read(bytes.NewReader(stream)) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Span != nil {
			r.Count(facts(t, out.Span))
		}
	}
}

// TestGolden sends the metrics of every fixture to a real receiver. They are what
// its golden file says.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			stream, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".trace")
			if err != nil {
				t.Fatal(err)
			}
			want := expect(t, parseGolden(t, string(golden)))
			receiver := metricstest.Start(t)
			r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
			if i%2 == 1 {
				_, _ = finish(t, r)
				r = record(t, "http/protobuf", receiver.HTTPEndpoint(), 0)
			}
			trace(t, r, stream)
			if left, err := finish(t, r); err != nil || left != nil {
				t.Fatalf("%d bytes left, %v", len(left), err)
			}
			compare(t, want, receiver.Points())
			for key := range want {
				name, _, _ := strings.Cut(key, "{")
				seen[name] = true
			}
		})
	}
	if len(files) < 30 || len(seen) < 13 {
		t.Errorf("%d fixtures have %d metrics", len(files), len(seen))
	}
}

func compare(t *testing.T, want map[string]sum, got map[string]*metricstest.Point) {
	t.Helper()
	for key, want := range want {
		p := got[key]
		if p == nil {
			if want.total != 0 || strings.HasPrefix(key, "gen_ai") {
				t.Errorf("no %s", key)
			}
			continue
		}
		tolerance := 0.0011 * float64(want.count)
		if want.exact {
			tolerance = 0
		}
		if math.Abs(p.Sum-want.total) > tolerance {
			t.Errorf("%s: %v, want %v", key, p.Sum, want.total)
		}
		if p.Metric.GetHistogram() == nil {
			continue
		}
		buckets := 0
		for _, n := range p.Buckets {
			buckets += int(n)
		}
		if int(p.Count) != want.count || buckets != want.count {
			t.Errorf("%s: %d measured, %d in buckets, want %d", key, p.Count, buckets, want.count)
		}
	}
	for key, p := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s = %v: the golden file says nothing of it", key, p.Sum)
		}
	}
}

// conventions are what the conventions say of each metric, and spantee's README of
// its own.
var conventions = []struct{ name, unit, kind string }{
	{"gen_ai.invoke_agent.duration", "s", "histogram"},
	{"gen_ai.invoke_agent.inference_calls", "{inference_call}", "histogram"},
	{"gen_ai.invoke_agent.tool_calls", "{tool_call}", "histogram"},
	{"gen_ai.execute_tool.duration", "s", "histogram"},
	{"gen_ai.client.inference.duration", "s", "histogram"},
	{"gen_ai.client.inference.time_to_first_chunk", "s", "histogram"},
	{"gen_ai.client.inference.time_per_output_chunk", "s", "histogram"},
	{"gen_ai.client.inference.operation.input_tokens", "{token}", "histogram"},
	{"gen_ai.client.inference.operation.output_tokens", "{token}", "histogram"},
	{"gen_ai.client.inference.usage.input_tokens", "{token}", "counter"},
	{"gen_ai.client.inference.usage.output_tokens", "{token}", "counter"},
	{"gen_ai.client.inference.usage.cache_read.input_tokens", "{token}", "counter"},
	{"gen_ai.client.inference.usage.cache_write.input_tokens", "{token}", "counter"},
	{"gen_ai.client.inference.usage.reasoning.output_tokens", "{token}", "counter"},
	{"mcp.client.operation.duration", "s", "histogram"},
	{"spantee.run.count", "{run}", "counter"},
	{"spantee.run.active", "{run}", "up-down counter"},
	{"spantee.run.idle", "s", "gauge"},
	{"spantee.tool.active", "{tool_call}", "up-down counter"},
	{"spantee.tool.repeats", "{tool_call}", "histogram"},
	{"spantee.cost", "USD", "counter"},
	{"spantee.retries", "{retry}", "counter"},
	{"spantee.stalls", "{stall}", "counter"},
	{"spantee.lines.added", "{line}", "counter"},
	{"spantee.lines.removed", "{line}", "counter"},
	{"spantee.spans.delivered", "{span}", "counter"},
	{"spantee.spans.spooled", "{span}", "counter"},
	{"spantee.spans.dropped", "{span}", "counter"},
}

// kind is a metric's type.
func kind(m *metricpb.Metric) string {
	switch data := m.Data.(type) {
	case *metricpb.Metric_Histogram:
		return "histogram"
	case *metricpb.Metric_Gauge:
		return "gauge"
	case *metricpb.Metric_Sum:
		if data.Sum.IsMonotonic {
			return "counter"
		}
		return "up-down counter"
	}
	return "something else"
}
