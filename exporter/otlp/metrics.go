package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// ErrNoMetrics means that a receiver, such as Jaeger, takes spans but no metrics.
// It wraps [errors.ErrUnsupported].
var ErrNoMetrics = fmt.Errorf("the receiver takes no metrics: %w", errors.ErrUnsupported)

// A MetricExporter sends metrics to one endpoint.
type MetricExporter struct {
	settings   *Settings
	connection *connection
}

// MetricExporter returns an exporter with these settings, which must be for metrics.
//
// If spans go to the same receiver, by a client of this package, both share its
// connection.
func (s *Settings) MetricExporter(spans exporter.Client) *MetricExporter {
	of, _ := spans.(*client)
	to := s.shared(of)
	if to == nil {
		to = s.connect()
	}
	return &MetricExporter{s, to}
}

// readPreferences reads the variables that only metrics have. As the specification
// says, an unknown value is ignored.
func (s *Settings) readPreferences() {
	s.temporality = metric.CumulativeTemporalitySelector
	switch from := preference("TEMPORALITY_PREFERENCE"); strings.ToLower(from.value) {
	case "", "cumulative":
	case "delta":
		s.temporality = metric.DeltaTemporalitySelector
	case "lowmemory":
		s.temporality = metric.LowMemoryTemporalitySelector
	default:
		s.ignored = append(s.ignored, from.invalid("want cumulative, delta or lowmemory"))
	}
	s.aggregation = metric.DefaultAggregationSelector
	switch from := preference("DEFAULT_HISTOGRAM_AGGREGATION"); strings.ToLower(from.value) {
	case "", "explicit_bucket_histogram":
	case "base2_exponential_bucket_histogram":
		s.aggregation = exponentialHistograms
	default:
		s.ignored = append(s.ignored, from.invalid("want explicit_bucket_histogram or base2_exponential_bucket_histogram"))
	}
}

func preference(name string) source {
	variable := Metrics.prefix() + name
	return source{variable: variable, value: strings.TrimSpace(os.Getenv(variable))}
}

func exponentialHistograms(kind metric.InstrumentKind) metric.Aggregation {
	if kind == metric.InstrumentKindHistogram {
		return metric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20} // the SDK's defaults
	}
	return metric.DefaultAggregationSelector(kind)
}

// Temporality is as the environment prefers it.
func (e *MetricExporter) Temporality(kind metric.InstrumentKind) metricdata.Temporality {
	return e.settings.temporality(kind)
}

// Aggregation is as the environment prefers it.
func (e *MetricExporter) Aggregation(kind metric.InstrumentKind) metric.Aggregation {
	return e.settings.aggregation(kind)
}

// Encode returns an ExportMetricsServiceRequest.
func (e *MetricExporter) Encode(data *metricdata.ResourceMetrics) []byte { return encodeMetrics(data) }

// UploadMetrics makes one attempt to send what Encode returned. It returns an
// *exporter.UploadError or [ErrNoMetrics].
func (e *MetricExporter) UploadMetrics(ctx context.Context, request []byte) error {
	return e.settings.upload(ctx, e.connection, request)
}

// Destination returns where metrics go, for a spool.
func (e *MetricExporter) Destination() spool.Destination { return e.settings.Destination() }

// Close closes the connection, unless spans use it.
func (e *MetricExporter) Close() { e.connection.release() }

// UploadMetrics sends metrics from a spool.
func (c *client) UploadMetrics(ctx context.Context, request []byte) error {
	return c.upload(ctx, request)
}

// metricsError returns what the error of a request of metrics means.
func (s *Settings) metricsError(err error) error {
	if s, ok := errors.AsType[*statusError](err); ok && s.code == http.StatusNotFound {
		return ErrNoMetrics
	}
	if s, ok := errors.AsType[grpcError](err); ok && s.GRPCStatus().Code() == codes.Unimplemented {
		return ErrNoMetrics
	}
	upload := classify(err, s.shown())
	answer, ok := errors.AsType[*statusError](err)
	busy := ok && (answer.code == http.StatusServiceUnavailable || answer.code == http.StatusTooManyRequests)
	upload.Refused = busy || upload.RetryAfter > 0 || upload.Verdict == exporter.Unreachable || upload.Verdict == exporter.Misconfigured
	return upload
}
