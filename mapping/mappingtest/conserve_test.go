package mappingtest_test

import (
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/mappingtest"
)

func number(key string, n int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}}
}

func text(key, s string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}}
}

// session is a run of two chats with a tool between them. The second chat has
// three deltas, one of them in a child and two in one event.
func session() map[string]*tracepb.Span {
	root := span(1, 0, 1000, 1300)
	root.Name = "invoke_agent"
	root.Attributes = []*commonpb.KeyValue{text("gen_ai.operation.name", "invoke_agent"), number("spantee.deltas", 4), number("spantee.text.bytes", 9)}
	first, tool, second, rest := span(2, 1, 1000, 1099), span(3, 1, 1100, 1199), span(4, 1, 1200, 1300), span(5, 4, 1250, 1300)
	first.Name, tool.Name, second.Name, rest.Name = "chat a", "execute_tool b", "chat c", "deltas"
	first.Attributes = []*commonpb.KeyValue{text("gen_ai.operation.name", "chat"), number("spantee.thinking.deltas", 1), number("spantee.thinking.bytes", 5)}
	second.Attributes = []*commonpb.KeyValue{text("gen_ai.operation.name", "chat"), number("spantee.text.deltas", 3), number("spantee.text.bytes", 9)}
	second.Events = []*tracepb.Span_Event{{Name: "text.delta"}}
	rest.Events = []*tracepb.Span_Event{{Name: "text.delta", Attributes: []*commonpb.KeyValue{number("spantee.delta.count", 2)}}}
	return map[string]*tracepb.Span{"root": root, "first": first, "tool": tool, "second": second, "rest": rest}
}

func TestConserved(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(map[string]*tracepb.Span)
		want  string // in the error; "" for none
	}{
		{"sound", func(map[string]*tracepb.Span) {}, ""},
		{"a chat is missing", func(s map[string]*tracepb.Span) { delete(s, "first") }, "counts 4 deltas, its chats 3"},
		{"bytes", func(s map[string]*tracepb.Span) { s["root"].Attributes[2] = number("spantee.text.bytes", 8) }, "spantee.text.bytes = 8, its chats 9"},
		{"an event is missing", func(s map[string]*tracepb.Span) { s["second"].Events = nil }, "spantee.text.deltas = 3, and 2 events"},
		{"no events at all", func(s map[string]*tracepb.Span) { s["second"].Events, s["rest"].Events = nil, nil }, ""},
		{"siblings touch", func(s map[string]*tracepb.Span) { s["tool"].EndTimeUnixNano = 1200_000 }, `"execute_tool b" (0300000000000000) ends when "chat c"`},
		{"siblings touch once cut", func(s map[string]*tracepb.Span) { s["tool"].EndTimeUnixNano = 1200_400 }, "ends when"},
		{"siblings overlap", func(s map[string]*tracepb.Span) { s["tool"].EndTimeUnixNano = 1250_000 }, ""},
		{"a late child", func(s map[string]*tracepb.Span) { s["second"].EndTimeUnixNano = 1301_000 }, `"chat c" (0400000000000000) lies outside of "invoke_agent" (0100000000000000): 0 us before its start, 1 us after`},
		{"an early child", func(s map[string]*tracepb.Span) { s["rest"].StartTimeUnixNano = 1100_000 }, "100 us before its start"},
		{"a nanosecond outside", func(s map[string]*tracepb.Span) { s["second"].EndTimeUnixNano = 1300_999 }, ""},
		{"time in the model", func(s map[string]*tracepb.Span) {
			s["root"].Attributes = append(s["root"].Attributes, number("spantee.model_ms", 3))
		}, "has 3 ms of model time, its chats 201 us"},
		{"backwards", func(s map[string]*tracepb.Span) { s["tool"].EndTimeUnixNano = 1098_000 }, "ends before it starts"},
		{"its parent is elsewhere", func(s map[string]*tracepb.Span) { s["root"].ParentSpanId = []byte{9, 9, 9, 9, 9, 9, 9, 9} }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			made := session()
			test.spoil(made)
			var spans []*tracepb.Span
			for _, span := range made {
				spans = append(spans, span)
			}
			err := mappingtest.Conserved(spans)
			if test.want == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
