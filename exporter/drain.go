package exporter

import (
	"context"
	"errors"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
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
	more   func(last time.Duration) bool  // another request may be sent, after one that took so long
	retry  func(after time.Duration) bool // a request that the receiver delayed may be sent again, now
	drained
}

// recovered counts what came of the journals of killed processes.
func (d *drain) recovered(r spool.Recovered) {
	d.others.Recovered += r.Spans
	d.evicted.Add(r.Evicted)
}

// sendAll makes attempts until ctx ends, and waits for the disk until disk does.
func (d *drain) sendAll(ctx, disk context.Context) error {
	box, err := d.spool.Outbox(disk, d.to)
	if box == nil || err != nil {
		return err
	}
	defer box.Close()
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

// maxHalvings is how often a request that was joined is halved to find the one
// in it that the receiver rejects. What is then left is rejected together.
const maxHalvings = 6

// send sends one request. It returns why it, or a part of it, has to wait.
func (d *drain) send(ctx context.Context, claim *spool.Claim, halvings int) (why *UploadError, err error) {
	r := requestOf(claim)
	if len(r.spans) == 0 {
		return nil, claim.Done()
	}
	out := d.sender.send(ctx, r)
	for len(out.left) > 0 && len(out.left) == len(r.spans) && out.why.RetryAfter > 0 && d.retry(out.why.RetryAfter) {
		out = d.sender.send(ctx, r)
	}
	first, second := claim.Halves()
	if second != nil && halvings > 0 && len(out.rejected) == 1 && len(out.rejected[0].spans) == len(r.spans) {
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

// settle does with the spans of a request what the receiver's answer asks for.
func (d *drain) settle(claim *spool.Claim, r request, out outcome) (why *UploadError, err error) {
	if len(out.left) == len(r.spans) {
		_ = claim.Back() // or else the next to have the lock finds it as it is
		return out.why, nil
	}
	// What was sent must not be sent again because its deadline passed, hence
	// no context.
	room := claim.Room()
	if len(out.left) > 0 {
		evicted, err := keep(context.Background(), room, d.to, r.with(out.left), out.why, spool.Spool.Put)
		d.evicted.Add(evicted)
		if err != nil { // all of it waits as before, and some will arrive twice
			_ = claim.Back()
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
		evicted, err := keep(context.Background(), room, d.to, r.with(rejected.spans), rejected.why, spool.Spool.Reject)
		d.evicted.Add(evicted)
		if err != nil {
			sum.Dropped += len(rejected.spans)
			continue
		}
		sum.Rejected += len(rejected.spans)
	}
	return why, claim.Done()
}

// requestOf makes a request of what a spool kept.
func requestOf(claim *spool.Claim) request {
	r := request{resource: new(resourcepb.Resource), scope: new(commonpb.InstrumentationScope), spans: claim.Spans}
	_ = proto.Unmarshal(claim.Resource, r.resource) // the spool has done it before
	_ = proto.Unmarshal(claim.Scope, r.scope)
	return r
}
