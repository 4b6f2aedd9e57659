package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// OpenTelemetry's SDK and gRPC would complain on stderr about each of these,
// and net/http about a server that speaks first.
func TestLibrariesAreSilent(t *testing.T) {
	r := receivertest.Start(t)
	env := []string{
		"OTEL_EXPORTER_OTLP_TIMEOUT=junk", "OTEL_EXPORTER_OTLP_COMPRESSION=junk", "OTEL_EXPORTER_OTLP_CERTIFICATE=/nonexistent",
		"OTEL_EXPORTER_OTLP_PROTOCOL=junk", "OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:1", "OTEL_RESOURCE_ATTRIBUTES=a=%zz,junk",
	}
	for protocol, endpoint := range map[string]string{"grpc": r.HTTPEndpoint(), "http/protobuf": r.GRPCEndpoint()} {
		cmd := spantee(t, env, "-q", "--protocol", protocol, "--endpoint", endpoint, "--header=a=b")
		cmd.Stdin = bytes.NewReader(fixture(t, "parallel-tools.jsonl"))
		if err := cmd.Run(); err != nil || cmd.stderr.Len() > 0 {
			t.Errorf("%s: %v, stderr\n%s", protocol, err, cmd.stderr.String())
		}
	}
}

// Receivers are told who sends.
func TestUserAgent(t *testing.T) {
	got := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.URL.Path + " " + r.UserAgent()
	}))
	defer s.Close()
	cmd := spantee(t, nil, "--protocol=http/protobuf", "--endpoint", s.URL)
	cmd.Stdin = bytes.NewReader(fixture(t, "killed.jsonl"))
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	close(got)
	seen := map[string]bool{}
	for request := range got {
		path, agent, _ := strings.Cut(request, " ")
		seen[path] = true
		if !strings.HasPrefix(agent, "spantee/") {
			t.Errorf("%s: user agent %q", path, agent)
		}
	}
	if !seen["/v1/traces"] || !seen["/v1/metrics"] || len(seen) != 2 {
		t.Errorf("requests: %v", seen)
	}
}
