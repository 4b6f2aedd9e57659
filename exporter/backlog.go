package exporter

import (
	"cmp"
	"context"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A backlog sends what other processes left in a spool for one destination.
type backlog struct {
	client  Client
	sender  *sender
	metrics MetricsClient
	more    func(last time.Duration) bool  // reports whether to send another request, after one that took last
	retry   func(after time.Duration) bool // waits for after, and reports whether to retry a request; nil for never

	why      *UploadError // of the last request that has to wait
	failures int          // requests that have to wait
	ended    bool         // more said so

	whyMetrics *UploadError // of metrics that have to wait: no others are sent
	took       time.Duration
}

// stopped reports whether nothing more is sent. One request that the receiver cannot take
// must not hold up all others; after a second one, nothing more is sent.
func (b *backlog) stopped() bool {
	return b.ended || b.why != nil && (b.failures > 1 || b.why.Verdict != Retryable)
}

// maxHalvings is how often a request is halved to find the part that the receiver
// rejects. The part left after that is rejected as a whole.
const maxHalvings = 6

// send sends what is in a claim, closes it, and returns what became of its spans.
func (b *backlog) send(ctx context.Context, c *spool.Claim) (sum Earlier) {
	for _, request := range spool.Requests(c.Spans) {
		if b.ended = b.ended || !b.more(b.took); b.stopped() {
			break
		}
		out := b.sendRequest(ctx, request)
		if len(out.done) > 0 {
			_ = c.Done(out.done) // on failure, they arrive twice
		}
		sum.Delivered += out.delivered
		sum.Dropped += out.lost
		for _, rejected := range out.rejected {
			if c.Reject(rejected.spans, rejected.why.Error()) == nil {
				sum.Rejected += len(rejected.spans)
			} else {
				sum.Dropped += len(rejected.spans)
			}
		}
	}
	if c.Killed {
		sum.Recovered = sum.Delivered + sum.Rejected + sum.Dropped
	}
	if len(c.Metrics) > 0 && b.metrics != nil && b.whyMetrics == nil && !b.ended {
		b.sendMetrics(ctx, c, &sum)
	}
	_ = c.Close() // on failure, the next process finds nothing to send in it
	return sum
}

func (b *backlog) sendRequest(ctx context.Context, spans []*spool.Span) outcome {
	start := time.Now()
	out := b.sender.send(ctx, spans, maxHalvings)
	for len(out.left) == len(spans) && out.why.RetryAfter > 0 && b.retry != nil && b.retry(out.why.RetryAfter) {
		out = b.sender.send(ctx, spans, maxHalvings)
	}
	if b.took = time.Since(start); len(out.left) > 0 {
		b.failures++
		b.why = cmp.Or(out.why, errLate)
	}
	return out
}

// sendMetrics sends the metrics of a claim, unless they may be accepted later.
func (b *backlog) sendMetrics(ctx context.Context, c *spool.Claim, sum *Earlier) {
	upload := func(ctx context.Context) error { return b.metrics.UploadMetrics(ctx, c.Metrics) }
	why := attempt(ctx, upload)
	for why != nil && why.RetryAfter > 0 && b.retry != nil && b.retry(why.RetryAfter) {
		why = attempt(ctx, upload)
	}
	switch {
	case why == nil:
	case why.MayRepeat():
		b.whyMetrics = why
		return
	default:
		sum.Metrics++
	}
	_ = c.MetricsDone() // on failure, cumulative metrics arrive twice, which changes nothing
}
