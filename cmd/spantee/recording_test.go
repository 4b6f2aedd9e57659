package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// TestARecordingWaitsForTheCollector sends a recording without stamps to a slow
// collector: all spans come at the end at once, more than the queue holds.
func TestARecordingWaitsForTheCollector(t *testing.T) {
	slow(t)
	t.Parallel()
	stamp := regexp.MustCompile(`,"timestamp_ms":\d+`)
	lines := stamp.ReplaceAll(bytes.Join(stream("s", 20_000), nil), nil)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--summary"}, {"replay", file}} {
		c := newCollector(t)
		c.start("slow")
		cmd := spantee(t, c.environment("grpc"), args...)
		if args[0] != "replay" {
			in, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			cmd.Stdin = in
		}
		if err := cmd.Run(); err != nil || strings.Contains(cmd.stderr.String(), "not delivered") {
			t.Errorf("%q: %v, %s", args, err, cmd.stderr.String())
		}
		if got, _ := c.taken(); len(got) < 20_000 {
			t.Errorf("%q: %d spans", args, len(got))
		}
		c.kill()
	}
}

// TestNow moves a recording of weeks ago to the present.
func TestNow(t *testing.T) {
	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "replay", "--now", "--flush-timeout=1m", "../../testdata/cursor/fix-failing-test.jsonl")
	before := time.Now()
	if err := cmd.Run(); err != nil {
		t.Errorf("%v, %s", err, cmd.stderr.String())
	}
	root := rootOf(r.Spans())
	if root == nil {
		t.Fatal("no root")
	}
	end := time.Unix(0, int64(root.EndTimeUnixNano))
	if end.Before(before.Add(-time.Second)) || end.After(time.Now()) {
		t.Errorf("it ended at %v, and was sent at %v", end, before)
	}
	if took := end.Sub(time.Unix(0, int64(root.StartTimeUnixNano))).Round(100 * time.Millisecond); fmt.Sprint(took) != "24.3s" {
		t.Errorf("it takes %v, want 24.3s", took)
	}
}

func rootOf(spans []*tracepb.Span) *tracepb.Span {
	for _, s := range spans {
		if len(s.ParentSpanId) == 0 {
			return s
		}
	}
	return nil
}
