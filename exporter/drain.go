package exporter

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// drained is what became of requests of the spool: of those that this process
// put there, and of others.
type drained struct {
	own, others Earlier
	evicted     spool.Evicted // for what had to be kept again
}

// A drain sends a spool's backlog for one destination, and counts what became
// of it.
type drain struct {
	spool  spool.Spool
	to     spool.Destination
	sender *sender
	more   func() bool                    // another request may be sent
	retry  func(after time.Duration) bool // a request that the receiver delayed may be sent again, now
	drained
}

// run first recovers what killed processes left. If there is no room for that,
// sending the rest makes some.
func (d *drain) run(ctx context.Context) error {
	recovered, evicted, recovering := d.spool.Recover()
	d.others.Recovered += recovered
	d.evicted.Add(evicted)
	return errors.Join(d.sendAll(ctx), recovering)
}

func (d *drain) sendAll(ctx context.Context) error {
	box, err := d.spool.Outbox(d.to)
	if box == nil || err != nil {
		return err
	}
	defer box.Close()
	var failed error
	for d.more() {
		claim, corrupt, err := box.Next()
		d.others.Dropped += corrupt
		if claim == nil || err != nil {
			return errors.Join(failed, err)
		}
		why, err := d.send(ctx, claim)
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

// send sends one request. It returns why it, or a part of it, has to wait.
func (d *drain) send(ctx context.Context, claim *spool.Claim) (why *UploadError, err error) {
	sum := &d.others
	if claim.Own {
		sum = &d.own
	}
	r, err := readRequest(claim)
	if err != nil {
		return nil, err
	}
	out := d.sender.send(ctx, r)
	for len(out.left) > 0 && len(out.left) == len(r.spans) && out.why.RetryAfter > 0 && d.retry(out.why.RetryAfter) {
		out = d.sender.send(ctx, r)
	}
	sum.Delivered += out.delivered
	sum.Dropped += out.lost
	if len(out.left) > 0 && len(out.left) == len(r.spans) {
		_ = claim.Back() // or else the next to have the lock finds it as it is
		return out.why, nil
	}
	for _, rejected := range out.rejected {
		evicted, err := keep(d.spool, d.to, r.with(rejected.spans), rejected.why, spool.Spool.Reject)
		d.evicted.Add(evicted)
		if err != nil {
			sum.Dropped += len(rejected.spans)
			continue
		}
		sum.Rejected += len(rejected.spans)
	}
	if len(out.left) == 0 {
		return nil, claim.Done()
	}
	evicted, err := keep(d.spool, d.to, r.with(out.left), out.why, spool.Spool.Put)
	d.evicted.Add(evicted)
	if err != nil { // then some will arrive twice
		_ = claim.Back()
		return nil, err
	}
	return out.why, claim.Done()
}

// readRequest makes a request of what was read from a file.
func readRequest(claim *spool.Claim) (r request, err error) {
	for _, rs := range claim.GetResourceSpans() {
		r.resource = rs.GetResource()
		for _, ss := range rs.GetScopeSpans() {
			r.scope = ss.GetScope()
			for _, span := range ss.GetSpans() {
				wire, err := proto.Marshal(span)
				if err != nil {
					return request{}, err
				}
				r.spans = append(r.spans, frame(wire))
			}
		}
	}
	return r, nil
}
