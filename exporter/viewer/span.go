package viewer

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/runs"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

func (id traceID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes an id in JSON.
func (id traceID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Scan reads an id from the database.
func (id *traceID) Scan(value any) error {
	b, ok := value.([]byte)
	if !ok || copy(id[:], b) != len(id) {
		return fmt.Errorf("%v is no id", value)
	}
	return nil
}

// parseTraceID reads an id in hex. Jaeger leaves out leading zeros in links.
func parseTraceID(s string) (id traceID, ok bool) {
	s = strings.Repeat("0", max(0, 2*len(id)-len(s))) + s
	n, err := hex.Decode(id[:], []byte(s[:2*len(id)]))
	return id, err == nil && n == len(id) && len(s) == 2*len(id)
}

func validID(id []byte, size int) bool {
	return len(id) == size && slices.ContainsFunc(id, func(b byte) bool { return b != 0 })
}

// An origin is the resource and the scope of spans.
type origin struct {
	wire    string // an encoded ResourceSpans without spans
	service string // its name
}

func newOrigin(wire []byte) origin {
	o := origin{wire: string(wire)}
	for resource := range field.Of(wire, field.Resource) {
		for attribute := range field.Of(resource.Bytes, field.ResourceAttributes) {
			var kv commonpb.KeyValue
			_ = proto.Unmarshal(attribute.Bytes, &kv) // it is valid
			if kv.GetKey() == keyService {
				o.service = cutText(kv.GetValue().GetStringValue(), maxDetail)
			}
		}
	}
	return o
}

// A stored is an encoded span: decoded, it would take several times the memory.
type stored struct {
	n      int64 // its number in the session: later spans have higher ones, open ones 0
	origin origin
	wire   []byte
}

func (sp *stored) read() *runs.Span {
	s := new(runs.Span)
	_ = s.Read(sp.wire) // it is valid
	return s
}

// maxOrigin is the size of the largest resource and scope: each session keeps a copy.
const maxOrigin = 256 << 10

// split returns the spans of an encoded TracesData, which refer to its bytes. Their ids are
// not read.
func split(request []byte) (list []stored) {
	for rs := range field.Of(request, field.ResourceSpans) {
		var resource []byte
		for v := range field.Of(rs.Bytes, field.Resource) {
			resource = append(resource[:len(resource):len(resource)], v.Whole...) // protobuf merges them
		}
		for ss := range field.Of(rs.Bytes, field.ScopeSpans) {
			var scope []byte
			for v := range field.Of(ss.Bytes, field.Scope) {
				scope = append(scope[:len(scope):len(scope)], v.Whole...)
			}
			header := protowire.AppendTag(slices.Clone(resource), field.ScopeSpans, protowire.BytesType)
			from := newOrigin(protowire.AppendBytes(header, scope))
			for v := range field.Of(ss.Bytes, field.Spans) {
				if len(from.wire) > maxOrigin {
					v.Bytes = nil // without an id, it is rejected
				}
				list = append(list, stored{origin: from, wire: v.Bytes})
			}
		}
	}
	return list
}

// withoutCopies leaves the last of the spans that have the same ids: a request may have one
// tens of thousands of times.
func withoutCopies(spans []stored) []stored {
	seen := make(map[[2]string]bool)
	left := len(spans)
	for _, sp := range slices.Backward(spans) {
		var ids [2]string
		for number, v := range field.All(sp.wire, nil) {
			switch number {
			case field.SpanTraceID:
				ids[0] = string(v.Bytes)
			case field.SpanID:
				ids[1] = string(v.Bytes)
			}
		}
		if ids[0] == "" || ids[1] == "" || !seen[ids] { // each that has none is rejected
			seen[ids] = true
			left--
			spans[left] = sp
		}
	}
	return spans[left:]
}

// A Span is a span with its resource and scope.
type Span struct {
	*tracepb.Span
	Resource *resourcepb.Resource
	Scope    *commonpb.InstrumentationScope
	origin   origin
}

// A decoder decodes spans. It decodes an origin once.
type decoder map[origin]Span

// decode returns no error because the span is valid.
func (d decoder) decode(sp stored) Span {
	s, known := d[sp.origin]
	if !known {
		var header tracepb.ResourceSpans
		_ = proto.Unmarshal([]byte(sp.origin.wire), &header)
		s = Span{Resource: header.GetResource(), Scope: new(commonpb.InstrumentationScope), origin: sp.origin}
		if scopes := header.GetScopeSpans(); len(scopes) > 0 {
			s.Scope = scopes[0].GetScope()
		}
		d[sp.origin] = s
	}
	s.Span = new(tracepb.Span)
	_ = proto.Unmarshal(sp.wire, s.Span)
	return s
}

// grouped puts spans of one origin together.
func grouped(spans []Span) []*tracepb.ResourceSpans {
	var groups []*tracepb.ResourceSpans
	index := make(map[origin]*tracepb.ScopeSpans)
	for _, sp := range spans {
		g := index[sp.origin]
		if g == nil {
			g = &tracepb.ScopeSpans{Scope: sp.Scope}
			index[sp.origin] = g
			groups = append(groups, &tracepb.ResourceSpans{Resource: sp.Resource, ScopeSpans: []*tracepb.ScopeSpans{g}})
		}
		g.Spans = append(g.Spans, sp.Span)
	}
	return groups
}
