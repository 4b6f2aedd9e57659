package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// ErrNoMetrics means that a receiver, such as Jaeger, takes spans but no metrics.
// It wraps [errors.ErrUnsupported].
var ErrNoMetrics = fmt.Errorf("the receiver takes no metrics: %w", errors.ErrUnsupported)

// A MetricExporter sends metrics to one endpoint.
//
// It replaces OpenTelemetry's exporters, whose own protobuf types, retries and
// connection a short session would pay for without using them, and which take no
// metrics that are encoded already, such as those of a spool.
type MetricExporter struct {
	settings   *Settings
	connection *connection
}

// MetricExporter returns an exporter with these settings, which must be for metrics.
//
// If spans go to the same receiver, by a client of this package, both share its
// connection. It is made in the background: by the end of a short run it is there.
func (s *Settings) MetricExporter(spans exporter.Client) (*MetricExporter, error) {
	of, _ := spans.(*client)
	to := s.shared(of)
	if to == nil {
		var err error
		if to, err = s.connect(); err != nil {
			return nil, err
		}
	}
	if to.grpc != nil {
		to.grpc.Connect()
	}
	return &MetricExporter{s, to}, nil
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
	return e.settings.uploadMetrics(ctx, e.connection, request)
}

// Destination returns where metrics go, for a spool.
func (e *MetricExporter) Destination() spool.Destination { return e.settings.Destination() }

// Close closes the connection, unless spans use it.
func (e *MetricExporter) Close() { e.connection.release() }

// UploadMetrics sends metrics from a spool. The client must be started.
func (c *client) UploadMetrics(ctx context.Context, request []byte) error {
	to, err := c.connect()
	if err != nil {
		return err
	}
	return c.settings.uploadMetrics(ctx, to, request)
}

// uploadMetrics makes one attempt to send an encoded request.
func (s *Settings) uploadMetrics(ctx context.Context, to *connection, request []byte) error {
	var got answer
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, answerKey{}, &got), s.timeout)
	defer cancel()
	send := s.postMetrics
	if to.grpc != nil {
		send = s.callMetrics
	}
	return s.metricsError(send(ctx, to, request), got)
}

const metricsMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

func (s *Settings) callMetrics(ctx context.Context, to *connection, request []byte) error {
	// Requests of spans and metrics differ only in what is encoded already, and their
	// responses not at all. The types for spans are ready for use.
	message := new(coltracepb.ExportTraceServiceRequest)
	message.ProtoReflect().SetUnknown(request)
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(s.headers))
	return to.grpc.Invoke(ctx, metricsMethod, message, new(coltracepb.ExportTraceServiceResponse))
}

func (s *Settings) postMetrics(ctx context.Context, to *connection, request []byte) error {
	kind, encoding := "application/x-protobuf", ""
	if s.protocol == "http/json" {
		var err error
		if request, err = metricsJSON(request); err != nil {
			return err
		}
		kind = "application/json"
	}
	if s.compression == "gzip" {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(request) // to memory
		_ = w.Close()
		request, encoding = packed.Bytes(), "gzip"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), bytes.NewReader(request))
	if err != nil {
		return err
	}
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", kind)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := s.httpClient(to).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// metricsJSON returns a request as OTLP JSON. protojson cannot do this: it writes ids
// in base64, not hex.
func metricsJSON(request []byte) ([]byte, error) {
	decoded, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(request)
	if err != nil {
		return nil, err
	}
	return (&pmetric.JSONMarshaler{}).MarshalMetrics(decoded)
}

// metricsError returns what the receiver's answer to a request of metrics means.
func (s *Settings) metricsError(err error, got answer) error {
	if got.err != nil {
		err = got.err
	}
	if rejected, message := got.partial.GetRejectedSpans(), got.partial.GetErrorMessage(); rejected != 0 || message != "" {
		return partialSuccess(rejected, message)
	}
	if err == nil {
		return nil
	}
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
