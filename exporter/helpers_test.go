package exporter

import (
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// encode returns the wire bytes of a span.
func encode(span *tracepb.Span) []byte {
	b, err := proto.Marshal(span)
	if err != nil {
		panic(err)
	}
	return b
}

// export exports spans together.
func export(e *Exporter, spans ...*tracepb.Span) {
	_ = e.Export(spansOf(spans), nil)
}

// exportOpen exports a snapshot with spans that have not ended.
func exportOpen(e *Exporter, open ...*tracepb.Span) error {
	return e.Export(nil, &spool.Snapshot{Open: spansOf(open)})
}

func spansOf(spans []*tracepb.Span) (all []*spool.Span) {
	for _, span := range spans {
		all = append(all, spool.NewSpan(encode(span), new(spool.Origin)))
	}
	return all
}

// decode returns what a receiver makes of a request.
func decode(request []byte) (*tracepb.ResourceSpans, error) {
	data := new(tracepb.TracesData)
	if err := proto.Unmarshal(request, data); err != nil {
		return nil, err
	}
	return data.ResourceSpans[0], nil
}

// everything is a span with something in every field.
func everything(name string) *tracepb.Span {
	return &tracepb.Span{
		TraceId:           []byte("0123456789abcdef"),
		SpanId:            []byte("abcdefgh"),
		ParentSpanId:      []byte("parent00"),
		TraceState:        "vendor=1",
		Name:              name,
		Kind:              tracepb.Span_SPAN_KIND_CLIENT,
		Flags:             0x301,
		StartTimeUnixNano: 1_700_000_000_000_000_001,
		EndTimeUnixNano:   1_700_000_000_123_456_789,
		Attributes: []*commonpb.KeyValue{
			{Key: "b", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1<<53 + 1}}},
			{Key: "a", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "ü"}}},
		},
		Events: []*tracepb.Span_Event{{TimeUnixNano: 1, Name: "text.delta"}, {TimeUnixNano: 2, Name: "thinking.delta"}},
		Links:  []*tracepb.Span_Link{{TraceId: []byte("fedcba9876543210"), SpanId: []byte("linked00")}},
		Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "timeout"},
	}
}
