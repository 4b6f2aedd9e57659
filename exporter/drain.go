package exporter

import (
	"context"
	"errors"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// drained counts what became of spooled requests: those of this process, and those of
// other processes.
type drained struct {
	own, others Earlier
	evicted     spool.Evicted // to make room for what was spooled again
}

// A drain sends a spool's backlog for one destination, and counts what became
// of it.
type drain struct {
	spool  spool.Spool
	to     spool.Destination
	sender *sender
	more   func(last time.Duration) bool  // reports whether to send another request, after one that took last
	retry  func(after time.Duration) bool // waits for after, and reports whether to retry a request
	drained
}

// sendAll sends the backlog until ctx ends. disk bounds the waits for the disk.
func (d *drain) sendAll(ctx, disk context.Context) error {
	box, err := d.spool.Outbox(disk, d.to)
	if box == nil || err != nil {
		return err
	}
	defer func() {
		d.evicted.Add(box.Evicted)
		box.Close()
	}()
	var failed error
	var took time.Duration
	for d.more(took) {
		claim, corrupt, err := box.Next(disk)
		d.others.Dropped += corrupt
		if claim == nil || err != nil {
			return errors.Join(failed, err)
		}
		start := time.Now()
		why, err := d.send(ctx, claim, maxHalvings)
		took = time.Since(start)
		switch {
		case err != nil:
			return err
		case why == nil:
		case failed != nil || why.Verdict != Retryable:
			return why
		default: // one request that the receiver cannot take must not hold up all others
			failed = why
		}
	}
	return failed
}

// maxHalvings is how often a joined request is halved to find the part that the
// receiver rejects. The part left after that is rejected as a whole.
const maxHalvings = 6

// send sends one request. why is not nil if the request, or a part of it, has to
// wait.
func (d *drain) send(ctx context.Context, claim *spool.Claim, halvings int) (why *UploadError, err error) {
	r := request{Part: claim.Part}
	if len(r.Spans) == 0 {
		return nil, claim.Done()
	}
	out := d.sender.send(ctx, r)
	for len(out.left) > 0 && len(out.left) == len(r.Spans) && out.why.RetryAfter > 0 && d.retry(out.why.RetryAfter) {
		out = d.sender.send(ctx, r)
	}
	first, second := claim.Halves()
	if second != nil && halvings > 0 && len(out.rejected) == 1 && len(out.rejected[0].spans) == len(r.Spans) {
		why, err := d.send(ctx, first, halvings-1)
		if err != nil {
			return why, err
		}
		also, err := d.send(ctx, second, halvings-1)
		if why == nil {
			why = also
		}
		return why, err
	}
	return d.settle(claim, r, out)
}

// settle applies the receiver's answer to the spans of a request.
func (d *drain) settle(claim *spool.Claim, r request, out outcome) (why *UploadError, err error) {
	if len(out.left) == len(r.Spans) {
		_ = claim.Release() // on failure, the next process to hold the lock finds the request unchanged
		return out.why, nil
	}
	// No context: a request that was sent must be removed even after the deadline,
	// or it is sent again.
	room := claim.Room()
	if len(out.left) > 0 {
		evicted, err := room.Put(context.Background(), d.to, r.with(out.left).body(), out.why.Error())
		d.evicted.Add(evicted)
		if err != nil { // the whole request still waits, and some of its spans will arrive twice
			_ = claim.Release()
			return nil, err
		}
		why = out.why
	}
	sum := &d.others
	if claim.Own {
		sum = &d.own
	}
	sum.Delivered += out.delivered
	sum.Dropped += out.lost
	for _, rejected := range out.rejected {
		evicted, err := room.Reject(context.Background(), d.to, r.with(rejected.spans).body(), rejected.why.Error())
		d.evicted.Add(evicted)
		if err != nil {
			sum.Dropped += len(rejected.spans)
			continue
		}
		sum.Rejected += len(rejected.spans)
	}
	return why, claim.Done()
}
