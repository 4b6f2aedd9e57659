package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
)

// span returns a span of two seconds: keys, each with a string, an int or a float.
func span(keysAndValues ...any) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "a span",
		StartTimeUnixNano: 1e18, EndTimeUnixNano: 1e18 + 2e9,
	}
	for i := 0; i < len(keysAndValues); i += 2 {
		value := &commonpb.AnyValue{}
		switch v := keysAndValues[i+1].(type) {
		case string:
			value.Value = &commonpb.AnyValue_StringValue{StringValue: v}
		case int:
			value.Value = &commonpb.AnyValue_IntValue{IntValue: int64(v)}
		case float64:
			value.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: v}
		}
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: keysAndValues[i].(string), Value: value})
	}
	return s
}

func export(t *testing.T, r *metrics.Recorder, spans ...*tracepb.Span) {
	t.Helper()
	for _, s := range spans {
		r.Count(facts(t, encode(t, s)))
	}
}

// facts reads an encoded span.
func facts(t *testing.T, wire []byte) *runs.Span {
	t.Helper()
	s := new(runs.Span)
	if err := s.Read(wire); err != nil {
		t.Fatal(err)
	}
	return s
}

func encode(t *testing.T, s *tracepb.Span) []byte {
	t.Helper()
	b, err := proto.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call(agent, tool string) *tracepb.Span {
	return span("gen_ai.operation.name", "execute_tool", "gen_ai.agent.name", agent, "gen_ai.tool.name", tool,
		"gen_ai.tool.type", "function", "gen_ai.tool.call.id", "secret", "file.path", "/secret", "session.id", "secret")
}

// TestConventions compares every metric that can be sent with the table.
func TestConventions(t *testing.T) {
	receiver := metricstest.Start(t)
	r := record(t, "grpc", receiver.GRPCEndpoint(), 10*time.Millisecond)
	root := span("gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "a", "spantee.bad_lines", 0, "spantee.turns", 1, "error.type", "killed",
		"gen_ai.usage.cost", 0.5, "spantee.usage.cost", 0.25, "spantee.retries", 2, "session.id", "secret")
	chat := span("gen_ai.operation.name", "chat", "gen_ai.agent.name", "a", "gen_ai.request.model", "m", "gen_ai.response.time_to_first_chunk", 0.5,
		"gen_ai.usage.input_tokens", 5, "gen_ai.usage.output_tokens", 4, "gen_ai.usage.cache_read.input_tokens", 3,
		"gen_ai.usage.cache_write.input_tokens", 2, "gen_ai.usage.reasoning.output_tokens", 1)
	for i := range 3 {
		chat.Events = append(chat.Events, &tracepb.Span_Event{Name: "text.delta", TimeUnixNano: uint64(1e18 + i*1e8)})
	}
	tool := call("a", "t")
	tool.Attributes = append(tool.Attributes, span("mcp.method.name", "tools/call", "error.type", "killed",
		"spantee.tool.lines_added", 7, "spantee.tool.lines_removed", 8).Attributes...)
	r.SetOpen([][]byte{encode(t, root), encode(t, chat), encode(t, tool)})
	receiver.Await(t, func() bool { return receiver.Points()["spantee.run.idle{gen_ai.agent.name=a}"] != nil })
	if p := receiver.Points()["spantee.tool.active{gen_ai.agent.name=a,gen_ai.tool.name=t}"]; p == nil || p.Sum != 1 {
		t.Errorf("the open tool is %+v", p)
	}
	export(t, r, root, chat, tool)
	r.Stalled("a")
	r.Spans(1, 2, 3)
	finish(t, r)

	points := receiver.Points()
	kinds := map[string]string{}
	for key, p := range points {
		kinds[p.Metric.Name] = p.Metric.Unit + " " + kind(p.Metric)
		if strings.Contains(key, "secret") {
			t.Errorf("%s tells too much", key)
		}
		if p.Metric.Description == "" {
			t.Errorf("%s has no description", key)
		}
	}
	for _, c := range conventions {
		if got, want := kinds[c.name], c.unit+" "+c.kind; got != want {
			t.Errorf("%s is %q, want %q", c.name, got, want)
		}
		delete(kinds, c.name)
	}
	for name := range kinds {
		t.Errorf("%s is not in the table", name)
	}
	for key, want := range map[string]float64{
		"spantee.run.active{gen_ai.agent.name=a}":                             0,
		"spantee.tool.active{gen_ai.agent.name=a,gen_ai.tool.name=t}":         0,
		"spantee.cost{gen_ai.agent.name=a,gen_ai.usage.cost.source=provider}": 0.25,
		"spantee.run.count{gen_ai.agent.name=a,spantee.outcome=killed}":       1,
		"spantee.spans.dropped{}":                                             3,
	} {
		if p := points[key]; p == nil || p.Sum != want {
			t.Errorf("%s is %+v, want %v", key, p, want)
		}
	}
	duration := points["gen_ai.execute_tool.duration{error.type=killed,gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}"]
	if duration == nil || len(duration.Exemplars) != 1 || string(duration.Exemplars[0].TraceId) != "0123456789abcdef" {
		t.Errorf("no exemplar: %+v", duration)
	}
}

// TestCap counts everything, and names no more than 200 series of an instrument.
func TestCap(t *testing.T) {
	receiver := metricstest.Start(t)
	r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
	for agent := range 10 {
		for tool := range 30 {
			export(t, r, call(fmt.Sprint("agent-", agent), fmt.Sprint("tool-", tool)))
		}
	}
	finish(t, r)
	var series, total int
	for key, p := range receiver.Points() {
		if strings.HasPrefix(key, "gen_ai.execute_tool.duration") {
			series++
			total += int(p.Count)
		}
	}
	overflow := receiver.Points()["gen_ai.execute_tool.duration{otel.metric.overflow=true}"]
	if series != 200 || total != 300 || overflow == nil || overflow.Count != 101 {
		t.Errorf("%d series count %d calls, %+v beyond them", series, total, overflow)
	}
}

// TestCumulative checks that each request repeats what came before with the same
// start, so that one that is lost or comes twice does no harm.
func TestCumulative(t *testing.T) {
	receiver := metricstest.Start(t)
	receiver.Refuse(func(n int) error {
		if n%2 == 0 {
			return status.Error(codes.Unavailable, "try again")
		}
		return nil
	})
	r := record(t, "grpc", receiver.GRPCEndpoint(), 5*time.Millisecond)
	const key = "gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}"
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool { return receiver.Points()[key] != nil })
	start := receiver.Points()[key].Start
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool { return receiver.Points()[key].Count == 2 && receiver.Points()[key].Requests > 3 })
	receiver.Refuse(func(n int) error {
		if n < 3 {
			return status.Error(codes.Unavailable, "try again")
		}
		return nil
	})
	export(t, r, call("a", "t"))
	report := finish(t, r)
	if p := receiver.Points()[key]; p.Count != 3 || p.Start != start {
		t.Errorf("%d calls since %d, want 3 since %d", p.Count, p.Start, start)
	}
	if report.Lost != 0 || report.Cause != nil {
		t.Errorf("%+v", report)
	}
}

// TestDelta counts deltas that were refused as lost: nothing repeats them.
func TestDelta(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	receiver := metricstest.Start(t)
	receiver.Refuse(func(n int) error {
		if n == 1 {
			return status.Error(codes.InvalidArgument, "no")
		}
		return nil
	})
	r := record(t, "grpc", receiver.GRPCEndpoint(), 5*time.Millisecond)
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool { return len(receiver.Arrivals()) >= 1 })
	export(t, r, call("a", "u"))
	report := finish(t, r)
	if report.Lost != 1 || report.Cause == nil {
		t.Errorf("%+v", report)
	}
	if points := receiver.Points(); len(points) != 1 {
		t.Errorf("%d series, want that of the second call", len(points))
	}
}

// TestNoMetrics says nothing of a receiver that takes spans only.
func TestNoMetrics(t *testing.T) {
	receiver := receivertest.Start(t)
	for protocol, endpoint := range map[string]string{"grpc": receiver.GRPCEndpoint(), "http/protobuf": receiver.HTTPEndpoint()} {
		r := record(t, protocol, endpoint, 0)
		export(t, r, call("a", "t"))
		if report := finish(t, r); report != (metrics.Report{}) {
			t.Errorf("%s: %+v", protocol, report)
		}
	}
}

// TestLost says how much was lost, and why, without waiting for a collector that
// is not there.
func TestLost(t *testing.T) {
	receiver := receivertest.Start(t)
	receiver.Stop()
	r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
	export(t, r, call("a", "t"))
	report := finish(t, r)
	if report.Lost != 1 || report.Delivered != 0 || report.Cause == nil || !strings.Contains(report.Cause.Error(), "connection refused") {
		t.Errorf("%+v", report)
	}
}

// busy answers the first requests with the delay that the receiver wants.
func busy(t *testing.T, requests int, delay time.Duration) func(n int) error {
	return func(n int) error {
		if n > requests {
			return nil
		}
		s, err := status.New(codes.Unavailable, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
		if err != nil {
			t.Error(err)
		}
		return s.Err()
	}
}

// TestRetryInfo sends no request before the time that the receiver gave.
func TestRetryInfo(t *testing.T) {
	receiver := metricstest.Start(t)
	const delay = 300 * time.Millisecond
	receiver.Refuse(busy(t, 1, delay))
	r := record(t, "grpc", receiver.GRPCEndpoint(), 5*time.Millisecond)
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool { return len(receiver.Arrivals()) == 1 })
	report := finish(t, r)
	arrivals := receiver.Arrivals()
	if len(arrivals) < 2 || arrivals[1].Sub(arrivals[0]) < delay || report.Lost != 0 {
		t.Errorf("requests at %v, %+v", arrivals, report)
	}
}

// TestNoTime counts what there is no time to send as lost.
func TestNoTime(t *testing.T) {
	receiver := metricstest.Start(t)
	for temporality, want := range map[string]int{"cumulative": 2, "delta": 2} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
		r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
		export(t, r, call("a", "t"), call("a", "u"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if report := r.Close(ctx); report.Lost != want || report.Delivered != 0 {
			t.Errorf("%s: %+v", temporality, report)
		}
	}
	if n := len(receiver.Arrivals()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestBusy sends deltas again that a busy receiver, or none, has certainly not
// taken: each arrives once.
func TestBusy(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		receiver := metricstest.Start(t)
		endpoint := receiver.GRPCEndpoint()
		if protocol != "grpc" {
			endpoint = receiver.HTTPEndpoint()
		}
		receiver.Refuse(busy(t, 3, time.Millisecond))
		r := record(t, protocol, endpoint, 5*time.Millisecond)
		for n := range 4 {
			export(t, r, call("a", "t"))
			receiver.Await(t, func() bool { return len(receiver.Arrivals()) > n })
		}
		report := finish(t, r)
		p := receiver.Points()["gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}"]
		if p == nil || p.Count != 4 || report.Lost != 0 {
			t.Errorf("%s: %+v, %+v", protocol, p, report)
		}
	}
}

// TestGate has two Recorders of one receiver wait for the time that it gave one of
// them.
func TestGate(t *testing.T) {
	receiver := metricstest.Start(t)
	const delay = 300 * time.Millisecond
	receiver.Refuse(busy(t, 1, delay))
	gate := metrics.NewGate()
	one, two := recordBehind(t, gate, receiver.GRPCEndpoint()), recordBehind(t, gate, receiver.GRPCEndpoint())
	var ending sync.WaitGroup
	for _, r := range []*metrics.Recorder{one, two} {
		export(t, r, call("a", "t"))
		ending.Go(func() {
			if report := finish(t, r); report.Lost != 0 {
				t.Errorf("%+v", report)
			}
		})
	}
	ending.Wait()
	arrivals := receiver.Arrivals()
	if len(arrivals) != 3 || arrivals[1].Sub(arrivals[0]) < delay {
		t.Errorf("requests at %v", arrivals)
	}
}

// stubborn is an Exporter whose requests end when it is closed, whatever their context.
type stubborn chan struct{}

func (s stubborn) UploadMetrics(context.Context, []byte) error      { <-s; return nil }
func (stubborn) Encode(*metricdata.ResourceMetrics) ([]byte, error) { return []byte("request"), nil }
func (stubborn) Destination() spool.Destination                     { return spool.Destination{} }
func (stubborn) Temporality(kind sdk.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (stubborn) Aggregation(kind sdk.InstrumentKind) sdk.Aggregation {
	return sdk.DefaultAggregationSelector(kind)
}
func (stubborn) Close() {}

// TestCloseIsBounded closes a Recorder whose Exporter ignores its context, during the last
// request and during one before.
func TestCloseIsBounded(t *testing.T) {
	for _, interval := range []time.Duration{time.Hour, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e := make(stubborn)
			r := metrics.New(metrics.Config{Exporter: e, Interval: interval})
			export(t, r, call("a", "t"))
			time.Sleep(2 * time.Second) // of the bubble
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if report := r.Close(ctx); report.Lost != 1 || report.Cause == nil || time.Since(began) > 2*time.Second {
				t.Errorf("%+v after %v", report, time.Since(began))
			}
			close(e)
		})
	}
}

// TestRest counts what only roots state once: not again what another Recorder has counted of
// the run, nor what other runs of the trace use.
func TestRest(t *testing.T) {
	receiver := metricstest.Start(t)
	r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
	chat := func(session string) *tracepb.Span {
		return span("gen_ai.operation.name", "chat", "gen_ai.agent.name", "a", "session.id", session, "gen_ai.usage.input_tokens", 10)
	}
	root := func(session string, total int) *tracepb.Span {
		return span("gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "a", "session.id", session, "spantee.bad_lines", 0,
			"spantee.usage.input_tokens", total)
	}
	r.Remember(facts(t, encode(t, chat("resumed"))))
	export(t, r, chat("resumed"), chat("one"), chat("two"), root("one", 10), root("two", 13), root("resumed", 20))
	finish(t, r)
	for operation, want := range map[string]float64{"chat": 30, "invoke_agent": 3} {
		p := receiver.Points()["gen_ai.client.inference.usage.input_tokens{gen_ai.agent.name=a,gen_ai.operation.name="+operation+",gen_ai.token.modality=unknown}"]
		if p == nil || p.Sum != want {
			t.Errorf("%s: %+v, want %v", operation, p, want)
		}
	}
}

// An exaggerating Exporter rejects more data points than it got.
type exaggerating struct{ stubborn }

func (exaggerating) UploadMetrics(context.Context, []byte) error {
	return &exporter.UploadError{Verdict: exporter.Partial, Rejected: 1000, Err: errors.New("too old")}
}

// TestMoreIsRejectedThanSent counts no more as lost than there was.
func TestMoreIsRejectedThanSent(t *testing.T) {
	r := metrics.New(metrics.Config{Exporter: exaggerating{}, Interval: time.Hour})
	export(t, r, call("a", "t"))
	if report := finish(t, r); report.Delivered != 0 || report.Lost != 1 {
		t.Errorf("%+v", report)
	}
}
