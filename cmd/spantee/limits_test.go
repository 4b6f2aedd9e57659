package main

import (
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestMaxCost counts what a run cost once: by its model calls as they end, and by
// its root what they do not have.
func TestMaxCost(t *testing.T) {
	call := func(cost float64) map[string]float64 { return map[string]float64{"gen_ai.usage.cost": cost} }
	root := func(cost float64) map[string]float64 { return map[string]float64{"spantee.usage.cost": cost} }
	for name, test := range map[string]struct {
		spans []map[string]float64
		want  int // the span that reaches 1 USD
	}{
		"calls":               {[]map[string]float64{call(0.5), call(0.25), call(0.25), root(1)}, 2},
		"roots":               {[]map[string]float64{root(0.5), {}, root(0.25), root(0.25)}, 3},
		"roots of calls":      {[]map[string]float64{call(0.25), root(0.25), call(0.25), root(0.25), root(0.5)}, 4},
		"calls without costs": {[]map[string]float64{call(0.25), root(0.5), call(0.25), root(0.5)}, 3},
		"one call is all":     {[]map[string]float64{call(0.5), call(0.5)}, 1},
	} {
		l := newLimits(limitOptions{maxCost: 1})
		reached := -1
		for i, attributes := range test.spans {
			span := new(tracepb.Span)
			for key, value := range attributes {
				span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: value}}})
			}
			wire, err := proto.Marshal(span)
			if err != nil {
				t.Fatal(err)
			}
			if l.count(wire) == "max-cost" {
				reached = i
			}
		}
		if reached != test.want {
			t.Errorf("%s: reached by span %d, want %d", name, reached, test.want)
		}
	}
}
