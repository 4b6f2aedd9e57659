package otlp

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// A recorder keeps the last request.
type recorder struct {
	colmetricpb.UnimplementedMetricsServiceServer
	got *colmetricpb.ExportMetricsServiceRequest
}

func (r *recorder) Export(_ context.Context, req *colmetricpb.ExportMetricsServiceRequest) (*colmetricpb.ExportMetricsServiceResponse, error) {
	r.got = req
	return new(colmetricpb.ExportMetricsServiceResponse), nil
}

// measure fills a reader with metrics of every kind.
func measure(t *testing.T, reader metric.Reader) *metricdata.ResourceMetrics {
	t.Helper()
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithCardinalityLimit(3), metric.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "é"), attribute.Int("n", -3), attribute.Bool("b", true), attribute.Float64("f", 0), attribute.String("empty", ""),
	)))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	meter := provider.Meter("a/scope", api.WithInstrumentationVersion("1.2"))
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5}, TraceFlags: trace.FlagsSampled,
	}))
	ints, _ := meter.Int64Counter("ints", api.WithUnit("{x}"), api.WithDescription(strings.Repeat("long ", 100)))
	floats, _ := meter.Float64UpDownCounter("floats")
	sizes, _ := meter.Int64Histogram("sizes", api.WithExplicitBucketBoundaries(1, 2, 1e9))
	times, _ := meter.Float64Histogram("times", api.WithUnit("s"))
	gauge, _ := meter.Float64Gauge("gauge")
	levels, _ := meter.Int64Gauge("levels")
	for i := range 5 {
		with := api.WithAttributes(attribute.Int("i", i), attribute.String("name", strings.Repeat("x", 40*i)))
		ints.Add(ctx, int64(i)<<40, with)
		floats.Add(ctx, -0.5*float64(i), with)
		sizes.Record(ctx, int64(i)-1, with)
		times.Record(ctx, 1000*float64(i)-7, with)
		gauge.Record(ctx, float64(i), with)
		levels.Record(ctx, int64(-i), with)
	}
	data := new(metricdata.ResourceMetrics)
	if err := reader.Collect(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestEncodeMetrics compares requests with those of OpenTelemetry's exporter, under
// the same variables.
func TestEncodeMetrics(t *testing.T) {
	received := new(recorder)
	url := metricsServer(t, received)
	for _, temporality := range []string{"", "cumulative", "Delta", "lowmemory", "nonsense"} {
		for _, aggregation := range []string{"", "explicit_bucket_histogram", "base2_exponential_bucket_histogram"} {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", aggregation)
			settings, err := Resolve(Config{Signal: spool.Metrics, Endpoint: url})
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpointURL(url))
			if err != nil {
				t.Fatal(err)
			}
			ours := settings.MetricExporter(nil)
			for kind := metric.InstrumentKindCounter; kind <= metric.InstrumentKindGauge; kind++ {
				if got, want := ours.Temporality(kind), theirs.Temporality(kind); got != want {
					t.Errorf("%s: %v has the temporality %v, want %v", temporality, kind, got, want)
				}
			}
			data := measure(t, metric.NewManualReader(metric.WithTemporalitySelector(ours.Temporality), metric.WithAggregationSelector(ours.Aggregation)))
			if err := theirs.Export(t.Context(), data); err != nil {
				t.Fatal(err)
			}
			want := received.got
			request, err := ours.Encode(data)
			if err == nil {
				err = ours.UploadMetrics(t.Context(), request)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := len(want.ResourceMetrics[0].ScopeMetrics[0].Metrics); n != 6 || !proto.Equal(received.got, want) || len(received.got.ProtoReflect().GetUnknown()) > 0 {
				t.Errorf("%q, %q: received\n%v\nwant %d metrics\n%v", temporality, aggregation, received.got, n, want)
			}
			isExponential := want.ResourceMetrics[0].ScopeMetrics[0].Metrics[2].GetExponentialHistogram() != nil
			if isExponential != strings.HasPrefix(aggregation, "base2") {
				t.Errorf("%q: exponential: %v", aggregation, isExponential)
			}
			ours.Close()
			_ = theirs.Shutdown(t.Context())
		}
	}
}
