package exporter

import (
	"context"
	"errors"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A MetricsUploader sends spooled metrics.
type MetricsUploader interface {
	// UploadMetrics makes one attempt to send an encoded
	// ExportMetricsServiceRequest. It returns an [UploadError], as a Client does, or
	// errors.ErrUnsupported if the receiver takes no metrics.
	UploadMetrics(ctx context.Context, request []byte) error
}

// A Backlog is what waits in a spool for one destination: spans, or metrics that other
// processes left.
//
// A request of metrics is sent whole or not at all. One of cumulative metrics may arrive
// twice, which does no harm. One of deltas is sent again only if the receiver certainly
// did not take it.
type Backlog struct {
	Spool   spool.Spool
	To      spool.Destination
	Metrics MetricsUploader                // if the destination takes metrics
	More    func(last time.Duration) bool  // reports whether to send another request, after one that took last
	Retry   func(after time.Duration) bool // waits for after, and reports whether to retry a request; nil for never

	// Earlier is what became of other processes' requests, and Evicted of those that
	// made room for what was spooled again.
	Earlier Earlier
	Evicted spool.Evicted

	own    Earlier // of this process
	sender *sender // of spans
}

// Send sends the backlog until ctx ends. disk bounds the waits for the disk. Its error
// says why something still waits.
func (b *Backlog) Send(ctx, disk context.Context) error {
	box, err := b.Spool.Outbox(disk, b.To)
	if box == nil || err != nil {
		return err
	}
	defer func() {
		b.Evicted.Add(box.Evicted)
		box.Close()
	}()
	ofMetrics := b.To.Signal == spool.Metrics
	var failed error
	var took time.Duration
	for b.More(took) {
		claim, corrupt, err := box.Next(disk)
		if ofMetrics {
			b.Earlier.Metrics.Dropped += corrupt
		} else {
			b.Earlier.Dropped += corrupt
		}
		if claim == nil || err != nil {
			return errors.Join(failed, err)
		}
		start := time.Now()
		var why *UploadError
		if ofMetrics {
			why, err = b.sendMetrics(ctx, claim)
		} else {
			why, err = b.sendSpans(ctx, claim, maxHalvings)
		}
		took = time.Since(start)
		switch {
		case err != nil:
			return err
		case why == nil:
		case failed != nil || why.Verdict != Retryable || ofMetrics:
			return why
		default: // one request that the receiver cannot take must not hold up all others
			failed = why
		}
	}
	return failed
}

func (b *Backlog) retries(after time.Duration) bool {
	return after > 0 && b.Retry != nil && b.Retry(after)
}

// maxHalvings is how often a joined request is halved to find the part that the
// receiver rejects. The part left after that is rejected as a whole.
const maxHalvings = 6

// sendSpans sends one request. why is not nil if the request, or a part of it, has to
// wait.
func (b *Backlog) sendSpans(ctx context.Context, claim *spool.Claim, halvings int) (why *UploadError, err error) {
	r := request{Part: claim.Part}
	if len(r.Spans) == 0 {
		return nil, claim.Done()
	}
	out := b.sender.send(ctx, r)
	for len(out.left) == len(r.Spans) && b.retries(out.why.RetryAfter) {
		out = b.sender.send(ctx, r)
	}
	first, second := claim.Halves()
	if second != nil && halvings > 0 && len(out.rejected) == 1 && len(out.rejected[0].spans) == len(r.Spans) {
		why, err := b.sendSpans(ctx, first, halvings-1)
		if err != nil {
			return why, err
		}
		also, err := b.sendSpans(ctx, second, halvings-1)
		if why == nil {
			why = also
		}
		return why, err
	}
	return b.settle(claim, r, out)
}

// settle applies the receiver's answer to the spans of a request.
func (b *Backlog) settle(claim *spool.Claim, r request, out outcome) (why *UploadError, err error) {
	if len(out.left) == len(r.Spans) {
		_ = claim.Release() // on failure, the next process to hold the lock finds the request unchanged
		return out.why, nil
	}
	// No context: a request that was sent must be removed even after the deadline,
	// or it is sent again.
	if len(out.left) > 0 {
		evicted, err := claim.Room().Put(context.Background(), b.To, r.with(out.left).body(), out.why.Error())
		b.Evicted.Add(evicted)
		if err != nil { // the whole request still waits, and some of its spans will arrive twice
			_ = claim.Release()
			return nil, err
		}
		why = out.why
	}
	sum := &b.Earlier
	if claim.Own {
		sum = &b.own
	}
	sum.Delivered += out.delivered
	sum.Dropped += out.lost
	for _, rejected := range out.rejected {
		b.reject(claim, r.with(rejected.spans).body(), rejected.why, len(rejected.spans), &sum.Rejected, &sum.Dropped)
	}
	return why, claim.Done()
}

// reject keeps what the receiver will never accept, and counts the items in it.
func (b *Backlog) reject(claim *spool.Claim, request spool.Request, why *UploadError, items int, rejected, dropped *int) {
	evicted, err := claim.Room().Reject(context.Background(), b.To, request, why.Error())
	b.Evicted.Add(evicted)
	if err != nil {
		rejected = dropped
	}
	*rejected += items
}

// sendMetrics is sendSpans for metrics.
func (b *Backlog) sendMetrics(ctx context.Context, claim *spool.Claim) (why *UploadError, err error) {
	if claim.Own { // this process has reported it as spooled
		_ = claim.Release() // on failure, the next process to hold the lock finds it unchanged
		return nil, nil
	}
	unwanted := false
	upload := func(ctx context.Context) error {
		err := b.Metrics.UploadMetrics(ctx, claim.Body)
		unwanted = errors.Is(err, errors.ErrUnsupported)
		return err
	}
	why = attempt(ctx, upload)
	for why != nil && b.retries(why.RetryAfter) {
		why = attempt(ctx, upload)
	}
	sum := &b.Earlier.Metrics
	switch {
	case unwanted:
		sum.Unwanted += claim.Points
		why = nil
	case why == nil:
		sum.Delivered += claim.Points
	case why.Verdict == Partial:
		lost := min(max(why.Rejected, 0), claim.Points)
		sum.Delivered += claim.Points - lost
		sum.Dropped += lost
		why = nil
	case why.Verdict == Permanent, why.Verdict == TooLarge:
		b.reject(claim, spool.Request{Body: claim.Body, Points: claim.Points}, why, claim.Points, &sum.Rejected, &sum.Dropped)
		why = nil
	case claim.Delta && !why.Refused:
		sum.Dropped += claim.Points
	default:
		_ = claim.Release() // on failure, the next process to hold the lock finds it unchanged
		return why, nil
	}
	return why, claim.Done()
}
