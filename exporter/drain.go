package exporter

import (
	"context"

	"github.com/spantee/spantee/exporter/spool"
)

// drain sends what waits for a destination, while more says so, and adds up
// what became of it. It first finds what processes that were killed left.
func drain(ctx context.Context, s spool.Spool, to spool.Destination, client Client, sum *Earlier, more func() bool) error {
	recovered, gaveUp, err := s.Recover()
	sum.Recovered += recovered
	sum.GivenUp += gaveUp
	if err != nil {
		return err
	}
	box, err := s.Outbox(to)
	if box == nil || err != nil {
		return err
	}
	defer box.Close()
	for more() {
		claim, corrupt, err := box.Next()
		sum.GivenUp += corrupt
		if claim == nil || err != nil {
			return err
		}
		if err := sendClaim(ctx, s, to, client, claim, sum); err != nil {
			return err
		}
	}
	return nil
}

// sendClaim sends one request. It returns why it, or a part of it, has to wait.
func sendClaim(ctx context.Context, s spool.Spool, to spool.Destination, client Client, claim *spool.Claim, sum *Earlier) error {
	r, err := readRequest(claim)
	if err != nil {
		return err
	}
	out := send(ctx, client, r)
	sum.Delivered += out.delivered
	sum.GivenUp += out.lost
	if len(out.left) == len(r.spans) {
		_ = claim.Back() // or else the next to have the lock finds it as it is
		return out.why
	}
	for _, refused := range out.refused {
		gaveUp, err := keep(s, to, r.with(refused.spans), refused.why, spool.Spool.Reject)
		sum.GivenUp += gaveUp
		if err != nil {
			sum.GivenUp += len(refused.spans)
			continue
		}
		sum.Rejected += len(refused.spans)
	}
	if len(out.left) == 0 {
		return claim.Done()
	}
	gaveUp, err := keep(s, to, r.with(out.left), out.why, spool.Spool.Put)
	sum.GivenUp += gaveUp
	if err != nil { // then some will arrive twice
		_ = claim.Back()
		return err
	}
	if err := claim.Done(); err != nil {
		return err
	}
	return out.why
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
