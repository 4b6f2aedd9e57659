package limits

import (
	"bytes"
	"slices"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

func read(t *testing.T, span *tracepb.Span) *runs.Span {
	t.Helper()
	wire, err := proto.Marshal(span)
	if err != nil {
		t.Fatal(err)
	}
	facts := new(runs.Span)
	if err := facts.Read(wire); err != nil {
		t.Fatal(err)
	}
	return facts
}

// TestMaxCost counts the cost of a run once: the cost of model calls as they end, and
// from the root only the rest.
func TestMaxCost(t *testing.T) {
	span := func(operation string, parent byte, key string, cost float64) *tracepb.Span {
		s := &tracepb.Span{Attributes: []*commonpb.KeyValue{
			{Key: semconv.OperationName, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: operation}}},
			{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: cost}}},
		}}
		if parent > 0 {
			s.ParentSpanId = []byte{parent}
		} else {
			s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: semconv.BadLines, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{}}})
		}
		return s
	}
	call := func(cost float64) *tracepb.Span { return span("chat", 1, semconv.UsageCost, cost) }
	root := func(cost float64) *tracepb.Span { return span("invoke_agent", 0, semconv.UsageTotalCost, cost) }
	tool := span("execute_tool", 1, "", 0)
	for name, test := range map[string]struct {
		spans []*tracepb.Span
		want  int // the span that reaches 1 USD
	}{
		"calls":               {[]*tracepb.Span{call(0.5), call(0.25), call(0.25), root(1)}, 2},
		"roots":               {[]*tracepb.Span{root(0.5), tool, root(0.25), root(0.25)}, 3},
		"roots of calls":      {[]*tracepb.Span{call(0.25), root(0.25), call(0.25), root(0.25), root(0.5)}, 4},
		"calls without costs": {[]*tracepb.Span{call(0.25), root(0.5), call(0.25), root(0.5)}, 3},
		"one call is all":     {[]*tracepb.Span{call(0.5), call(0.5)}, 1},
	} {
		l := New(Options{MaxCost: 1}, nil)
		reached, run := -1, byte(0)
		for i, span := range test.spans {
			span.TraceId = bytes.Repeat([]byte{run}, 16)
			if len(span.ParentSpanId) == 0 { // the next span is of another run
				run++
			}
			l.Add(read(t, span))
			if slices.Contains(l.Reached(0), "max-cost") {
				reached = i
			}
		}
		if reached != test.want {
			t.Errorf("%s: reached by span %d, want %d", name, reached, test.want)
		}
	}
}

// What --prices computes of model calls counts until the run states its cost.
func TestComputedCostOfARun(t *testing.T) {
	attribute := func(key string, v *commonpb.AnyValue) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: v}
	}
	call := &tracepb.Span{Name: "chat m", TraceId: []byte{1}, ParentSpanId: []byte{1}, Attributes: []*commonpb.KeyValue{
		attribute(semconv.RequestModel, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "m"}}),
		attribute(semconv.InputTokens, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 60}}),
	}}
	root := &tracepb.Span{Name: "invoke_agent a", TraceId: []byte{1}, Attributes: []*commonpb.KeyValue{
		attribute(semconv.BadLines, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{}}),
		attribute(semconv.UsageTotalCost, &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 0.5}}),
	}}
	l := New(Options{MaxCost: 1}, runs.Prices{"m": {Input: 0.01}})
	for i, want := range []float64{0.6, 1.2, 0.5} {
		if l.Add(read(t, []*tracepb.Span{call, call, root}[i])); l.cost != want {
			t.Errorf("%v after %d spans, want %v", l.cost, i+1, want)
		}
	}
}
