package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// An approvalKey pairs a request with its response. The id alone does not:
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

func (r *run) approvalStart(inv *invocation, ev *agent.Event, at instant) {
	r.counts.approvals++
	key := approvalKey{string(ev.ID), ev.Query}
	a := &pendingApproval{key: key, query: r.m.names.pass(ev.Query), callID: r.m.names.id(string(ev.ToolCallID)), n: r.counts.approvals, inv: inv, start: at}
	r.m.captureFacts(ev.Facts, &a.content)
	r.approvals[key] = append(r.approvals[key], a)
	if r.pending++; r.pending > maxOpen {
		for _, old := range r.openApprovals()[:maxOpen/10] {
			r.m.stats.Evicted++
			r.take(old.key)
			r.endApproval(old, r.clock.after(old.start, at), "", errIncomplete)
		}
	}
}

// take returns the oldest open approval of a key, nil if there is none.
func (r *run) take(key approvalKey) *pendingApproval {
	open := r.approvals[key]
	if len(open) == 0 {
		return nil
	}
	r.pending--
	if len(open) == 1 {
		delete(r.approvals, key)
	} else {
		r.approvals[key] = open[1:]
	}
	return open[0]
}

func (r *run) approvalEnd(ev *agent.Event, at instant) {
	a := r.take(approvalKey{string(ev.ID), ev.Query})
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
	if outcome != "" {
		s.attributes.str(semconv.QueryOutcome, outcome)
	}
	if a.callID != "" {
		s.attributes.str(semconv.ToolCallID, a.callID)
	}
	s.errorType, s.content = errorType, a.content
	r.emit(s)
}

// openApprovals returns the approvals that wait for an answer, the oldest first.
func (r *run) openApprovals() (open []*pendingApproval) {
	for _, list := range r.approvals {
		open = append(open, list...)
	}
	slices.SortFunc(open, func(a, b *pendingApproval) int { return a.n - b.n })
	return open
}
