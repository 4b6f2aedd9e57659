//go:build unix

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping/semconv"
)

// toMetrics makes spantee send metrics to one receiver and spans to another.
func toMetrics(protocol, temporality string, metrics *metricstest.Receiver, spans *receivertest.Receiver) []string {
	to, spansTo := metrics.GRPCEndpoint(), spans.GRPCEndpoint()
	if protocol != "grpc" {
		to, spansTo = metrics.HTTPEndpoint()+"/v1/metrics", spans.HTTPEndpoint()
	}
	return []string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_EXPORTER_OTLP_ENDPOINT=" + spansTo,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=" + to, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=" + temporality,
	}
}

// totals are what a receiver's series add up to, without those of spantee itself.
func totals(r *metricstest.Receiver) map[string]string {
	all := map[string]string{}
	for key, p := range r.Points() {
		if !strings.HasPrefix(key, "spantee.spans.") {
			all[key] = fmt.Sprintf("%d %.6f", p.Count, p.Sum)
		}
	}
	return all
}

// TestMetricsWithoutACollector keeps the metrics of runs that end while their
// collector is away. Whether the next spantee sends them or flush does, each run is
// counted exactly once.
func TestMetricsWithoutACollector(t *testing.T) {
	long(t)
	t.Parallel()
	const name, patient = "parallel-tools.jsonl", "--flush-timeout=30s" // a busy machine may take two seconds to connect
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for _, temporality := range []string{"cumulative", "delta"} {
			for _, by := range []string{"flush", "spantee"} {
				t.Run(protocol+" "+temporality+" by "+by, func(t *testing.T) {
					spans, receiver, truth := receivertest.Start(t), metricstest.Start(t), metricstest.Start(t)
					state := "XDG_STATE_HOME=" + t.TempDir()
					env := append(toMetrics(protocol, temporality, receiver, spans), state)
					receiver.Stop()
					for range 2 {
						cmd := pipe(t, [][]byte{fixture(t, name)}, env, patient)
						said := cmd.stderr.String()
						if checkStderr(t, said, "metrics not delivered: connection refused"); !strings.Contains(said, "; metrics spooled") {
							t.Errorf("stderr %q", said)
						}
					}
					listed := spantee(t, env, "spool")
					if err := listed.Run(); err != nil || strings.Count(listed.stdout.String(), " metrics ") != 2 {
						t.Errorf("%v, listed\n%s", err, listed.stdout.String())
					}

					receiver.Restart()
					runs := 2
					if by == "spantee" {
						runs++
						checkStderr(t, pipe(t, [][]byte{fixture(t, name)}, env, patient).stderr.String(), "")
					}
					for range 2 {
						flushed := spantee(t, env, "flush")
						if err := flushed.Run(); err != nil {
							t.Errorf("flush: %v, %s", err, flushed.stdout.String())
						}
					}
					for range runs {
						pipe(t, [][]byte{fixture(t, name)}, append(toMetrics(protocol, temporality, truth, spans), state), patient)
					}
					got, want := totals(receiver), totals(truth)
					if len(want) < 5 || !maps.Equal(got, want) {
						t.Errorf("received %v\nwant %v", got, want)
					}
					faults.add(fmt.Sprintf("no collector for metrics, %s, %s, %s", protocol, temporality, by), 0, 0, 0, 0)
				})
			}
		}
	}
}

// TestMetricsOfAKilledRunAreKept counts a killed run once, even if its metrics cannot
// be delivered when it is recovered.
func TestMetricsOfAKilledRunAreKept(t *testing.T) {
	t.Parallel()
	const killed = "spantee.run.count{gen_ai.agent.name=cursor-agent,gen_ai.request.model=GPT-5,spantee.outcome=killed}"
	for _, temporality := range []string{"cumulative", "delta"} {
		spans, receiver, state := receivertest.Start(t), metricstest.Start(t), t.TempDir()
		env := append(toMetrics("grpc", temporality, receiver, spans), "XDG_STATE_HOME="+state)
		receiver.Stop()
		kill(t, state, env, stream("killed", 3)[:14], true)
		for i := range 3 {
			if i == 1 {
				receiver.Restart()
			}
			flushed := spantee(t, env, "flush")
			if err := flushed.Run(); (err != nil) != (i == 0) {
				t.Errorf("flush %d: %v, %s%s", i, err, flushed.stdout.String(), flushed.stderr.String())
			}
		}
		if p := receiver.Points()[killed]; p == nil || p.Sum != 1 {
			t.Errorf("%s: killed runs %+v", temporality, p)
		}
	}
}

// TestMetricsOfAKilledRunAreWhole kills a spantee that has delivered the metrics of no tool
// call, of two of three, or of all. All runs of the fleet add up to the truth.
func TestMetricsOfAKilledRunAreWhole(t *testing.T) {
	t.Parallel()
	// Lines that come faster than their timestamps are a recording, whose first chat waits for the result.
	stream := regexp.MustCompile(`,"timestamp":"[^"]*"`).ReplaceAll(fixture(t, "../claude/parallel-tools.jsonl"), nil)
	lines := bytes.SplitAfter(stream, []byte("\n"))[:11]
	const calls = "gen_ai.execute_tool.duration"
	want := map[string]float64{calls: 0, semconv.MetricInputTokens: 0, semconv.MetricRuns: 1}
	ended, open := spansIn(t, lines, true)
	for _, spans := range []map[string]*tracepb.Span{ended, open} {
		for _, span := range spans {
			if strings.HasPrefix(span.Name, "execute_tool ") {
				want[calls]++
			}
			for _, kv := range span.Attributes {
				if kv.Key == semconv.InputTokens {
					want[semconv.MetricInputTokens] += float64(kv.Value.GetIntValue())
				}
			}
		}
	}
	for _, temporality := range []string{"cumulative", "delta"} {
		for delivered, interval := range map[float64]string{0: "3600000", 2: "100", want[calls]: "2000"} { // saved after a second
			if temporality == "delta" && delivered > 0 { // what was counted since may be lost
				continue
			}
			t.Run(fmt.Sprint(temporality, delivered), func(t *testing.T) {
				t.Parallel()
				spans, receiver, state := receivertest.Start(t), metricstest.Start(t), t.TempDir()
				env := append(toMetrics("grpc", temporality, receiver, spans), "XDG_STATE_HOME="+state)
				cmd := spantee(t, append(env, "OTEL_METRIC_EXPORT_INTERVAL="+interval))
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				write := func(lines [][]byte) {
					if _, err := in.Write(bytes.Join(lines, nil)); err != nil {
						t.Fatal(err)
					}
				}
				sums := func() map[string]float64 {
					sums := map[string]float64{}
					for key, p := range receiver.Points() {
						if name, _, _ := strings.Cut(key, "{"); name == calls {
							sums[name] += float64(p.Count)
						} else if _, ok := want[name]; ok {
							sums[name] += p.Sum
						}
					}
					return sums
				}
				arrived := func() bool { return sums()[calls] == delivered }
				resume := func() {}
				switch delivered {
				case 0:
					write(lines)
					awaitLog(t, state, "Grep", "msg_01ParB")
				case 2:
					write(lines[:9])
					receiver.Await(t, arrived)
					receiver.Stop()
					write(lines[9:])
					awaitLog(t, state, "Grep", "msg_01ParB")
					resume = receiver.Restart
				default:
					write(lines)
					receiver.Await(t, arrived)
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // ends by the signal
				resume()
				for range 2 {
					flushed := spantee(t, env, "flush")
					if err := flushed.Run(); err != nil {
						t.Errorf("flush: %v, %s%s", err, flushed.stdout.String(), flushed.stderr.String())
					}
					if got := sums(); !maps.Equal(got, want) {
						t.Errorf("received %v, want %v", got, want)
					}
				}
				s := spool.Spool{Dir: filepath.Join(state, "spantee/spool")}
				if left, err := s.List(); err != nil || len(left) > 0 {
					t.Errorf("left in the spool: %v, %v", left, err)
				}
			})
		}
	}
}

// awaitLog waits until the log has the metrics of a call and the tokens of a chat, and the
// response after it.
func awaitLog(t *testing.T, state string, texts ...string) {
	t.Helper()
	s := spool.Spool{Dir: filepath.Join(state, "spantee/spool")}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		entries, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			b, _ := os.ReadFile(e.Path)
			missing := func(text string) bool { return !bytes.Contains(b, []byte(text)) }
			if e.State == spool.Open && e.Metrics && !slices.ContainsFunc(append(texts, semconv.MetricInputTokens, semconv.MetricToolDuration), missing) {
				return
			}
		}
	}
	t.Fatal("nothing came to the log")
}

// TestMetricsThatAreTooOld says that a collector rejected metrics for good, and does not send
// them again.
func TestMetricsThatAreTooOld(t *testing.T) {
	spans, receiver := receivertest.Start(t), metricstest.Start(t)
	env := append(toMetrics("grpc", "cumulative", receiver, spans), "XDG_STATE_HOME="+t.TempDir())
	receiver.Stop()
	pipe(t, [][]byte{fixture(t, "parallel-tools.jsonl")}, env)
	receiver.Restart()
	receiver.Refuse(func(int) error { return status.Error(codes.InvalidArgument, "too old sample") })
	flushed := spantee(t, env, "flush")
	if err := flushed.Run(); err != nil || !strings.Contains(flushed.stdout.String(), "1 metrics request rejected") {
		t.Errorf("flush: %v, %s", err, flushed.stdout.String())
	}
	receiver.Refuse(nil)
	again := spantee(t, env, "flush")
	if err := again.Run(); err != nil || again.stdout.String() != "nothing to send\n" || len(receiver.Points()) > 0 {
		t.Errorf("flush: %v, %s", err, again.stdout.String())
	}
}
