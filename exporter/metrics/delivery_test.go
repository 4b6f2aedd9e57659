package metrics_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/runs"
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
	_, _ = finish(t, r)

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
}

// TestBuckets counts a value at a boundary below it, as the conventions' histograms do.
func TestBuckets(t *testing.T) {
	receiver := metricstest.Start(t)
	r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
	for _, milliseconds := range []uint64{0, 10, 11, 20, 81_920, 81_921, 500_000} {
		s := call("a", "t")
		s.EndTimeUnixNano = s.StartTimeUnixNano + milliseconds*1e6
		export(t, r, s)
	}
	_, _ = finish(t, r)
	p := receiver.Points()["gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}"]
	want := []uint64{2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2}
	if p == nil || !slices.Equal(p.Buckets, want) || p.Count != 7 || math.Abs(p.Sum-663.882) > 1e-9 {
		t.Errorf("%+v, want buckets %v", p, want)
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
	_, _ = finish(t, r)
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
	receiver.Refuse(func(int) error {
		return status.Error(codes.Unavailable, "try again")
	})
	export(t, r, call("a", "t"))
	if _, err := finish(t, r); err == nil {
		t.Error("no error for the last request")
	}
	if p := receiver.Points()[key]; p.Count != 2 || p.Start != start {
		t.Errorf("%d calls since %d, want 2 since %d", p.Count, p.Start, start)
	}
}

// TestNoMetrics says nothing of a receiver that takes spans only.
func TestNoMetrics(t *testing.T) {
	receiver := receivertest.Start(t)
	for protocol, endpoint := range map[string]string{"grpc": receiver.GRPCEndpoint(), "http/protobuf": receiver.HTTPEndpoint()} {
		r := record(t, protocol, endpoint, 0)
		export(t, r, call("a", "t"))
		if left, err := finish(t, r); err != nil || left != nil {
			t.Errorf("%s: %d bytes left, %v", protocol, len(left), err)
		}
	}
}

// What is left of a Recorder whose collector is down arrives as if it had been sent.
func TestLeft(t *testing.T) {
	for _, temporality := range []string{"cumulative", "delta"} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
		receiver := metricstest.Start(t)
		receiver.Stop()
		r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
		export(t, r, call("a", "t"), call("a", "t"))
		left, err := finish(t, r)
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v", temporality, err)
		}
		receiver.Restart()
		upload(t, receiver, left)
		p := receiver.Points()["gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}"]
		if p == nil || p.Count != 2 || p.Sum != 4 {
			t.Errorf("%s: %+v", temporality, p)
		}
	}
}

// A part of the deltas was delivered: the totals would count it twice.
func TestNoDeltasAreLeftOnceOneWasDelivered(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	receiver := metricstest.Start(t)
	r := record(t, "grpc", receiver.GRPCEndpoint(), 5*time.Millisecond)
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool { return len(receiver.Points()) > 0 })
	if r.Snapshot(nil) != nil {
		t.Error("a kill would count deltas twice")
	}
	export(t, r, call("a", "t"))
	receiver.Await(t, func() bool { return len(receiver.Arrivals()) > 1 }) // it knows the first answer
	receiver.Stop()
	export(t, r, call("a", "t"))
	if left, _ := finish(t, r); left != nil || r.Snapshot(nil) != nil {
		t.Errorf("%d bytes are left", len(left))
	}
}

// upload sends an encoded request.
func upload(t *testing.T, receiver *metricstest.Receiver, request []byte) {
	t.Helper()
	settings, err := otlp.Resolve(otlp.Config{Signal: otlp.Metrics, Endpoint: receiver.GRPCEndpoint()})
	if err != nil {
		t.Fatal(err)
	}
	c := settings.MetricsClient()
	defer func() { _ = c.Stop(t.Context()) }()
	if err := c.UploadMetrics(t.Context(), request); err != nil {
		t.Error(err)
	}
}

// The snapshot of a process that is killed has what it has counted, and what is open as
// killed.
func TestSnapshotOfAKilledProcess(t *testing.T) {
	receiver := metricstest.Start(t)
	r := record(t, "grpc", receiver.GRPCEndpoint(), 0)
	export(t, r, call("a", "t"))
	open := span("gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "a", "spantee.bad_lines", 0, "error.type", "killed")
	for range 2 { // nothing of the first is in the second
		upload(t, receiver, r.Snapshot([][]byte{encode(t, open)}))
	}
	for key, want := range map[string]uint64{
		"gen_ai.execute_tool.duration{gen_ai.agent.name=a,gen_ai.tool.name=t,gen_ai.tool.type=function}": 1,
		"gen_ai.invoke_agent.duration{error.type=killed,gen_ai.agent.name=a}":                            1,
	} {
		if p := receiver.Points()[key]; p == nil || p.Count != want {
			t.Errorf("%s: %+v, want %d", key, p, want)
		}
	}
	if p := receiver.Points()["spantee.run.count{gen_ai.agent.name=a,spantee.outcome=killed}"]; p == nil || p.Sum != 1 {
		t.Errorf("runs %+v", p)
	}
	receiver.Stop()
	_, _ = finish(t, r)
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
	_, _ = finish(t, r)
	for operation, want := range map[string]float64{"chat": 30, "invoke_agent": 3} {
		p := receiver.Points()["gen_ai.client.inference.usage.input_tokens{gen_ai.agent.name=a,gen_ai.operation.name="+operation+",gen_ai.token.modality=unknown}"]
		if p == nil || p.Sum != want {
			t.Errorf("%s: %+v, want %v", operation, p, want)
		}
	}
}
