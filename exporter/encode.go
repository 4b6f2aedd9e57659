package exporter

import (
	"slices"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of an ExportTraceServiceRequest and the messages in it.
const (
	fieldResourceSpans = 1

	fieldResource   = 1 // ResourceSpans
	fieldScopeSpans = 2

	fieldScope = 1 // ScopeSpans
	fieldSpans = 2

	fieldAttributes = 1 // Resource

	fieldName    = 1 // InstrumentationScope
	fieldVersion = 2

	fieldKey   = 1 // KeyValue
	fieldValue = 2

	fieldString = 1 // AnyValue
)

// A request holds spans that are sent together. Everything in it is encoded, as it
// appears in a request.
type request struct {
	resource []byte // of the ResourceSpans; may be empty
	scope    []byte // of the ScopeSpans; may be empty
	spans    [][]byte
	wire     []byte // room for the head, then the spans; nil if they are not in one buffer
}

// newRequest returns a request without spans.
func newRequest(resource *resourcepb.Resource, scope *commonpb.InstrumentationScope) (r request, err error) {
	if resource != nil {
		b, err := encodeResource(resource)
		if err != nil {
			return r, err
		}
		r.resource = appendField(nil, fieldResource, b)
	}
	if scope != nil {
		b, err := encodeScope(scope)
		if err != nil {
			return r, err
		}
		r.scope = appendField(nil, fieldScope, b)
	}
	return r, nil
}

// with returns a request of other spans.
func (r request) with(spans [][]byte) request {
	r.spans, r.wire = spans, nil
	return r
}

// size returns the number of bytes of the spans.
func (r request) size() (size int) {
	for _, span := range r.spans {
		size += len(span)
	}
	return size
}

// overhead returns how many bytes a full request takes besides its spans.
func (r request) overhead() int {
	// The lengths of the two enclosing messages take up to three bytes more each
	// than in an empty request.
	return 2*3 + len(r.appendHead(nil, 0))
}

// appendHead appends everything that precedes the spans, which have size bytes.
func (r request) appendHead(b []byte, size int) []byte {
	size += len(r.scope)
	b = protowire.AppendTag(b, fieldResourceSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(r.resource)+protowire.SizeTag(fieldScopeSpans)+protowire.SizeBytes(size)))
	b = append(b, r.resource...)
	b = protowire.AppendTag(b, fieldScopeSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return append(b, r.scope...)
}

// appendTo appends an ExportTraceServiceRequest.
func (r request) appendTo(b []byte) []byte {
	size := r.size()
	b = r.appendHead(slices.Grow(b, r.overhead()+size), size)
	for _, span := range r.spans {
		b = append(b, span...)
	}
	return b
}

// inPlace returns an ExportTraceServiceRequest that is made by writing the head in
// front of the spans. It returns nil if there is no room.
func (r request) inPlace() []byte {
	size := r.size()
	room := len(r.wire) - size
	head := r.appendHead(make([]byte, 0, max(0, room)), size)
	if len(head) > room {
		return nil
	}
	b := r.wire[room-len(head):]
	copy(b, head)
	return b
}

// framedSize returns the number of bytes that an encoded span adds to a request.
func framedSize(span []byte) int {
	return protowire.SizeTag(fieldSpans) + protowire.SizeBytes(len(span))
}

// appendFramed appends an encoded span as it appears in a request.
func appendFramed(b, span []byte) []byte { return appendField(b, fieldSpans, span) }

func appendField[T string | []byte](b []byte, field protowire.Number, content T) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(content)))
	return append(b, content...)
}

// appendText appends a string. protobuf leaves out an empty one.
func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return appendField(b, field, s)
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
		attribute := appendField(appendText(nil, fieldKey, kv.Key), fieldValue, appendField(nil, fieldString, value.StringValue))
		b = appendField(b, fieldAttributes, attribute)
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
	return appendText(appendText(nil, fieldName, s.Name), fieldVersion, s.Version), nil
}
