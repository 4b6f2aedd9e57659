package otlp

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Metrics of a killed process are sent over HTTP as they lie in its log, also if spans go as
// JSON.
func TestMetricsOverHTTP(t *testing.T) {
	var path, kind string
	var body []byte
	var answer string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, kind = r.URL.Path, r.Header.Get("Content-Type")
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
	for _, protocol := range []string{"http/protobuf", "http/json"} {
		e := metricsClient(t, Config{Protocol: protocol, Endpoint: s.URL})
		request := oneGauge(t)
		answer = `{}`
		if err := e.UploadMetrics(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if path != "/v1/metrics" || kind != "application/x-protobuf" || !bytes.Equal(body, request) {
			t.Errorf("%s: %q of %s to %s", protocol, body, kind, path)
		}
		answer = `{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}`
		wantPartial(t, e.UploadMetrics(t.Context(), request))
	}
}
