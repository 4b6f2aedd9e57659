package spool

import (
	"slices"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A Part is the spans of one resource and scope, in wire format. Without a resource or
// a scope, these are nil.
type Part struct {
	Resource, Scope []byte
	Spans           [][]byte // each as it stands in a ScopeSpans, with its tag
}

// same reports whether the spans of both can be in one ScopeSpans.
func (p Part) same(q Part) bool {
	return string(p.Resource) == string(q.Resource) && string(p.Scope) == string(q.Scope)
}

// With returns other spans of the same resource and scope.
func (p Part) With(spans [][]byte) Part {
	p.Spans = spans
	return p
}

// readParts splits an ExportTraceServiceRequest. The spans stay encoded: the
// receiver's verdict on a bad span says more than an error here.
func readParts(b []byte) (parts []Part, err error) {
	spans := 0
	for number, request := range field.All(b, &err) {
		if number != field.ResourceSpans {
			continue
		}
		var resource []byte
		var scopes [][]byte
		for number, v := range field.All(request.Bytes, &err) {
			switch number {
			case field.Resource:
				resource = v.Bytes
			case field.ScopeSpans:
				scopes = append(scopes, v.Bytes)
			}
		}
		for _, scope := range scopes {
			part := Part{Resource: resource}
			for number, v := range field.All(scope, &err) {
				switch number {
				case field.Scope:
					part.Scope = v.Bytes
				case field.Spans:
					if spans++; spans > maxSpans {
						return nil, errTooMany
					}
					part.Spans = append(part.Spans, v.Whole)
				}
			}
			if len(parts) > maxParts || len(resource) > maxHead || len(part.Scope) > maxHead ||
				proto.Unmarshal(resource, new(resourcepb.Resource)) != nil || proto.Unmarshal(part.Scope, new(commonpb.InstrumentationScope)) != nil {
				return nil, errCorrupt
			}
			parts = append(parts, part)
		}
	}
	if err != nil {
		return nil, errCorrupt
	}
	return parts, nil
}

// maxHead is the longest resource or scope: decoding it takes many times the memory.
const maxHead = 256 << 10

// maxParts is more than there are agents.
const maxParts = 100

// maxRequest is how large a request may be: gRPC servers refuse 4 MiB.
const maxRequest = 3 << 20

// Size returns the number of bytes of the spans.
func (p Part) Size() (size int) {
	for _, span := range p.Spans {
		size += len(span)
	}
	return size
}

// Overhead returns how many bytes a full request takes besides its spans.
func (p Part) Overhead() int {
	// The lengths of the two enclosing messages take up to three bytes more each
	// than in an empty request.
	return 2*3 + len(p.AppendHead(nil, 0))
}

// AppendHead appends everything that precedes the spans in an
// ExportTraceServiceRequest. The spans have size bytes.
func (p Part) AppendHead(b []byte, size int) []byte {
	var resource, scope []byte
	if p.Resource != nil {
		resource = appendRecord(nil, field.Resource, p.Resource)
	}
	if p.Scope != nil {
		scope = appendRecord(nil, field.Scope, p.Scope)
	}
	size += len(scope)
	b = protowire.AppendTag(b, field.ResourceSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(resource)+protowire.SizeTag(field.ScopeSpans)+protowire.SizeBytes(size)))
	b = append(b, resource...)
	b = protowire.AppendTag(b, field.ScopeSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return append(b, scope...)
}

// AppendTo appends an ExportTraceServiceRequest.
func (p Part) AppendTo(b []byte) []byte {
	size := p.Size()
	b = p.AppendHead(slices.Grow(b, p.Overhead()+size), size)
	for _, span := range p.Spans {
		b = append(b, span...)
	}
	return b
}

// Request returns the request that the spans are sent in.
func (p Part) Request() Request { return Request{Body: p.AppendTo(nil), Spans: len(p.Spans)} }

// AppendSpan appends an encoded span as it stands in a ScopeSpans.
func AppendSpan(b, span []byte) []byte {
	size := protowire.SizeTag(field.Spans) + protowire.SizeBytes(len(span))
	return appendRecord(slices.Grow(b, size), field.Spans, span)
}
