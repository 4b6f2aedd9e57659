package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// A Client uploads requests to one destination.
type Client interface {
	otlptrace.Client
	Destination() spool.Destination
}

// A request is spans that travel together, encoded as they stand in it.
type request struct {
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	spans    [][]byte
}

// fieldSpans is ScopeSpans.spans.
const fieldSpans = 2

// encode returns a span as it stands in a request. It fails for a string that
// is not UTF-8, which in a request would fail the whole of it.
func encode(span *tracepb.Span) ([]byte, error) {
	size := proto.Size(span)
	b := make([]byte, 0, protowire.SizeTag(fieldSpans)+protowire.SizeBytes(size))
	b = protowire.AppendTag(b, fieldSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, span)
}

// with returns a request of other spans.
func (r request) with(spans [][]byte) request {
	r.spans = spans
	return r
}

// resourceSpans wraps the spans, which proto.Marshal takes over as they are.
func (r request) resourceSpans() []*tracepb.ResourceSpans {
	scope := &tracepb.ScopeSpans{Scope: r.scope}
	scope.ProtoReflect().SetUnknown(bytes.Join(r.spans, nil))
	return []*tracepb.ResourceSpans{{Resource: r.resource, ScopeSpans: []*tracepb.ScopeSpans{scope}}}
}

// body is the request as a spool keeps it.
func (r request) body() (spool.Request, error) {
	b, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: r.resourceSpans()})
	return spool.Request{Body: b, Spans: len(r.spans)}, err
}

// An outcome is what became of a request's spans.
type outcome struct {
	delivered int
	lost      int       // refused by a receiver that does not say which
	refused   []refusal // for good
	left      [][]byte  // may be tried again
	why       *failure  // of the last attempt that failed
}

type refusal struct {
	spans [][]byte
	why   *failure
}

// send makes one attempt. What is too large is sent in halves, and a span that
// cannot be read alone. A panic of the client costs a request, not the run.
func send(ctx context.Context, client otlptrace.Client, r request) (out outcome) {
	out.send(ctx, client, r)
	return out
}

func (out *outcome) send(ctx context.Context, client otlptrace.Client, r request) {
	if len(out.left) > 0 { // after a half that failed
		out.left = append(out.left, r.spans...)
		return
	}
	f := attempt(ctx, func(ctx context.Context) error { return client.UploadTraces(ctx, r.resourceSpans()) })
	if f == nil {
		out.delivered += len(r.spans)
		return
	}
	out.why = f
	switch {
	case f.verdict == partial:
		lost := min(max(f.rejected, 0), len(r.spans))
		out.delivered += len(r.spans) - lost
		out.lost += lost
	case f.verdict == tooLarge && len(r.spans) > 1:
		half := len(r.spans) / 2
		out.send(ctx, client, r.with(r.spans[:half]))
		out.send(ctx, client, r.with(r.spans[half:]))
	case f.verdict == tooLarge, f.verdict == permanent:
		good, bad := sound(r.spans)
		if len(bad) == 0 {
			out.refused = append(out.refused, refusal{r.spans, f})
			return
		}
		out.refused = append(out.refused, refusal{bad, errUnsound})
		if len(good) > 0 {
			out.send(ctx, client, r.with(good))
		}
	default:
		out.left = append(out.left, r.spans...)
	}
}

// attempt does one thing with a client.
func attempt(ctx context.Context, do func(context.Context) error) (f *failure) {
	defer func() {
		if r := recover(); r != nil {
			f = &failure{verdict: permanent, cause: fmt.Errorf("panic: %v", r)}
		}
	}()
	err := do(ctx)
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return &failure{verdict: permanent, cause: err}
}

// sound tells the spans that can be read from those that cannot. In what a
// span's unknown fields hold encode does not see a string that is not UTF-8,
// and a receiver refuses the whole request for it.
func sound(spans [][]byte) (good, bad [][]byte) {
	for _, wire := range spans {
		if proto.Unmarshal(wire, new(tracepb.ScopeSpans)) == nil {
			good = append(good, wire)
		} else {
			bad = append(bad, wire)
		}
	}
	return good, bad
}
