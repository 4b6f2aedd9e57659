package otlp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
)

// MetricExporter returns OpenTelemetry's exporter with these settings, which must be for
// metrics. It retries only when the receiver asks for a delay that the context allows,
// because deltas are in one request only. A receiver that takes no metrics, such as Jaeger,
// is no failure.
func (s *Settings) MetricExporter() (metric.Exporter, error) {
	secure, err := s.tls.load()
	if err != nil {
		return nil, err
	}
	if s.protocol != "grpc" {
		compression := otlpmetrichttp.NoCompression
		if s.compression == "gzip" {
			compression = otlpmetrichttp.GzipCompression
		}
		to, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithHTTPClient(s.httpClient(secure)), otlpmetrichttp.WithEndpointURL(s.endpoint.String()),
			otlpmetrichttp.WithHeaders(s.httpHeaders()), otlpmetrichttp.WithCompression(compression), otlpmetrichttp.WithTimeout(s.timeout),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
		return &metricExporter{Exporter: to, settings: s}, err
	}
	conn, err := s.dial(secure)
	if err != nil {
		return nil, err
	}
	to, err := otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithGRPCConn(conn), otlpmetricgrpc.WithHeaders(s.headers), otlpmetricgrpc.WithTimeout(s.timeout),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	return &metricExporter{Exporter: to, settings: s, conn: conn}, err
}

// A metricExporter has errors like those of a client, and none for a receiver that takes no
// metrics.
type metricExporter struct {
	metric.Exporter
	settings *Settings
	conn     *grpc.ClientConn // nil over HTTP
}

func (e *metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	for {
		err := e.attempt(ctx, data)
		failed, ok := errors.AsType[*exporter.UploadError](err)
		if !ok || failed.RetryAfter <= 0 {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < failed.RetryAfter {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(failed.RetryAfter):
		}
	}
}

// attempt sends a request once, unless the receiver has asked for a delay.
func (e *metricExporter) attempt(ctx context.Context, data *metricdata.ResourceMetrics) error {
	if early := e.settings.early(); early != nil {
		return early
	}
	err := e.Exporter.Export(ctx, data)
	if err == nil || isNoMetrics(err) {
		return nil
	}
	if lost, unanswered := errors.AsType[noAnswer](err); unanswered {
		return e.settings.explain(ctx, lost.error)
	}
	failed := e.settings.classify(ctx, err)
	e.settings.metricsDelay.Heard(failed)
	return failed
}

// early returns an error if a request would come before the receiver wants one.
func (s *Settings) early() error {
	if left := s.metricsDelay.Left(); left > 0 {
		return delayed(endpoint.Failure(exporter.Retryable, "the receiver asked for a delay", ""), left)
	}
	return nil
}

// Shutdown closes the connection without waiting for the server.
func (e *metricExporter) Shutdown(ctx context.Context) error {
	err := e.Exporter.Shutdown(ctx)
	if e.conn != nil {
		go func() { _ = e.conn.Close() }()
	}
	return err
}

// checkPreferences reports the variables that only metrics have, if they are invalid. As
// the specification says, they are ignored. The buckets of histograms are those of the
// conventions.
func (s *Settings) checkPreferences() {
	for _, preference := range []struct {
		name   string
		values []string
	}{
		{"TEMPORALITY_PREFERENCE", []string{"cumulative", "delta", "lowmemory"}},
		{"DEFAULT_HISTOGRAM_AGGREGATION", []string{"explicit_bucket_histogram"}},
	} {
		variable := s.prefix() + preference.name
		from := source{variable: variable, value: strings.TrimSpace(os.Getenv(variable))}
		if _, invalid := from.oneOf(preference.values...); invalid != nil {
			s.ignored = append(s.ignored, invalid)
		}
	}
}

// MetricsClient returns a client that sends encoded metrics. The settings must be for metrics.
func (s *Settings) MetricsClient() exporter.MetricsClient {
	return &client{settings: s}
}

// UploadMetrics makes one attempt to send an ExportMetricsServiceRequest. It returns an
// *exporter.UploadError.
func (c *client) UploadMetrics(ctx context.Context, request []byte) error {
	if early := c.settings.early(); early != nil {
		return early
	}
	err := c.upload(ctx, func(ctx context.Context, conn *connection) error {
		err := c.sendMetrics(ctx, conn, request)
		if isNoMetrics(err) {
			return nil
		}
		return err
	})
	if failed, ok := errors.AsType[*exporter.UploadError](err); ok {
		c.settings.metricsDelay.Heard(failed)
	}
	return err
}

func (c *client) sendMetrics(ctx context.Context, conn *connection, request []byte) error {
	if conn.grpc == nil { // where only the address tells metrics from spans: both requests have the same shape
		parts, err := c.settings.resourceSpans(request)
		if err != nil {
			return err
		}
		return conn.traces.UploadTraces(ctx, parts)
	}
	encoded := new(colmetricpb.ExportMetricsServiceRequest)
	encoded.ProtoReflect().SetUnknown(request)
	_, err := colmetricpb.NewMetricsServiceClient(conn.grpc).Export(metadata.NewOutgoingContext(ctx, metadata.New(c.settings.headers)), encoded)
	return err
}

// isNoMetrics reports whether an error is the answer of a receiver without metrics.
func isNoMetrics(err error) bool {
	if answer, ok := errors.AsType[*statusError](err); ok {
		return answer.code == http.StatusNotFound
	}
	answer, ok := errors.AsType[grpcError](err)
	return ok && answer.GRPCStatus().Code() == codes.Unimplemented
}
