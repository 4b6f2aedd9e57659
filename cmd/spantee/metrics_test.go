package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// TestMetrics checks when metrics are sent: with the spans of a live stream, and
// of a recording only if that is asked for.
func TestMetrics(t *testing.T) {
	const (
		runs = "spantee.run.count{gen_ai.agent.name=cursor-agent,gen_ai.request.model=Auto,spantee.outcome=success}"
		name = "parallel-tools.jsonl"
	)
	for _, test := range []struct {
		name      string
		env       []string
		recording bool
		sent      bool
		stderr    string
	}{
		{name: "live", sent: true},
		{name: "chosen", env: []string{"OTEL_METRICS_EXPORTER=otlp"}, sent: true},
		{name: "no spans", env: []string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_TRACES_EXPORTER=none"}, sent: true},
		{name: "not sampled", env: []string{"OTEL_TRACES_SAMPLER=always_off"}, sent: true, stderr: "no spans are sent: $OTEL_TRACES_SAMPLER is always_off"},
		{name: "parent", env: []string{"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}, sent: true, stderr: "not sampled"},
		{name: "none", env: []string{"OTEL_METRICS_EXPORTER=none"}},
		{name: "nothing", env: []string{"OTEL_TRACES_EXPORTER=none"}},
		{name: "disabled", env: []string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_SDK_DISABLED=true"}},
		{name: "unknown", env: []string{"OTEL_METRICS_EXPORTER=x"}, stderr: `invalid $OTEL_METRICS_EXPORTER "x"`},
		{name: "invalid", env: []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=ftp://x"}, stderr: "no metrics are sent: invalid $OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
		{name: "recording", recording: true},
		{name: "recording, chosen", recording: true, env: []string{"OTEL_METRICS_EXPORTER=otlp"}, sent: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			receiver := metricstest.Start(t)
			cmd := spantee(t, append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint()}, test.env...), "--flush-timeout=20s")
			stream := fixture(t, name)
			if test.recording {
				cmd.Stdin = tempFile(t, stream)
			} else {
				cmd.Stdin = bytes.NewReader(stream)
			}
			if err := cmd.Run(); err != nil || !bytes.Equal(cmd.stdout.Bytes(), stream) {
				t.Fatalf("%v, %d bytes", err, cmd.stdout.Len())
			}
			if got := cmd.stderr.String(); !strings.Contains(got, test.stderr) || test.stderr == "" && got != "" {
				t.Errorf("stderr %q, want %q", got, test.stderr)
			}
			points := receiver.Points()
			if p := points[runs]; test.sent != (p != nil && p.Sum == 1) || !test.sent && len(points) > 0 {
				t.Errorf("%d series, runs %+v", len(points), p)
			}
			for _, r := range receiver.Resources() {
				if s := fmt.Sprint(r); !strings.Contains(s, "service.instance.id") || !strings.Contains(s, "cursor-agent") {
					t.Errorf("the resource is %s", s)
				}
			}
		})
	}
}

// TestSampler sends whole traces or nothing of them.
func TestSampler(t *testing.T) {
	long(t)
	t.Parallel()
	traces := map[string]int{}
	for _, file := range []string{"parallel-tools.jsonl", "fix-failing-test.jsonl", "retries.jsonl", "approvals.jsonl", "resumed.jsonl", "tool-failures.jsonl"} {
		sizes := map[string]int{}
		for _, ratio := range []string{"1", "0.5", "0"} {
			receiver := receivertest.Start(t)
			cmd := spantee(t, []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint(),
				"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=" + ratio,
			}, "--flush-timeout=20s")
			cmd.Stdin = tempFile(t, fixture(t, file))
			if err := cmd.Run(); err != nil {
				t.Fatal(err, cmd.stderr.String())
			}
			for _, s := range receiver.Spans() {
				sizes[ratio+string(s.TraceId)]++
				if ratio == "1" {
					traces[string(s.TraceId)]++
				}
			}
		}
		for key, n := range sizes {
			if ratio, id := key[:len(key)-16], key[len(key)-16:]; ratio != "1" && (ratio == "0" || n != traces[id]) {
				t.Errorf("%s at %s: %d spans of %d", file, ratio, n, traces[id])
			}
			if ratio, id := key[:len(key)-16], key[len(key)-16:]; ratio == "1" && (id[8] < 0x80) != (sizes["0.5"+id] > 0) {
				t.Errorf("%s: trace %x was not decided by its id", file, id)
			}
		}
	}
}

// tempFile returns a file that holds b, to be read.
func tempFile(t *testing.T, b []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stream.jsonl")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
