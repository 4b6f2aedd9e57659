package otlp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
)

// readPreferences reads the variables that only metrics have. As the specification says, invalid
// ones are ignored. The buckets of histograms are those of the conventions.
func (s *Settings) readPreferences() {
	for _, preference := range []struct {
		name   string
		values []string
	}{
		{"TEMPORALITY_PREFERENCE", []string{"cumulative", "delta", "lowmemory"}},
		{"DEFAULT_HISTOGRAM_AGGREGATION", []string{"explicit_bucket_histogram"}},
	} {
		variable := s.prefix() + preference.name
		from := source{variable: variable, value: strings.TrimSpace(os.Getenv(variable))}
		value, invalid := from.oneOf(preference.values...)
		if invalid != nil {
			s.ignored = append(s.ignored, invalid)
		}
		s.deltas = s.deltas || value == "delta" || value == "lowmemory"
	}
}

// Deltas reports whether metrics are sent as deltas. The settings must be for metrics.
func (s *Settings) Deltas() bool { return s.deltas }

// MetricsClient returns a client that sends encoded metrics. The settings must be for metrics.
func (s *Settings) MetricsClient() exporter.MetricsClient {
	return &client{settings: s}
}

// UploadMetrics makes one attempt to send an ExportMetricsServiceRequest. It returns an
// *exporter.UploadError.
func (c *client) UploadMetrics(ctx context.Context, request []byte) error {
	delay := &c.settings.metricsDelay
	if left := delay.Left(); left > 0 {
		return delayed(endpoint.Failure(exporter.Retryable, "the receiver asked for a delay", ""), left)
	}
	err := c.upload(ctx, func(ctx context.Context, conn *connection) error {
		err := c.sendMetrics(ctx, conn, request)
		if isNoMetrics(err) {
			return nil
		}
		return err
	})
	if failed, ok := errors.AsType[*exporter.UploadError](err); ok {
		delay.Heard(failed)
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
