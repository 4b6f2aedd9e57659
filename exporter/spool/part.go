package spool

import (
	"slices"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of an ExportTraceServiceRequest and the messages in it.
const (
	fieldResourceSpans = 1
	fieldResource      = 1
	fieldScopeSpans    = 2
	fieldScope         = 1
	fieldSpans         = 2
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

// readParts splits an ExportTraceServiceRequest. The spans stay encoded: the
// receiver's verdict on a bad span says more than an error here.
func readParts(b []byte) (parts []Part, err error) {
	spans := 0
	err = fields(b, func(num protowire.Number, value, _ []byte) error {
		if num != fieldResourceSpans {
			return nil
		}
		var resource []byte
		var scopes [][]byte
		err := fields(value, func(num protowire.Number, value, _ []byte) error {
			switch num {
			case fieldResource:
				resource = value
			case fieldScopeSpans:
				scopes = append(scopes, value)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, scope := range scopes {
			part := Part{Resource: resource}
			if err := fields(scope, part.add); err != nil {
				return err
			}
			if spans += len(part.Spans); spans > maxSpans || len(parts) > maxHeads || len(resource) > maxHead || len(part.Scope) > maxHead {
				return errCorrupt
			}
			if proto.Unmarshal(resource, new(resourcepb.Resource)) != nil || proto.Unmarshal(part.Scope, new(commonpb.InstrumentationScope)) != nil {
				return errCorrupt
			}
			parts = append(parts, part)
		}
		return nil
	})
	return parts, err
}

// readSpans reads the spans of a request. This package writes only one Part; further
// ones count as belonging to the first.
func readSpans(b []byte) (Part, error) {
	parts, err := readParts(b)
	if len(parts) == 0 || err != nil {
		return Part{}, err
	}
	first := parts[0]
	for _, p := range parts[1:] {
		first.Spans = append(first.Spans, p.Spans...)
	}
	return first, nil
}

// maxHead is the longest resource or scope: decoding it takes many times the memory.
const maxHead = 256 << 10

// maxRequest is how large a request may be: gRPC servers refuse 4 MiB.
const maxRequest = 3 << 20

func (p *Part) add(num protowire.Number, value, whole []byte) error {
	switch num {
	case fieldScope:
		p.Scope = value
	case fieldSpans:
		if len(p.Spans) == maxSpans {
			return errCorrupt
		}
		p.Spans = append(p.Spans, whole)
	}
	return nil
}

// fields calls f with each field of a message: its value, which is nil unless
// the field is one of bytes, and all of it.
func fields(b []byte, f func(num protowire.Number, value, whole []byte) error) error {
	for len(b) > 0 {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return errCorrupt
		}
		n := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if n < 0 {
			return errCorrupt
		}
		var value []byte
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b[tag:])
		}
		if err := f(num, value, b[:tag+n]); err != nil {
			return err
		}
		b = b[tag+n:]
	}
	return nil
}

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
		resource = appendRecord(nil, fieldResource, p.Resource)
	}
	if p.Scope != nil {
		scope = appendRecord(nil, fieldScope, p.Scope)
	}
	size += len(scope)
	b = protowire.AppendTag(b, fieldResourceSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(resource)+protowire.SizeTag(fieldScopeSpans)+protowire.SizeBytes(size)))
	b = append(b, resource...)
	b = protowire.AppendTag(b, fieldScopeSpans, protowire.BytesType)
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

// SizeSpan returns the number of bytes that an encoded span adds to a request.
func SizeSpan(span []byte) int { return protowire.SizeTag(fieldSpans) + protowire.SizeBytes(len(span)) }

// AppendSpan appends an encoded span as it stands in a ScopeSpans.
func AppendSpan(b, span []byte) []byte { return appendRecord(b, fieldSpans, span) }
