package metrics_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
)

const toolCalls = "gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}"

func newSpool(t *testing.T) *spool.Spool {
	t.Helper()
	return &spool.Spool{Dir: filepath.Join(t.TempDir(), "state", "spool"), Max: 1 << 20, Owner: spool.NewOwner()}
}

// inSpool returns how many data points a spool has, by state.
func inSpool(t *testing.T, s *spool.Spool) map[spool.State]int {
	t.Helper()
	points := map[spool.State]int{}
	entries, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		points[e.State] += e.Points
	}
	return points
}

// endpoint returns a receiver's endpoint for a protocol.
func endpoint(r *metricstest.Receiver, protocol string) string {
	if protocol == "grpc" {
		return r.GRPCEndpoint()
	}
	return r.HTTPEndpoint()
}

// TestSpool keeps metrics that cannot be delivered. The next Recorder delivers them,
// and each call is counted once.
func TestSpool(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf", "http/json"} {
		for _, temporality := range []string{"cumulative", "delta"} {
			for _, compression := range []string{"none", "gzip"} {
				t.Run(protocol+" "+temporality+" "+compression, func(t *testing.T) {
					t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
					t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
					receiver, s := metricstest.Start(t), newSpool(t)
					receiver.Stop()
					for range 2 {
						r := start(t, protocol, endpoint(receiver, protocol), metrics.Config{Interval: time.Hour, Spool: s})
						export(t, r, call("a", "t"), call("a", "t"))
						if report := finish(t, r); report.Spooled != 1 || report.Lost != 0 || report.Cause == nil {
							t.Fatalf("%+v", report)
						}
					}
					if points := inSpool(t, s); points[spool.Waiting] != 2 {
						t.Fatalf("in the spool %v", points)
					}

					receiver.Restart()
					other := *s
					other.Owner = spool.NewOwner()
					r := start(t, protocol, endpoint(receiver, protocol), metrics.Config{Interval: time.Hour, Spool: &other})
					export(t, r, call("a", "t"))
					if report := finish(t, r); report.Delivered != 1 || report.Earlier.Metrics.Delivered != 2 || report.Spooled+report.Lost != 0 {
						t.Errorf("%+v", report)
					}
					if p := receiver.Points()[toolCalls]; p == nil || p.Count != 5 || p.Sum != 10 || p.Start == 0 {
						t.Errorf("received %+v", p)
					}
					if points := inSpool(t, s); len(points) != 0 {
						t.Errorf("left in the spool %v", points)
					}
				})
			}
		}
	}
}

// TestSpoolWhileRunning delivers the metrics of earlier processes before the end.
func TestSpoolWhileRunning(t *testing.T) {
	receiver, s := metricstest.Start(t), newSpool(t)
	receiver.Stop()
	r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: s})
	export(t, r, call("a", "earlier"))
	finish(t, r)
	receiver.Restart()
	other := *s
	other.Owner = spool.NewOwner()
	r = start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: 5 * time.Millisecond, Spool: &other})
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool {
		return receiver.Points()["gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=earlier,gen_ai.tool.type=function}"] != nil
	})
	if report := finish(t, r); report.Earlier.Metrics.Delivered != 1 || report.Spooled+report.Lost != 0 {
		t.Errorf("%+v", report)
	}
}

// TestSpoolOfLongOutage adds up the deltas of a receiver that is away for long: one
// delta has them all, from the first instant on.
func TestSpoolOfLongOutage(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	receiver, s := metricstest.Start(t), newSpool(t)
	receiver.Refuse(busy(t, 1<<30, time.Nanosecond))
	r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Millisecond, Spool: s})
	began := time.Now()
	const outage = 30
	for n := range outage {
		export(t, r, call("a", "t"), call("a", []string{"odd", "even"}[n%2]))
		receiver.Await(t, func() bool { return len(receiver.Arrivals()) > 2*n })
	}
	receiver.Refuse(busy(t, 1, time.Hour)) // so that the end waits for nothing
	receiver.Await(t, func() bool { return len(receiver.Arrivals()) == 1 })
	if report := finish(t, r); report.Spooled != 3 || report.Lost != 0 || report.Delivered != 0 {
		t.Fatalf("%+v", report)
	}
	receiver.Refuse(nil)
	r = start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: &spool.Spool{Dir: s.Dir, Max: s.Max}})
	export(t, r, call("b", "t"))
	finish(t, r)
	p := receiver.Points()[toolCalls]
	if p == nil || p.Count != outage || p.Sum != 2*outage || p.Requests != 1 || p.Buckets[8] != outage {
		t.Errorf("received %+v", p)
	}
	if p != nil && time.Duration(p.Start-uint64(began.UnixNano())) > time.Since(began)/2 {
		t.Errorf("the delta starts %v after the first call", time.Duration(p.Start-uint64(began.UnixNano())))
	}
}

// TestSpoolNeverCountsTwice keeps no deltas that the receiver may have taken.
func TestSpoolNeverCountsTwice(t *testing.T) {
	for temporality, spooled := range map[string]int{"cumulative": 1, "delta": 0} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
		receiver, s := metricstest.Start(t), newSpool(t)
		ctx, cancel := context.WithCancel(t.Context())
		receiver.Refuse(func(int) error {
			cancel() // no second attempt
			return status.Error(codes.Unavailable, "somebody between may have taken it")
		})
		r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: s})
		export(t, r, call("a", "t"))
		if report := r.Close(ctx); report.Spooled != spooled || report.Lost != 1-spooled || inSpool(t, s)[spool.Waiting] != spooled {
			t.Errorf("%s: %+v", temporality, report)
		}
	}
}

// TestJournalNeverCountsTwice saves what a killed process would lose. Deltas leave the
// journal before they are sent, because a kill after that must not repeat them.
func TestJournalNeverCountsTwice(t *testing.T) {
	for temporality, journaled := range map[string]int{"cumulative": 1, "delta": 0} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
		receiver, s := metricstest.Start(t), newSpool(t)
		r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: s})
		export(t, r, call("a", "t"))
		r.Save()
		for deadline := time.Now().Add(30 * time.Second); inSpool(t, s)[spool.Open] != 1; {
			if time.Now().After(deadline) {
				t.Fatal("nothing was saved")
			}
		}
		during := -1
		receiver.Refuse(func(int) error {
			during = inSpool(t, s)[spool.Open]
			return nil
		})
		if report := finish(t, r); report.Delivered != 1 || during != journaled || len(inSpool(t, s)) > 0 {
			t.Errorf("%s: %d points in the journal while they are sent, then %v, %+v", temporality, during, inSpool(t, s), report)
		}
	}
}

// TestSpoolOfRejected keeps metrics that the receiver rejects for good, and does not
// send them again.
func TestSpoolOfRejected(t *testing.T) {
	for _, temporality := range []string{"cumulative", "delta"} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
		receiver, s := metricstest.Start(t), newSpool(t)
		receiver.Refuse(func(int) error { return status.Error(codes.InvalidArgument, "too old") })
		r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: s})
		export(t, r, call("a", "t"))
		if report := finish(t, r); report.Rejected != 1 || report.Lost+report.Spooled != 0 || inSpool(t, s)[spool.Rejected] != 1 {
			t.Errorf("%s: %+v", temporality, report)
		}
	}
}

// TestSpoolOfNoReceiver forgets what was kept for a receiver that turns out to take
// no metrics: it would wait forever.
func TestSpoolOfNoReceiver(t *testing.T) {
	receiver, s := receivertest.Start(t), newSpool(t)
	receiver.Stop()
	r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: s})
	export(t, r, call("a", "t"))
	if report := finish(t, r); report.Spooled != 1 {
		t.Errorf("%+v", report)
	}
	receiver.Restart()
	r = start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: &spool.Spool{Dir: s.Dir, Max: s.Max}})
	export(t, r, call("a", "t"))
	if report := finish(t, r); report.Lost+report.Spooled != 0 || report.Earlier.Metrics.Unwanted != 1 || len(inSpool(t, s)) != 0 {
		t.Errorf("%+v", report)
	}
}

// TestUnwritableSpool says why metrics are lost.
func TestUnwritableSpool(t *testing.T) {
	receiver, s := metricstest.Start(t), newSpool(t)
	receiver.Stop()
	s.Max = 10
	r := start(t, "grpc", receiver.GRPCEndpoint(), metrics.Config{Interval: time.Hour, Spool: s})
	export(t, r, call("a", "t"))
	if report := finish(t, r); report.Lost != 1 || report.Spooled != 0 || report.NotKept == nil {
		t.Errorf("%+v", report)
	}
}
