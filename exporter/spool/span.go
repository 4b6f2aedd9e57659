package spool

import (
	"bytes"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A Span is a span as it appears in a ScopeSpans.
type Span struct {
	Wire []byte // with its tag
	Of   *Origin
}

// NewSpan returns a span of an origin. span is the encoding of an
// opentelemetry.proto.trace.v1.Span, which is copied.
func NewSpan(span []byte, of *Origin) *Span { return &Span{Wire: AppendSpan(nil, span), Of: of} }

// numbers are those of the spans in a log that are still to be sent.
type numbers map[*Span]int

// of returns the numbers of spans, without those that need not be sent.
func (n numbers) of(spans []*Span) (list []int) {
	for _, s := range spans {
		if number, ok := n[s]; ok {
			list = append(list, number)
		}
	}
	return list
}

// An Origin is the resource and the scope that spans share, in wire format. Without a
// resource or a scope, these are nil.
type Origin struct{ Resource, Scope []byte }

// NewOrigin returns the origin of spans with this resource and scope, which may be nil. All
// text in them must be valid UTF-8.
func NewOrigin(resource *resourcepb.Resource, scope *commonpb.InstrumentationScope) *Origin {
	o := new(Origin)
	if resource != nil {
		o.Resource, _ = proto.Marshal(resource) // which fails only for invalid UTF-8
	}
	if scope != nil {
		o.Scope, _ = proto.Marshal(scope)
	}
	return o
}

// Encoded returns the span alone.
func (s *Span) Encoded() []byte {
	_, _, tag := protowire.ConsumeTag(s.Wire)
	span, _ := protowire.ConsumeBytes(s.Wire[tag:])
	return span
}

// AppendSpan appends an encoded span as it stands in a ScopeSpans.
func AppendSpan(b, span []byte) []byte { return appendRecord(b, field.Spans, span) }

func appendRecord(b []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
}

func (o *Origin) equal(other *Origin) bool {
	return o == other || bytes.Equal(o.Resource, other.Resource) && bytes.Equal(o.Scope, other.Scope)
}

// Overhead returns how many bytes a full request takes at most besides its spans. It is
// asked for every span, so it encodes nothing.
func (o *Origin) Overhead() int {
	const tag, longest = 1, 4 // bytes of a tag, and of the length of a message
	return 2*(tag+longest) + tag + protowire.SizeBytes(len(o.Resource)) + tag + protowire.SizeBytes(len(o.Scope))
}

// head returns everything that precedes the spans in an ExportTraceServiceRequest. The
// spans have size bytes.
func (o *Origin) head(size int) []byte {
	var resource, scope []byte
	if o.Resource != nil {
		resource = appendRecord(nil, field.Resource, o.Resource)
	}
	if o.Scope != nil {
		scope = appendRecord(nil, field.Scope, o.Scope)
	}
	size += len(scope)
	b := protowire.AppendTag(nil, field.ResourceSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(resource)+protowire.SizeTag(field.ScopeSpans)+protowire.SizeBytes(size)))
	b = append(b, resource...)
	b = protowire.AppendTag(b, field.ScopeSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return append(b, scope...)
}

// recordsOf returns a ResourceSpans for each sequence of spans of one origin. It does not
// copy spans, because there may be megabytes of them.
func recordsOf(spans []*Span) (records [][]byte) {
	for len(spans) > 0 {
		of, n, size := spans[0].Of, 0, 0
		for n < len(spans) && spans[n].Of.equal(of) {
			size += len(spans[n].Wire)
			n++
		}
		records = append(records, of.head(size))
		for _, s := range spans[:n] {
			records = append(records, s.Wire)
		}
		spans = spans[n:]
	}
	return records
}

// maxResource is the longest resource: decoding it takes many times the memory.
const maxResource = 256 << 10

// maxSpans is how many spans a file may have: reading one with many tiny spans
// would take many times its size.
const maxSpans = 1 << 16

// appendSpans appends the spans of a ResourceSpans, still encoded: the receiver's verdict on
// a bad span says more than an error here. It skips what is malformed, and stops once there
// are more spans than any process writes.
func appendSpans(spans []*Span, resourceSpans []byte) []*Span {
	var resource []byte
	for v := range field.Of(resourceSpans, field.Resource) {
		resource = v.Bytes
	}
	if len(resource) > maxResource {
		return spans
	}
	for scopeSpans := range field.Of(resourceSpans, field.ScopeSpans) {
		of := &Origin{Resource: resource}
		for number, v := range field.All(scopeSpans.Bytes, nil) {
			switch {
			case number == field.Scope:
				of.Scope = v.Bytes
			case len(spans) > maxSpans:
				return spans
			case number == field.Spans:
				spans = append(spans, &Span{Wire: v.Whole, Of: of})
			}
		}
	}
	return spans
}

// Encode returns an ExportTraceServiceRequest.
func Encode(spans []*Span) []byte { return bytes.Join(recordsOf(spans), nil) }

// maxRequest is how large a request may be: gRPC servers refuse 4 MiB.
const maxRequest = 3 << 20

// Requests splits spans into requests that receivers accept, each of one origin.
func Requests(spans []*Span) (requests [][]*Span) {
	type origin struct{ resource, scope string }
	last := map[origin]int{} // the last request of an origin
	var sizes []int
	for _, s := range spans {
		i, known := last[origin{string(s.Of.Resource), string(s.Of.Scope)}]
		if !known || sizes[i]+len(s.Wire) > maxRequest {
			i = len(requests)
			last[origin{string(s.Of.Resource), string(s.Of.Scope)}] = i
			requests, sizes = append(requests, nil), append(sizes, s.Of.Overhead())
		}
		requests[i] = append(requests[i], s)
		sizes[i] += len(s.Wire)
	}
	return requests
}
