package exporter

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A MetricsUploader sends spooled metrics.
type MetricsUploader interface {
	// UploadMetrics makes one attempt to send an encoded
	// ExportMetricsServiceRequest. It returns an [UploadError], as a Client does.
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

	Earlier Earlier // what became of other processes' requests, but for the losses that Spool counts

	own     Fates         // of this process's spans
	sender  *sender       // of spans
	why     *UploadError  // of the last request that has to wait
	took    time.Duration // of the last request
	stopped bool          // nothing more is sent
}

// Send sends the backlog until ctx ends. disk bounds the waits for the disk. Its error
// says why something still waits.
func (b *Backlog) Send(ctx, disk context.Context) error {
	box, err := b.Spool.Outbox(disk, b.To)
	if box == nil || err != nil {
		return err
	}
	defer box.Close()
	send := b.sendSpans
	if b.To.Signal == spool.Metrics {
		send = b.sendMetrics
	}
	for b.mayContinue() {
		claim, err := box.Next(disk)
		if claim == nil || err != nil {
			return errors.Join(b.failure(), err)
		}
		if err := send(ctx, claim); err != nil {
			return err
		}
	}
	return b.failure()
}

// mayContinue reports whether another request may be sent.
func (b *Backlog) mayContinue() bool {
	b.stopped = b.stopped || !b.More(b.took)
	return !b.stopped
}

// failed records why a request has to wait. One request that the receiver cannot take must
// not hold up all others; after a second one, nothing more is sent.
func (b *Backlog) failed(why *UploadError) {
	b.stopped = b.why != nil || why.Verdict != Retryable
	b.why = why
}

func (b *Backlog) failure() error {
	if b.why == nil {
		return nil
	}
	return b.why
}

func (b *Backlog) retries(after time.Duration) bool {
	return after > 0 && b.Retry != nil && b.Retry(after)
}

// maxHalvings is how often a request is halved to find the part that the receiver
// rejects. The part left after that is rejected as a whole.
const maxHalvings = 6

// sendSpans sends the spans of a claim.
func (b *Backlog) sendSpans(ctx context.Context, claim *spool.Claim) error {
	var all outcome
	for i, request := range spool.Requests(claim.Spans) {
		if i > 0 && !b.mayContinue() {
			all.left = append(all.left, request...)
			continue
		}
		out := b.sendRequest(ctx, request)
		all.delivered += out.delivered
		all.lost += out.lost
		all.rejected = append(all.rejected, out.rejected...)
		all.left = append(all.left, out.left...)
	}
	if n := len(all.left); n > 0 && n == len(claim.Spans) {
		_ = claim.Release() // on failure, the next process to hold the lock finds the files unchanged
		return nil
	} else if n > 0 {
		// No context: a request that was sent must be removed even after the deadline,
		// or it is sent again.
		if err := claim.Put(context.Background(), spool.RequestOf(all.left), cmp.Or(b.why, errLate).Error()); err != nil {
			_ = claim.Release() // some of its spans will arrive twice
			return err
		}
	}
	sum := &b.Earlier.Fates
	if claim.Own {
		sum = &b.own
	}
	sum.Delivered += all.delivered
	sum.Dropped += all.lost
	for _, rejected := range all.rejected {
		sum.reject(claim, spool.RequestOf(rejected.spans), rejected.why)
	}
	return claim.Done()
}

// reject keeps what the receiver will never accept, and counts it.
func (f *Fates) reject(claim *spool.Claim, request spool.Request, why *UploadError) {
	request.Rejected = true
	if n := request.Spans + request.Points; claim.Put(context.Background(), request, why.Error()) == nil {
		f.Rejected += n
	} else {
		f.Dropped += n
	}
}

func (b *Backlog) sendRequest(ctx context.Context, spans []*spool.Span) outcome {
	start := time.Now()
	out := b.sender.send(ctx, spans, maxHalvings)
	for len(out.left) == len(spans) && b.retries(out.why.RetryAfter) {
		out = b.sender.send(ctx, spans, maxHalvings)
	}
	b.took = time.Since(start)
	if len(out.left) > 0 {
		b.failed(out.why)
	}
	return out
}

// sendMetrics sends the request of metrics of a claim.
func (b *Backlog) sendMetrics(ctx context.Context, claim *spool.Claim) error {
	if claim.Own { // this process has reported it as spooled
		_ = claim.Release() // on failure, the next process to hold the lock finds it unchanged
		return nil
	}
	upload := func(ctx context.Context) error { return b.Metrics.UploadMetrics(ctx, claim.Metrics.Body) }
	start := time.Now()
	why := attempt(ctx, upload)
	for why != nil && b.retries(why.RetryAfter) {
		why = attempt(ctx, upload)
	}
	b.took = time.Since(start)
	sum := &b.Earlier.Metrics
	switch {
	case why == nil:
		sum.Delivered += claim.Metrics.Points
	case why.Verdict == Unwanted:
		sum.Unwanted += claim.Metrics.Points
	case why.Verdict == Partial:
		lost := why.RejectedOf(claim.Metrics.Points)
		sum.Delivered += claim.Metrics.Points - lost
		sum.Dropped += lost
	case why.Verdict == Permanent, why.Verdict == TooLarge:
		sum.reject(claim, claim.Metrics, why)
	default:
		b.why, b.stopped = why, true
		if !claim.Metrics.Delta || why.Refused {
			_ = claim.Release() // on failure, the next process to hold the lock finds it unchanged
			return nil
		}
		sum.Dropped += claim.Metrics.Points
	}
	return claim.Done()
}
