//go:build unix

package main

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"strings"
	"testing"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// TestMetricsOfNoAgent checks that a stream without a run sends no metrics, and that a
// missing collector is reported once.
func TestMetricsOfNoAgent(t *testing.T) {
	receiver := metricstest.Start(t)
	gone := receivertest.Start(t)
	gone.Stop()
	for _, endpoint := range []string{receiver.GRPCEndpoint(), gone.GRPCEndpoint()} {
		for input, lines := range map[string]int{
			"hello\n":                       1,
			`{"type":"log","text":"x"}`:     1,
			"":                              0,
			`{"type":"system"}` + "\nhello": 1,
		} {
			cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint}, "--no-spool")
			cmd.Stdin = strings.NewReader(input)
			if err := cmd.Run(); err != nil || strings.Count(cmd.stderr.String(), "\n") > lines {
				t.Errorf("%q: %v, %q", input, err, cmd.stderr.String())
			}
		}
	}
	if n := len(receiver.Arrivals()); n > 0 {
		t.Errorf("%d requests", n)
	}
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + gone.GRPCEndpoint()}, "--no-spool")
	cmd.Stdin = bytes.NewReader(fixture(t, "parallel-tools.jsonl"))
	if err := cmd.Run(); err != nil || strings.Count(cmd.stderr.String(), "\n") != 1 || !strings.Contains(cmd.stderr.String(), "; metrics lost") {
		t.Errorf("%v, %q", err, cmd.stderr.String())
	}
}

// TestMetricsOfEachAgent checks that each agent in a stream has metrics of its own
// service, and that the outcome of spans is counted once.
func TestMetricsOfEachAgent(t *testing.T) {
	agents := map[string]string{"claude-code": "claude/background-tasks.jsonl", "cursor-agent": "cursor/parallel-tools.jsonl"}
	for _, service := range []string{"", "shop"} {
		receiver := metricstest.Start(t)
		cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint(), "OTEL_SERVICE_NAME=" + service}, "--flush-timeout=20s")
		var stream []byte
		for _, agent := range []string{"claude-code", "cursor-agent"} {
			stream = append(stream, fixture(t, "../"+agents[agent])...)
		}
		cmd.Stdin = bytes.NewReader(stream)
		if err := cmd.Run(); err != nil {
			t.Fatal(err, cmd.stderr.String())
		}
		selfs, seen := 0, map[string]int{}
		for _, request := range receiver.Requests() {
			for _, rm := range request.ResourceMetrics {
				name := resourceAttribute(rm.Resource, "service.name")
				for _, m := range rm.ScopeMetrics[0].Metrics {
					if m.Name == "spantee.spans.delivered" {
						selfs++
					}
					for _, p := range m.GetSum().GetDataPoints() {
						for _, kv := range p.Attributes {
							if kv.Key != "gen_ai.agent.name" {
								continue
							}
							agent := kv.Value.GetStringValue()
							seen[agent]++
							if agents[agent] != "" && name != cmp.Or(service, agent) { // else it is a sub-agent
								t.Errorf("%s of %s has the service %s", m.Name, agent, name)
							}
						}
					}
				}
			}
		}
		if selfs != 1 {
			t.Errorf("%d times what became of the spans", selfs)
		}
		for agent := range agents {
			if n := seen[agent]; n == 0 {
				t.Errorf("nothing of %s", agent)
			}
		}
	}
}

func resourceAttribute(of *resourcepb.Resource, key string) string {
	for _, kv := range of.GetAttributes() {
		if kv.Key == key {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

// TestMetricsOfAKilledRun counts a run whose spantee was killed once: by the next
// one, or by flush.
func TestMetricsOfAKilledRun(t *testing.T) {
	const runs = "spantee.run.count{gen_ai.agent.name=cursor-agent,gen_ai.request.model=GPT-5,spantee.outcome=killed}"
	for _, by := range []string{"flush", "spantee"} {
		receiver := metricstest.Start(t)
		state := t.TempDir()
		env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint(), "XDG_STATE_HOME=" + state}
		kill(t, state, env, stream("killed", 3)[:14], true) // within the second call
		for range 2 {
			args := []string{"flush"}
			if by == "spantee" {
				args = []string{"--flush-timeout=20s"}
			}
			cmd := spantee(t, env, args...)
			if by == "spantee" {
				cmd.Stdin = bytes.NewReader(fixture(t, "parallel-tools.jsonl"))
			}
			if err := cmd.Run(); err != nil {
				t.Fatal(err, cmd.stderr.String())
			}
		}
		points := receiver.Points()
		if p := points[runs]; p == nil || p.Sum != 1 {
			t.Errorf("%s: killed runs %+v", by, p)
		}
	}
}

// TestMetricsOfAHungMapper checks that unsent metrics are counted if the mapper hangs.
func TestMetricsOfAHungMapper(t *testing.T) {
	long(t)
	receiver := metricstest.Start(t)
	settings, err := otlp.Resolve(otlp.Config{Signal: otlp.Metrics, Endpoint: receiver.GRPCEndpoint()})
	if err != nil {
		t.Fatal(err)
	}
	reporter := newReporter(&options{}, os.Stderr)
	m := newMeter(settings, func(string) *resourcepb.Resource { return nil }, func(err error) { t.Error(err) })
	m.stalled("an agent") // is counted
	all := &sinks{reporter: reporter, metrics: m, common: tracer.Config{Live: true}}
	p := &mapLoop{sinks: all, ending: &ending{sinks: all, reporter: reporter}, reporter: reporter, tee: tee.New(strings.NewReader("x"), io.Discard, tee.Options{}), done: make(chan struct{})}
	if err := p.tee.Copy(); err != nil {
		t.Fatal(err)
	}
	p.end(false) // although nobody calls p.run
	if r := p.ending.result; r.failure == nil || r.metrics == nil {
		t.Errorf("%v, %v", r.failure, r.metrics)
	}
	if n := len(receiver.Arrivals()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func TestABugInCountingIsReported(t *testing.T) {
	var failed []error
	settings, err := otlp.Resolve(otlp.Config{Signal: otlp.Metrics})
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter(settings, func(string) *resourcepb.Resource { panic("boom") }, func(err error) { failed = append(failed, err) })
	m.Span(&tracer.Span{Wire: []byte("span"), Agent: "agent"})
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), "boom") {
		t.Errorf("reported %v", failed)
	}
	if _ = m.Piece(&tracer.Snapshot{Open: []*tracer.Span{{Agent: "agent"}}}); len(failed) != 2 {
		t.Errorf("of open spans, reported %v", failed)
	}
}
