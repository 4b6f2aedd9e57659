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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
)

// ErrNoMetrics is what a receiver answers that takes spans and no metrics, such
// as Jaeger. It is an [errors.ErrUnsupported].
var ErrNoMetrics = fmt.Errorf("the receiver takes no metrics: %w", errors.ErrUnsupported)

// MetricExporter returns OpenTelemetry's own exporter with these settings. Its
// Export makes one attempt, and returns an *exporter.UploadError or
// [ErrNoMetrics]. Metrics have no JSON form there:
// http/json means http/protobuf.
func (s *Settings) MetricExporter(ctx context.Context) (metric.Exporter, error) {
	if s.protocol == "grpc" {
		target, creds := s.dialing()
		opts := append(s.dialOptions(), grpc.WithTransportCredentials(creds))
		if s.compression == "gzip" {
			opts = append(opts, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
		}
		conn, err := grpc.NewClient(target, opts...)
		if err != nil {
			return nil, err
		}
		conn.Connect() // in the background: by the end of a short run it is there
		e, err := otlpmetricgrpc.New(ctx,
			otlpmetricgrpc.WithGRPCConn(conn),
			otlpmetricgrpc.WithHeaders(s.headers),
			otlpmetricgrpc.WithTimeout(s.timeout),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}),
		)
		return &metricExporter{e, s, func() { _ = conn.Close() }}, err
	}
	hc := s.httpClient()
	compression := otlpmetrichttp.NoCompression
	if s.compression == "gzip" {
		compression = otlpmetrichttp.GzipCompression
	}
	e, err := otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithHTTPClient(hc),
		otlpmetrichttp.WithEndpointURL(s.endpoint.String()),
		otlpmetrichttp.WithTLSClientConfig(nil), // the transport has it; over http:// the client would refuse to start
		otlpmetrichttp.WithHeaders(s.headers),
		otlpmetrichttp.WithCompression(compression),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}),
	)
	return &metricExporter{e, s, hc.CloseIdleConnections}, err
}

// A metricExporter is one of OpenTelemetry's that returns UploadErrors.
type metricExporter struct {
	metric.Exporter
	settings *Settings
	stopped  func() // releases connections
}

func (e *metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	var got answer
	err := e.Exporter.Export(context.WithValue(ctx, answerKey{}, &got), data)
	if got.err != nil {
		err = got.err
	}
	if rejected, message := got.partial.GetRejectedSpans(), got.partial.GetErrorMessage(); rejected != 0 || message != "" { // of data points
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
	return classify(err, e.settings.endpoint.Redacted())
}

func (e *metricExporter) Shutdown(ctx context.Context) error {
	err := e.Exporter.Shutdown(ctx)
	e.stopped()
	return err
}
