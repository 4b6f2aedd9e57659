package otlpjson

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
)

// fill puts values into all fields of a message, and returns its encoding.
func fill(t *testing.T, m proto.Message, chosen int) []byte {
	t.Helper()
	wire, err := proto.Marshal(filled(m.ProtoReflect(), chosen, 0).Interface())
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// filled returns a message with a value in every field. Of the fields of a oneof, it sets
// the one that chosen stands for.
func filled(m protoreflect.Message, chosen, depth int) protoreflect.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		d := fields.Get(i)
		if ofProfiles(d) || isChoice(d) && d.ContainingOneof().Fields().Get(chosen%d.ContainingOneof().Fields().Len()) != d {
			continue
		}
		one := func() protoreflect.Value {
			if d.Kind() == protoreflect.MessageKind {
				return protoreflect.ValueOfMessage(filled(newOf(m, d), chosen, depth+1))
			}
			return scalar(d)
		}
		switch {
		case d.Kind() == protoreflect.MessageKind && depth > 7:
		case d.IsList():
			list := m.Mutable(d).List()
			for range 1 + chosen%2 {
				list.Append(one())
			}
		default:
			m.Set(d, one())
		}
	}
	return m
}

func newOf(m protoreflect.Message, d protoreflect.FieldDescriptor) protoreflect.Message {
	if d.IsList() {
		return m.NewField(d).List().NewElement().Message()
	}
	return m.NewField(d).Message()
}

func scalar(d protoreflect.FieldDescriptor) protoreflect.Value {
	n := int(d.Number())
	switch d.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("\"\\/\b\f\n\r\t\x00\x1f\x7f<é\u2028😀" + d.JSONName())
	case protoreflect.BytesKind:
		size := map[string]int{"traceId": 16, "spanId": 8, "parentSpanId": 8}[d.JSONName()]
		return protoreflect.ValueOfBytes([]byte("\xff\xfe\x00 to 16 bytes and more")[:max(size, 5)])
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(2)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(math.MaxUint32 - uint32(n))
	case protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(math.MinInt32 + int32(n))
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(math.MinInt64 + int64(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(math.MaxUint64 - uint64(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{math.MaxFloat64, 5e-324, 1e21, 999999999999999999999, 1e-6, 9e-7, -0.5, math.Inf(1)}[n%8])
	}
	panic(d)
}

// The collector reads what Traces writes, and ParseTraces what the collector writes.
func TestTracesLikeCollector(t *testing.T) {
	for chosen := range 7 {
		want := new(tracepb.TracesData)
		wire := fill(t, want, chosen)
		own, err := Traces(wire)
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(want, readByCollector(t, own)); diff != "" {
			t.Errorf("the collector: %s", diff)
		}
		traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{own, theirs} {
			wire, err := ParseTraces(b)
			if err != nil {
				t.Fatalf("%v in %s", err, b)
			}
			got := new(tracepb.TracesData)
			if err := proto.Unmarshal(wire, got); err != nil {
				t.Fatal(err)
			}
			if diff := difference(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestMetricsLikeCollector(t *testing.T) {
	for chosen := range 7 {
		want := new(metricpb.MetricsData)
		wire := fill(t, want, chosen)
		own, err := Metrics(wire)
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := (&pmetric.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalMetrics(own)
		if err != nil {
			t.Fatalf("%v in %s", err, own)
		}
		theirs, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)
		if err != nil {
			t.Fatal(err)
		}
		got := new(metricpb.MetricsData)
		if err := proto.Unmarshal(theirs, got); err != nil {
			t.Fatal(err)
		}
		if diff := difference(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// bytesField returns a field of type bytes, string or message.
func bytesField(number protowire.Number, parts ...string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), strings.Join(parts, "")))
}

// Fields may come in any order, and those of a list apart.
func TestTracesOutOfOrder(t *testing.T) {
	span := bytesField(11, bytesField(2, "a")) + bytesField(15, bytesField(2, "failed")) + bytesField(5, "first") +
		bytesField(11, bytesField(2, "b")) + bytesField(15, "\x18\x02") + bytesField(99, "unknown") + bytesField(5, "last")
	got, err := Traces([]byte(bytesField(1, bytesField(2, bytesField(2, span)))))
	want := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"last","events":[{"name":"a"},{"name":"b"}],"status":{"message":"failed","code":2}}]}]}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

func TestDoubles(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", -0.5: "-0.5", 1e20: "100000000000000000000", 1e21: "1e+21", 1e-6: "0.000001", 9e-7: "9e-07", 5e-324: "5e-324",
		math.Inf(1): `"Infinity"`, math.Inf(-1): `"-Infinity"`, math.NaN(): `"NaN"`,
	} {
		var e encoder
		if e.double(in); string(e.out) != want {
			t.Errorf("%s, want %s", e.out, want)
		}
	}
}

func TestTracesErrors(t *testing.T) {
	value := ""
	for range maxDepth / 2 {
		value = bytesField(5, bytesField(1, value)) // an array in a value
	}
	for wire, want := range map[string]string{
		"\x0a":                               "unexpected EOF",
		bytesField(1, "\x0a\x05"):            "resourceSpans: 0: unexpected EOF",
		"\x78":                               "unexpected EOF", // of an unknown field
		"\x08\x01":                           "resourceSpans: wire type 0",
		"\x0b\x0c":                           "resourceSpans: wire type 3",
		bytesField(1, bytesField(3, "\xff")): "resourceSpans: 0: schemaUrl: text that is not UTF-8",
		bytesField(1, bytesField(1, bytesField(1, bytesField(2, value)))): "nested too deeply",
	} {
		if got, err := Traces([]byte(wire)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.20x: %s, %v, want %s", wire, got, err, want)
		}
	}
}

func TestParseTraces(t *testing.T) {
	span := func(field string) string { return `{"resourceSpans":[{"scopeSpans":[{"spans":[{` + field + `}]}]}]}` }
	parse := func(t *testing.T, in string) *tracepb.Span {
		t.Helper()
		wire, err := ParseTraces([]byte(in))
		data := new(tracepb.TracesData)
		if err == nil {
			err = proto.Unmarshal(wire, data)
		}
		if err != nil {
			t.Fatalf("%v in %s", err, in)
		}
		return data.ResourceSpans[0].ScopeSpans[0].Spans[0]
	}
	for in, want := range map[string]*tracepb.Span{
		` "name" : "a\u0041\ud83d\ude00" `:                                           {Name: "aA😀"},
		`"n\u0061me":"x"`:                                                            {Name: "x"},
		`"start_time_unix_nano":"12","end_time_unix_nano":34`:                        {StartTimeUnixNano: 12, EndTimeUnixNano: 34},
		`"name":null,"attributes":null,"status":null`:                                {},
		`"new":[{"name":"x"}],"name":"y"`:                                            {Name: "y"},
		`"kind":"SPAN_KIND_CLIENT","status":{"code":"STATUS_CODE_ERROR"}`:            {Kind: tracepb.Span_SPAN_KIND_CLIENT, Status: &tracepb.Status{Code: 2}},
		`"kind":"3","flags":"257"`:                                                   {Kind: tracepb.Span_SPAN_KIND_CLIENT, Flags: 257},
		`"spanId":"00000000000000Ab","parentSpanId":"0000000000000000","traceId":""`: {SpanId: []byte("\x00\x00\x00\x00\x00\x00\x00\xab")},
		`"events":[null],"links":[{}]`:                                               {Events: []*tracepb.Span_Event{{}}, Links: []*tracepb.Span_Link{{}}},
	} {
		if diff := cmp.Diff(want, parse(t, span(in)), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	for in, want := range map[string]any{
		`{"bytesValue":"-_8="}`: []byte("\xfb\xff"), `{"bytesValue":"+/8"}`: []byte("\xfb\xff"), `{"bytesValue":""}`: []byte{},
		`{"stringValue":""}`: "", `{"intValue":-5}`: int64(-5), `{"intValue":"0"}`: int64(0), `{"boolValue":false}`: false,
		`{"doubleValue":"-Infinity"}`: math.Inf(-1), `{"doubleValue":"1.5"}`: 1.5, `{"doubleValue":2e3}`: 2000.0,
	} {
		var got any
		switch v := parse(t, span(`"attributes":[{"key":"k","value":`+in+`}]`)).Attributes[0].Value.Value.(type) {
		case *commonpb.AnyValue_BytesValue:
			got = v.BytesValue
		case *commonpb.AnyValue_StringValue:
			got = v.StringValue
		case *commonpb.AnyValue_IntValue:
			got = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			got = v.BoolValue
		case *commonpb.AnyValue_DoubleValue:
			got = v.DoubleValue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	for in, want := range map[string]string{
		``:                             "unexpected end of JSON input",
		`{"resourceSpans":[`:           "unexpected end of JSON input",
		`{} {}`:                        "invalid character '{' after top-level value",
		`[]`:                           "[] (want an object)",
		`null`:                         "null (want an object)",
		`{"resourceSpans":{}}`:         "resourceSpans: {} (want an array)",
		`{"resourceSpans":[[]]}`:       "resourceSpans: 0: [] (want an object)",
		`{"resourceSpans":[0]}`:        "resourceSpans: 0: 0 (want an object)",
		span("\"name\":\"\xff\""):      "name: text that is not UTF-8",
		span(`"name":5`):               "spans: 0: name: 5 (want a string)",
		span(`"traceId":"abc"`):        "traceId: not an id of 32 hex digits",
		span(`"spanId":"00"`):          "spanId: not an id of 16 hex digits",
		span(`"endTimeUnixNano":"-1"`): `endTimeUnixNano: "-1" (want an integer that is not negative)`,
		span(`"endTimeUnixNano":1.5`):  "endTimeUnixNano: 1.5 (want an integer that is not negative)",
		span(`"flags":4294967296`):     "flags: 4294967296 (want a number from 0 to 4294967295)",
		span(`"kind":"CLIENT"`):        `kind: "CLIENT" (want a number or the name of one)`,
		span(`"attributes":[{"value":{"boolValue":"true"}}]`): `boolValue: "true" (want true or false)`,
		span(`"attributes":[{"value":{"intValue":true}}]`):    "intValue: true (want an integer)",
		span(`"attributes":[{"value":{"doubleValue":"x"}}]`):  `doubleValue: "x" (want a number)`,
		span(`"attributes":[{"value":{"bytesValue":"%"}}]`):   "bytesValue: not in base64",
		span(`"name":["` + strings.Repeat("é", 50) + `"]`):    `name: ["` + strings.Repeat("é", 19) + `... (want a string)`,
		span(`"attributes":[{"value":` + strings.Repeat(`{"arrayValue":{"values":[`, maxDepth/2) + strings.Repeat(`]}}`, maxDepth/2) + `}]`): "nested too deeply",
		strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000):                                                                  "exceeded max depth",
	} {
		if wire, err := ParseTraces([]byte(in)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.80s: %x, %v, want %s", in, wire, err, want)
		}
	}
}

// What ParseTraces accepts, Traces writes, and ParseTraces and the collector read alike.
func FuzzTraces(f *testing.F) {
	f.Add([]byte(`{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":{"arrayValue":{"values":[{"intValue":"1"},{"doubleValue":0.5}]}}}]}}]}`))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"s"},"spans":[{"trace_id":"00112233445566778899aabbccddeeff","kind":"SPAN_KIND_SERVER","flags":256,"status":null}]}]}]}`))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":[{"timeUnixNano":"5","name":"\u00e9"}],"links":[{"spanId":"0011223344556677"}],"status":{"code":2}}]}]}]}`))
	f.Add([]byte(`{"resourceSpans":[{"resource":{"attributes":[{"value":{"intValue":1,"stringValue":"a"}}]}}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, _ = Traces(in) // only without a panic
		wire, err := ParseTraces(in)
		if err != nil {
			return
		}
		own, err := Traces(wire)
		if err != nil {
			t.Fatalf("%v, but it was read", err)
		}
		want := new(tracepb.TracesData)
		if err := proto.Unmarshal(wire, want); err != nil {
			t.Fatal(err)
		}
		back, err := ParseTraces(own)
		got := new(tracepb.TracesData)
		if err == nil {
			err = proto.Unmarshal(back, got)
		}
		if err != nil {
			t.Fatalf("%v in %s", err, own)
		}
		if diff := difference(want, got); diff != "" {
			t.Errorf("%s: %s", own, diff)
		}
		if diff := difference(want, readByCollector(t, own)); diff != "" {
			t.Errorf("the collector reads %s: %s", own, diff)
		}
	})
}

// readByCollector returns what the collector's code reads.
func readByCollector(t *testing.T, b []byte) *tracepb.TracesData {
	t.Helper()
	traces, err := (&ptrace.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalTraces(b)
	if err != nil {
		t.Fatalf("the collector: %v in %s", err, b)
	}
	wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	data := new(tracepb.TracesData)
	if err == nil {
		err = proto.Unmarshal(wire, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// difference compares messages, except for messages without fields, which the
// collector's code adds.
func difference(want, got proto.Message) string {
	return cmp.Diff(plain(want.ProtoReflect()).Interface(), plain(got.ProtoReflect()).Interface(), protocmp.Transform())
}

// plain removes messages without fields.
func plain(m protoreflect.Message) protoreflect.Message {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Kind() != protoreflect.MessageKind:
		case d.IsList():
			for i := range v.List().Len() {
				plain(v.List().Get(i).Message())
			}
		case proto.Size(plain(v.Message()).Interface()) == 0 && !isChoice(d):
			m.Clear(d)
		}
		return true
	})
	return m
}
