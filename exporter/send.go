package exporter

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// A request holds spans that are sent together, encoded as they appear in it.
type request struct {
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	spans    [][]byte
	joined   []byte // the spans one after the other, nil if they are not at hand
}

// An origin is what the spans of one resource share.
type origin struct {
	request         // without spans
	overhead int    // bytes of a request besides its spans
	head     int    // in the journal
	filling  *batch // the batch that spans are added to, or nil
}

func newOrigin(resource *resourcepb.Resource, scope *commonpb.InstrumentationScope) *origin {
	o := &origin{request: request{resource: resource, scope: scope}}
	// In a full request, the lengths of the two enclosing messages take up to three
	// bytes more each than in an empty one.
	o.overhead = 2*3 + proto.Size(&coltracepb.ExportTraceServiceRequest{ResourceSpans: o.resourceSpans(nil)})
	return o
}

// originOf returns the origin of spans of a resource. It is called with e.mu held.
func (e *Exporter) originOf(resource *resourcepb.Resource) *origin {
	o := e.origins[resource]
	if o != nil {
		return o
	}
	o = newOrigin(resource, e.cfg.Scope)
	if head, err := o.body(); err == nil && e.journal != nil {
		o.head = e.journal.AddHead(head.Body)
	}
	e.origins[resource] = o
	return o
}

// fieldSpans is ScopeSpans.spans.
const fieldSpans = 2

// framedSize returns the number of bytes that an encoded span adds to a request.
func framedSize(span []byte) int {
	return protowire.SizeTag(fieldSpans) + protowire.SizeBytes(len(span))
}

// appendFramed appends an encoded span as it appears in a request.
func appendFramed(b, span []byte) []byte {
	b = protowire.AppendTag(b, fieldSpans, protowire.BytesType)
	return protowire.AppendBytes(b, span)
}

// with returns a request of other spans.
func (r request) with(spans [][]byte) request {
	r.spans, r.joined = spans, nil
	return r
}

// resourceSpans wraps the joined spans, which proto.Marshal copies verbatim.
func (r request) resourceSpans(joined []byte) []*tracepb.ResourceSpans {
	scope := &tracepb.ScopeSpans{Scope: r.scope}
	scope.ProtoReflect().SetUnknown(joined)
	return []*tracepb.ResourceSpans{{Resource: r.resource, ScopeSpans: []*tracepb.ScopeSpans{scope}}}
}

// body returns the request as a spool keeps it.
func (r request) body() (spool.Request, error) {
	b, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: r.resourceSpans(bytes.Join(r.spans, nil))})
	return spool.Request{Body: b, Spans: len(r.spans)}, err
}

// A sender makes attempts to deliver requests to one receiver.
type sender struct {
	client Client

	mu        sync.Mutex
	notBefore time.Time // the receiver wants no requests until then
	buffer    []byte    // for the spans of the next request
}

// delay returns how long the receiver still wants no requests.
func (s *sender) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.notBefore))
}

func (s *sender) postpone(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(by); by > 0 && until.After(s.notBefore) {
		s.notBefore = until
	}
}

// An outcome is what became of a request's spans.
type outcome struct {
	delivered int
	lost      int          // rejected by a receiver that does not say which
	rejected  []rejection  // for good
	left      [][]byte     // may be tried again
	why       *UploadError // of the last attempt that failed
}

type rejection struct {
	spans [][]byte
	why   *UploadError
}

// send makes one attempt. A request that is too large is sent in halves, and a
// span that cannot be decoded is rejected alone.
func (s *sender) send(ctx context.Context, r request) (out outcome) {
	s.sendInto(ctx, r, &out)
	return out
}

func (s *sender) sendInto(ctx context.Context, r request, out *outcome) {
	if len(out.left) > 0 { // after a half that failed
		out.left = append(out.left, r.spans...)
		return
	}
	joined := r.joined
	if joined == nil {
		joined = s.join(r.spans)
	}
	failed := attempt(ctx, func(ctx context.Context) error { return s.client.UploadTraces(ctx, r.resourceSpans(joined)) })
	if failed == nil { // else a client that was left behind may still read it
		if r.joined == nil {
			s.reuse(joined)
		}
		out.delivered += len(r.spans)
		return
	}
	s.postpone(failed.RetryAfter)
	out.why = failed
	switch {
	case failed.Verdict == Partial:
		lost := min(max(failed.Rejected, 0), len(r.spans))
		out.delivered += len(r.spans) - lost
		out.lost += lost
	case failed.Verdict == TooLarge && len(r.spans) > 1:
		half := len(r.spans) / 2
		s.sendInto(ctx, r.with(r.spans[:half]), out)
		s.sendInto(ctx, r.with(r.spans[half:]), out)
	case failed.Verdict == TooLarge, failed.Verdict == Permanent:
		valid, invalid := partition(r.spans)
		if len(invalid) == 0 {
			out.rejected = append(out.rejected, rejection{r.spans, failed})
			return
		}
		out.rejected = append(out.rejected, rejection{invalid, errInvalid})
		if len(valid) > 0 {
			s.sendInto(ctx, r.with(valid), out)
		}
	default:
		out.left = append(out.left, r.spans...)
	}
}

// join joins encoded spans in the buffer.
func (s *sender) join(spans [][]byte) []byte {
	s.mu.Lock()
	b := s.buffer[:0]
	s.buffer = nil
	s.mu.Unlock()
	size := 0
	for _, span := range spans {
		size += len(span)
	}
	b = slices.Grow(b, size)
	for _, span := range spans {
		b = append(b, span...)
	}
	return b
}

// mayReuse reports whether a buffer is not that of an exceptionally large span.
func mayReuse(b []byte) bool { return cap(b) <= 2*fullRequest }

// reuse takes back a buffer.
func (s *sender) reuse(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mayReuse(b) {
		s.buffer = b
	}
}

// partition separates spans that can be decoded from those that cannot: for one
// string that is not UTF-8, a receiver rejects the whole request.
func partition(spans [][]byte) (valid, invalid [][]byte) {
	for _, span := range spans {
		if proto.Unmarshal(span, new(tracepb.ScopeSpans)) == nil {
			valid = append(valid, span)
		} else {
			invalid = append(invalid, span)
		}
	}
	return valid, invalid
}
