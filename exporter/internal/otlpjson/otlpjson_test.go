package otlpjson

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func parse(t *testing.T, in string) *tracepb.TracesData {
	t.Helper()
	wire, err := ParseTraces([]byte(in))
	data := new(tracepb.TracesData)
	if err == nil {
		err = proto.Unmarshal(wire, data)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, in)
	}
	return data
}

func withSpan(fields string) string {
	return `{"resourceSpans":[{"scopeSpans":[{"spans":[{` + fields + `}]}]}]}`
}

// TestTraces reads a span with every kind of field, and writes it again.
func TestTraces(t *testing.T) {
	value := func(v *commonpb.AnyValue) []*commonpb.KeyValue { return []*commonpb.KeyValue{{Key: "k", Value: v}} }
	want := &tracepb.Span{
		TraceId: []byte("0123456789abcdef"), SpanId: []byte("\x00\x00\x00\x00\x00\x00\x00\xab"), ParentSpanId: []byte("parent00"),
		Name: "\"é\u2028😀\x00<", Kind: tracepb.Span_SPAN_KIND_CLIENT, StartTimeUnixNano: math.MaxUint64, EndTimeUnixNano: 1<<53 + 1,
		Flags: 257, TraceState: "a=b", DroppedEventsCount: 1,
		Events: []*tracepb.Span_Event{{Name: "e", TimeUnixNano: 5, Attributes: value(&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: -0.5}})}},
		Links:  []*tracepb.Span_Link{{TraceId: []byte("fedcba9876543210"), SpanId: []byte("linked00"), Attributes: value(&commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: math.MinInt64}})}},
		Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "late"},
		Attributes: value(&commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{
			{Value: &commonpb.AnyValue_StringValue{}}, {Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}, {Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte("\xff")}},
		}}}}),
	}
	wire, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{want}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := Traces(wire)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"traceId":"30313233343536373839616263646566"`, `"kind":3`, `"endTimeUnixNano":"9007199254740993"`, `"code":2`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	if diff := cmp.Diff(want, parse(t, string(text)).ResourceSpans[0].ScopeSpans[0].Spans[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if got, err := Traces([]byte("\x0a")); err == nil {
		t.Errorf("%s", got)
	}
}

func TestParseTraces(t *testing.T) {
	for in, want := range map[string]*tracepb.Span{
		` "name" : "a\u0041" `:                                            {Name: "aA"},
		`"startTimeUnixNano":"12","endTimeUnixNano":34`:                   {StartTimeUnixNano: 12, EndTimeUnixNano: 34},
		`"new":[{"name":"x"}],"name":"y"`:                                 {Name: "y"},
		`"kind":"SPAN_KIND_CLIENT","status":{"code":"STATUS_CODE_ERROR"}`: {Kind: tracepb.Span_SPAN_KIND_CLIENT, Status: &tracepb.Status{Code: 2}},
	} {
		got := parse(t, withSpan(in)).ResourceSpans[0].ScopeSpans[0].Spans[0]
		if want.Status == nil {
			got.Status = nil // pdata adds an empty one
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	for _, in := range []string{
		``, `{"resourceSpans":[`, `{} {}`, withSpan(`"traceId":"abc"`), withSpan(`"spanId":"zz"`),
		withSpan(`"endTimeUnixNano":"x"`), withSpan(`"attributes":[{"value":{"bytesValue":"%"}}]`),
		withSpan(`"attributes":[{"value":` + strings.Repeat(`{"arrayValue":{"values":[`, 100_000) + strings.Repeat(`]}}`, 100_000) + `}]`),
	} {
		if wire, err := ParseTraces([]byte(in)); err == nil {
			t.Errorf("%.80s: %x", in, wire)
		}
	}
}

// What ParseTraces accepts and protobuf decodes, Traces writes, and ParseTraces reads alike.
func FuzzTraces(f *testing.F) {
	f.Add([]byte(`{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":{"arrayValue":{"values":[{"intValue":"1"},{"doubleValue":0.5}]}}}]}}]}`))
	f.Add([]byte(withSpan(`"events":[{"timeUnixNano":"5","name":"\u00e9"}],"links":[{"spanId":"0011223344556677"}],"status":{"code":2}`)))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, _ = Traces(in) // only without a panic
		wire, err := ParseTraces(in)
		want := new(tracepb.TracesData)
		if err != nil || proto.Unmarshal(wire, want) != nil {
			return
		}
		text, err := Traces(wire)
		if err != nil {
			t.Fatalf("%v, but it was read", err)
		}
		if diff := cmp.Diff(want, parse(t, string(text)), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	})
}
