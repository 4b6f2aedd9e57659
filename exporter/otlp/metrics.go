package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// ErrNoMetrics means that a receiver, such as Jaeger, takes spans but no metrics.
// It wraps [errors.ErrUnsupported].
var ErrNoMetrics = fmt.Errorf("the receiver takes no metrics: %w", errors.ErrUnsupported)

// MetricExporter returns OpenTelemetry's own exporter with these settings. Its
// Export makes one attempt, and returns an *exporter.UploadError or
// [ErrNoMetrics]. Metrics have no JSON form there: http/json means http/protobuf.
//
// If spans go to the same receiver, by a client of this package, both share its
// connection. It is made in the background: by the end of a short run it is there.
func (s *Settings) MetricExporter(ctx context.Context, spans exporter.Client) (*MetricExporter, error) {
	of, _ := spans.(*client)
	to := s.shared(of)
	if to == nil {
		var err error
		if to, err = s.connect(); err != nil {
			return nil, err
		}
	}
	go prepareMetrics()
	e, err := s.metricExporter(ctx, to)
	if err != nil {
		to.release()
		return nil, err
	}
	return &MetricExporter{e, s, to}, nil
}

func (s *Settings) metricExporter(ctx context.Context, to *connection) (metric.Exporter, error) {
	if to.grpc != nil {
		to.grpc.Connect()
		return otlpmetricgrpc.New(ctx,
			otlpmetricgrpc.WithGRPCConn(to.grpc),
			otlpmetricgrpc.WithHeaders(s.headers),
			otlpmetricgrpc.WithTimeout(s.timeout),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}),
		)
	}
	compression := otlpmetrichttp.NoCompression
	if s.compression == "gzip" {
		compression = otlpmetrichttp.GzipCompression
	}
	return otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithHTTPClient(s.httpClient(to)),
		otlpmetrichttp.WithEndpointURL(s.endpoint.String()),
		otlpmetrichttp.WithTLSClientConfig(nil), // the transport has it; over http:// the client would refuse to start
		otlpmetrichttp.WithHeaders(s.headers),
		otlpmetrichttp.WithCompression(compression),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}),
	)
}

// prepareMetrics encodes one metric of each kind. Protobuf prepares a type of
// message when it is first encoded, which nobody is to wait for at the end.
func prepareMetrics() {
	number := &metricpb.NumberDataPoint{Attributes: []*commonpb.KeyValue{{Value: &commonpb.AnyValue{}}}, Exemplars: []*metricpb.Exemplar{{}}}
	_ = proto.Size(&colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricpb.ResourceMetrics{{
		Resource: &resourcepb.Resource{},
		ScopeMetrics: []*metricpb.ScopeMetrics{{Scope: &commonpb.InstrumentationScope{}, Metrics: []*metricpb.Metric{
			{Data: &metricpb.Metric_Sum{Sum: &metricpb.Sum{DataPoints: []*metricpb.NumberDataPoint{number}}}},
			{Data: &metricpb.Metric_Gauge{Gauge: &metricpb.Gauge{}}},
			{Data: &metricpb.Metric_Histogram{Histogram: &metricpb.Histogram{DataPoints: []*metricpb.HistogramDataPoint{{}}}}},
		}}},
	}}})
}

// A MetricExporter wraps OpenTelemetry's exporter to return UploadErrors.
type MetricExporter struct {
	metric.Exporter
	settings   *Settings
	connection *connection
}

// Export sends metrics.
func (e *MetricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	var got answer
	err := e.Exporter.Export(context.WithValue(ctx, answerKey{}, &got), data)
	return e.settings.metricsError(err, got)
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

// Destination returns where metrics go, for a spool.
func (e *MetricExporter) Destination() spool.Destination { return e.settings.Destination() }

// UploadMetrics sends what Encode returned.
func (e *MetricExporter) UploadMetrics(ctx context.Context, request []byte) error {
	return e.settings.uploadMetrics(ctx, e.connection, request)
}

// Shutdown closes the connection, unless spans use it.
func (e *MetricExporter) Shutdown(ctx context.Context) error {
	err := e.Exporter.Shutdown(ctx)
	e.connection.release()
	return err
}
