package exporter

import (
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Resolve returns span with every event in its Events field. Spans carry
// events as bytes already encoded, in their unknown fields, where they cost
// one append each and nothing but a marshaller sees them. A span without such
// bytes is returned as it is; span itself is never changed.
func Resolve(span *tracepb.Span) *tracepb.Span {
	if len(span.ProtoReflect().GetUnknown()) == 0 {
		return span
	}
	full := new(tracepb.Span)
	if reread(span, full) != nil {
		return span
	}
	return full
}

// reread makes of m what a receiver would.
func reread(m, to proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, to)
}
