package exporter

import (
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/spool"
)

// A request holds spans that are sent together.
type request struct{ spool.Part }

// newRequest returns a request without spans.
func newRequest(resource *resourcepb.Resource, scope *commonpb.InstrumentationScope) (r request, err error) {
	if resource != nil {
		if r.Resource, err = encodeResource(resource); err != nil {
			return r, err
		}
	}
	if scope != nil {
		r.Scope, err = encodeScope(scope)
	}
	return r, err
}

// with returns a request of other spans.
func (r request) with(spans [][]byte) request {
	r.Spans = spans
	return r
}

func appendField[T string | []byte](b []byte, number protowire.Number, content T) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(content)))
	return append(b, content...)
}

// appendText appends a string. protobuf leaves out an empty one.
func appendText(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return appendField(b, number, s)
}

// encodeResource and encodeScope encode the usual resource and scope without
// protobuf's reflection, whose preparation would take longer than a short session's
// spans. Unknown fields are not sent.
func encodeResource(r *resourcepb.Resource) ([]byte, error) {
	b := []byte{}
	for _, kv := range r.Attributes {
		value, ok := kv.GetValue().GetValue().(*commonpb.AnyValue_StringValue)
		if !ok || kv.KeyStrindex != 0 || !utf8.ValidString(kv.Key) || !utf8.ValidString(value.StringValue) {
			return proto.Marshal(r)
		}
		attribute := appendField(appendText(nil, field.Key, kv.Key), field.Value, appendField(nil, field.String, value.StringValue))
		b = appendField(b, field.ResourceAttributes, attribute)
	}
	if r.DroppedAttributesCount != 0 || len(r.EntityRefs) > 0 {
		return proto.Marshal(r)
	}
	return b, nil
}

func encodeScope(s *commonpb.InstrumentationScope) ([]byte, error) {
	if len(s.Attributes) > 0 || s.DroppedAttributesCount != 0 || !utf8.ValidString(s.Name) || !utf8.ValidString(s.Version) {
		return proto.Marshal(s)
	}
	return appendText(appendText([]byte{}, field.ScopeName, s.Name), field.ScopeVersion, s.Version), nil
}
