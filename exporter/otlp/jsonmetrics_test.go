package otlp

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Metrics are sent as JSON too: a receiver of JSON may take nothing else.
func TestMetricsAsJSON(t *testing.T) {
	var kind string
	var body []byte
	answer := `{}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind = r.Header.Get("Content-Type")
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, _ = io.ReadAll(unpacked)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	e := metricsClient(t, Config{Protocol: "http/json", Endpoint: s.URL})
	request := oneGauge(t)
	if err := e.UploadMetrics(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	got, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(body)
	if err != nil || kind != "application/json" {
		t.Fatalf("%v in %s: %s", err, kind, body)
	}
	want, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(request)
	if err != nil || got.MetricCount() != 1 || got.DataPointCount() != want.DataPointCount() {
		t.Errorf("%d data points, want %d, %v", got.DataPointCount(), want.DataPointCount(), err)
	}

	answer = `{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}`
	wantPartial(t, e.UploadMetrics(t.Context(), request))
}
