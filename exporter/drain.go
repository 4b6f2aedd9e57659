package exporter

import (
	"context"
	"errors"

	"github.com/spantee/spantee/exporter/spool"
)

// drained is what became of requests of the spool: of those that this process
// put there, and of others.
type drained struct {
	own, others Earlier
	evicted     spool.Evicted // for what had to be kept again
}

// drain sends what waits for a destination, while more says so, and adds up
// what became of it. It first finds what processes that were killed left; if
// there is no room for that, sending the rest makes some.
func drain(ctx context.Context, s spool.Spool, to spool.Destination, client Client, sum *drained, more func() bool) error {
	recovered, evicted, recovering := s.Recover()
	sum.others.Recovered += recovered
	sum.evicted.Add(evicted)
	return errors.Join(sendAll(ctx, s, to, client, sum, more), recovering)
}

func sendAll(ctx context.Context, s spool.Spool, to spool.Destination, client Client, sum *drained, more func() bool) error {
	box, err := s.Outbox(to)
	if box == nil || err != nil {
		return err
	}
	defer box.Close()
	var failed error
	for more() {
		claim, corrupt, err := box.Next()
		sum.others.GivenUp += corrupt
		if claim == nil || err != nil {
			return errors.Join(failed, err)
		}
		why, err := sendClaim(ctx, s, to, client, claim, sum)
		switch {
		case err != nil:
			return err
		case why == nil:
		case failed != nil || why.verdict != retryable:
			return why
		default: // one that the receiver cannot take may not hold up all others
			failed = why
		}
	}
	return failed
}

// sendClaim sends one request. It returns why it, or a part of it, has to wait.
func sendClaim(ctx context.Context, s spool.Spool, to spool.Destination, client Client, claim *spool.Claim, all *drained) (why *failure, err error) {
	sum := &all.others
	if claim.Own {
		sum = &all.own
	}
	r, err := readRequest(claim)
	if err != nil {
		return nil, err
	}
	out := send(ctx, client, r)
	sum.Delivered += out.delivered
	sum.GivenUp += out.lost
	if len(out.left) > 0 && len(out.left) == len(r.spans) {
		_ = claim.Back() // or else the next to have the lock finds it as it is
		return out.why, nil
	}
	for _, refused := range out.refused {
		evicted, err := keep(s, to, r.with(refused.spans), refused.why, spool.Spool.Reject)
		all.evicted.Add(evicted)
		if err != nil {
			sum.GivenUp += len(refused.spans)
			continue
		}
		sum.Rejected += len(refused.spans)
	}
	if len(out.left) == 0 {
		return nil, claim.Done()
	}
	evicted, err := keep(s, to, r.with(out.left), out.why, spool.Spool.Put)
	all.evicted.Add(evicted)
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
				wire, err := encode(span)
				if err != nil {
					return request{}, err
				}
				r.spans = append(r.spans, wire)
			}
		}
	}
	return r, nil
}
