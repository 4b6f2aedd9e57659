package exporter

import (
	"context"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// A sender makes attempts to deliver requests to one receiver.
type sender struct {
	client Client
	delay  Delay // that the receiver asked for
}

// An outcome is what became of spans.
type outcome struct {
	delivered int
	done      []*spool.Span // need not be sent again: delivered or lost
	lost      int           // rejected by a receiver that does not say which
	rejected  []rejection   // for good
	left      []*spool.Span // may be tried again
	why       *UploadError  // of the last attempt that failed
}

type rejection struct {
	spans []*spool.Span
	why   *UploadError
}

// send makes one attempt. A request that is too large is sent in halves, and a
// span that cannot be decoded is rejected alone. A request that is rejected is sent in
// halves, too, but no more than halvings times, to find the spans that the receiver does
// not accept. After a request that may be tried again, no other is sent.
func (s *sender) send(ctx context.Context, spans []*spool.Span, halvings int) (out outcome) {
	for _, together := range spool.Requests(spans) {
		s.sendInto(ctx, together, halvings, &out)
	}
	return out
}

func (s *sender) sendInto(ctx context.Context, spans []*spool.Span, halvings int, out *outcome) {
	if len(out.left) > 0 {
		out.left = append(out.left, spans...)
		return
	}
	request := spool.Encode(spans)
	failed := attempt(ctx, func(ctx context.Context) error { return s.client.UploadTraces(ctx, request) })
	if failed == nil {
		out.delivered += len(spans)
		out.done = append(out.done, spans...)
		return
	}
	s.delay.Heard(failed)
	out.why = failed
	switch {
	case failed.Verdict == Partial:
		lost := failed.RejectedOf(len(spans))
		out.delivered += len(spans) - lost
		out.lost += lost
		out.done = append(out.done, spans...)
	case failed.Verdict == TooLarge && len(spans) > 1:
		s.sendHalves(ctx, spans, halvings, out)
	case failed.Verdict == TooLarge, failed.Verdict == Permanent:
		valid, invalid := partition(spans)
		switch {
		case len(invalid) > 0:
			out.rejected = append(out.rejected, rejection{invalid, errInvalid})
			if len(valid) > 0 {
				s.sendInto(ctx, valid, halvings, out)
			}
		case len(valid) > 1 && halvings > 0:
			s.sendHalves(ctx, valid, halvings-1, out)
		default:
			out.rejected = append(out.rejected, rejection{valid, failed})
		}
	default:
		out.left = append(out.left, spans...)
	}
}

func (s *sender) sendHalves(ctx context.Context, spans []*spool.Span, halvings int, out *outcome) {
	half := len(spans) / 2
	s.sendInto(ctx, spans[:half], halvings, out)
	s.sendInto(ctx, spans[half:], halvings, out)
}

// partition separates spans that can be decoded from those that cannot: for one
// string that is not UTF-8, a receiver rejects the whole request.
func partition(spans []*spool.Span) (valid, invalid []*spool.Span) {
	for _, span := range spans {
		if proto.Unmarshal(span.Wire, new(tracepb.ScopeSpans)) == nil {
			valid = append(valid, span)
		} else {
			invalid = append(invalid, span)
		}
	}
	return valid, invalid
}
