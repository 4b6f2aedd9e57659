package otlp

import (
	"context"
	"testing"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// leaveMetrics leaves a log with metrics for where cfg leads.
func leaveMetrics(t *testing.T, s *spool.Spool, cfg Config) {
	t.Helper()
	spans, err := Resolve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	to := metricsClient(t, cfg).Destination()
	s.NewLog(spans.Destination(), &to).Close("it was down", oneGauge(t))
}

// TestSpooledMetricsGoToTheirOwnEndpoint sends metrics where the variables for metrics
// led, with the headers for metrics, and to no other endpoint with any.
func TestSpooledMetricsGoToTheirOwnEndpoint(t *testing.T) {
	own, ownGot := headers(t)
	foreign, foreignGot := headers(t)
	s := newSpool(t)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", foreign)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=of-spans")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", own+"/take")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=of-metrics")
	leaveMetrics(t, s, Config{})
	leaveMetrics(t, s, Config{Endpoint: foreign})
	for _, f := range flush(t, s, Config{UserAgent: "spantee/1.2"}) {
		if f.Err != nil || f.Delivered != 0 {
			t.Errorf("%+v", f)
		}
	}
	if entries, err := s.List(); err != nil || len(entries) > 0 {
		t.Errorf("left %+v, %v", entries, err)
	}
	mine, theirs := ownGot(), foreignGot()
	if len(mine) != 1 || mine[0].Get("Authorization") != "of-metrics" || mine[0].Get("User-Agent") != "spantee/1.2 "+exporterAgent || mine[0].Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("sent %v", mine)
	}
	if len(theirs) != 1 || theirs[0].Get("Authorization") != "" {
		t.Errorf("sent to another endpoint: %v", theirs)
	}
}

// A partialServer accepts all data points but three.
type partialServer struct {
	colmetricpb.UnimplementedMetricsServiceServer
}

func (partialServer) Export(context.Context, *colmetricpb.ExportMetricsServiceRequest) (*colmetricpb.ExportMetricsServiceResponse, error) {
	return &colmetricpb.ExportMetricsServiceResponse{PartialSuccess: &colmetricpb.ExportMetricsPartialSuccess{RejectedDataPoints: 3, ErrorMessage: "too old"}}, nil
}

// gRPC's servers compress their answers as the request was.
func TestPartialSuccessOfMetrics(t *testing.T) {
	url := metricsServer(t, partialServer{})
	for _, compression := range []string{"none", "gzip"} {
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
		e := metricsClient(t, Config{Endpoint: url})
		wantPartial(t, e.UploadMetrics(t.Context(), nil))
	}
}
