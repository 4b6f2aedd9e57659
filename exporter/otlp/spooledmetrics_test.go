package otlp

import (
	"context"
	"testing"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// leaveMetrics puts a data point into the spool for where cfg leads.
func leaveMetrics(t *testing.T, s *spool.Spool, cfg Config) {
	t.Helper()
	cfg.Signal = spool.Metrics
	settings, err := Resolve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request := &colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricpb.ResourceMetrics{{ScopeMetrics: []*metricpb.ScopeMetrics{{
		Metrics: []*metricpb.Metric{{Name: "m", Data: &metricpb.Metric_Gauge{Gauge: &metricpb.Gauge{DataPoints: []*metricpb.NumberDataPoint{{}}}}}},
	}}}}}
	body, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), settings.Destination(), spool.Request{Body: body, Points: 1}, "it was down"); err != nil {
		t.Fatal(err)
	}
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
		if f.Err != nil || f.Metrics.Delivered != 1 || f.Delivered != 0 {
			t.Errorf("%+v", f)
		}
	}
	mine, theirs := ownGot(), foreignGot()
	if len(mine) != 1 || mine[0].Get("Authorization") != "of-metrics" || mine[0].Get("User-Agent") != "spantee/1.2 "+exporterAgent || mine[0].Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("sent %v", mine)
	}
	if len(theirs) != 1 || theirs[0].Get("Authorization") != "" {
		t.Errorf("sent to another endpoint: %v", theirs)
	}
}

// TestSpoolOfALaterVersion leaves signals that it does not know.
func TestSpoolOfALaterVersion(t *testing.T) {
	s := newSpool(t)
	url, got := headers(t)
	to := spool.Destination{Protocol: "http/protobuf", Endpoint: url + "/v1/logs", Signal: "logs"}
	if err := s.Put(t.Context(), to, spool.Request{Body: []byte{0x0a, 0x00}, Spans: 1}, ""); err != nil {
		t.Fatal(err)
	}
	all := flush(t, s, Config{})
	if len(all) != 1 || all[0].Err == nil || len(got()) > 0 {
		t.Errorf("%+v, %d requests", all, len(got()))
	}
	if entries, err := s.List(t.Context()); err != nil || len(entries) != 1 || entries[0].State != spool.Waiting {
		t.Errorf("left %+v, %v", entries, err)
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
		e := metricExporter(t, Config{Endpoint: url})
		wantPartial(t, e.UploadMetrics(t.Context(), nil))
	}
}
