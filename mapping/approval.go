package mapping

import (
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

func (r *run) approvalStart(inv *invocation, ev *agent.Event, at moment) {
	r.counts.approvals++
	a := &pendingApproval{id: string(ev.ID), query: ev.Query, tool: string(ev.ToolCallID), callID: r.stream.names.id(string(ev.ToolCallID)), n: r.counts.approvals, inv: inv, start: at}
	r.stream.facts(nil, ev.Facts, &a.content)
	r.approvals = append(r.approvals, a)
	if q := &inv.question; inv.current() != nil || inv.state != idle && inv.busy.running == 0 {
		q.asked, q.answered = cmp.Or(q.asked, at), moment{}
	}
	if len(r.approvals) > maxOpen {
		for _, old := range r.approvals[:maxOpen/10] {
			r.stream.stats.Evicted++
			r.endApproval(old, r.clock.after(old.start, at), "", errIncomplete)
		}
		r.approvals = slices.Delete(r.approvals, 0, maxOpen/10)
	}
}

func (r *run) approvalEnd(ev *agent.Event, at moment) {
	i := slices.IndexFunc(r.approvals, func(a *pendingApproval) bool { return a.id == string(ev.ID) && (ev.Query == "" || ev.Query == a.query) })
	if i < 0 {
		r.stream.stats.EndsWithoutStart++
		return
	}
	a := r.approvals[i]
	r.approvals = slices.Delete(r.approvals, i, i+1)
	errorType := ""
	if ev.Failed {
		errorType = r.stream.names.pass(ev.Status)
		r.doubts.Rejected(a.tool)
	}
	r.stream.facts(nil, ev.Facts, &a.content)
	a.inv.question.answered = at
	r.endApproval(a, r.clock.after(a.start, at), r.stream.names.pass(ev.Status), errorType)
}

func (r *run) endApproval(a *pendingApproval, at moment, outcome, errorType string) {
	query := r.stream.names.pass(a.query)
	s := r.newSpan(spanRef{approval, a.n}, a.inv.ref, a.inv, query)
	s.start, s.end = a.start, at
	s.attributes.str(semconv.QueryType, query)
	s.attributes.strIfSet(semconv.QueryOutcome, outcome)
	s.attributes.strIfSet(semconv.ToolCallID, a.callID)
	s.errorType, s.content = errorType, a.content
	if errorType == outcome {
		s.status = outcome
	}
	r.emit(s)
}
