package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// An approvalKey pairs a request with its response. The id alone is not enough:
// Cursor's is always 0.
type approvalKey struct{ id, query string }

type pendingApproval struct {
	key           approvalKey
	query, callID string
	n             int
	inv           *invocation
	start         instant
	content       content.Attributes
}

// approvals are the approvals that wait for an answer.
type approvals struct {
	byKey map[approvalKey][]*pendingApproval
	n     int
}

func (r *run) approvalStart(inv *invocation, ev *agent.Event, at instant) {
	r.counts.approvals++
	key := approvalKey{string(ev.ID), ev.Query}
	a := &pendingApproval{key: key, query: r.m.names.pass(ev.Query), callID: r.m.names.id(string(ev.ToolCallID)), n: r.counts.approvals, inv: inv, start: at}
	r.m.captureFacts(ev.Facts, &a.content)
	r.approvals.add(a)
	if t := inv.turn; t != nil && t.hasOutput() && t.askedAt == 0 {
		t.askedAt = at
	}
	if r.approvals.n > maxOpen {
		for _, old := range r.approvals.sorted()[:maxOpen/10] {
			r.m.stats.Evicted++
			r.approvals.take(old.key)
			r.endApproval(old, r.clock.after(old.start, at), "", errIncomplete)
		}
	}
}

func (as *approvals) add(a *pendingApproval) {
	if as.byKey == nil {
		as.byKey = map[approvalKey][]*pendingApproval{}
	}
	as.byKey[a.key] = append(as.byKey[a.key], a)
	as.n++
}

// take removes and returns the oldest approval of a key, nil if there is none.
func (as *approvals) take(key approvalKey) *pendingApproval {
	list := as.byKey[key]
	if len(list) == 0 {
		return nil
	}
	as.n--
	if len(list) == 1 {
		delete(as.byKey, key)
	} else {
		as.byKey[key] = list[1:]
	}
	return list[0]
}

func (r *run) approvalEnd(ev *agent.Event, at instant) {
	a := r.approvals.take(approvalKey{string(ev.ID), ev.Query})
	if a == nil {
		r.m.stats.EndsWithoutStart++
		return
	}
	errorType := ""
	if ev.Failed {
		errorType = r.m.names.pass(ev.Status)
	}
	r.m.captureFacts(ev.Facts, &a.content)
	r.endApproval(a, r.clock.after(a.start, at), r.m.names.pass(ev.Status), errorType)
}

func (r *run) endApproval(a *pendingApproval, at instant, outcome, errorType string) {
	s := r.newSpan(spanRef{approval, a.n}, a.inv.ref, a.inv, spanName{operation: semconv.OperationApproval, subject: a.query})
	s.start, s.end = a.start, at
	s.attributes.str(semconv.QueryType, a.query)
	s.attributes.strIfSet(semconv.QueryOutcome, outcome)
	s.attributes.strIfSet(semconv.ToolCallID, a.callID)
	s.errorType, s.content = errorType, a.content
	if errorType == outcome {
		s.status = outcome
	}
	r.emit(s)
}

// sorted returns the approvals, the oldest first.
func (as *approvals) sorted() (all []*pendingApproval) {
	for _, list := range as.byKey {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *pendingApproval) int { return a.n - b.n })
	return all
}

// clone returns a copy for copies of the invocations.
func (as *approvals) clone(copies map[*invocation]*invocation) (c approvals) {
	for _, a := range as.sorted() {
		own := *a
		own.inv = copies[a.inv]
		c.add(&own)
	}
	return c
}
