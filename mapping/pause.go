package mapping

import (
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A pause is an approval, for which the agent waits for its user, or a hook, for which it waits
// for a program of its user's.
type pause struct {
	ref     spanRef
	id      string
	subject string // the approval's query, or the hook's event
	tool    string // the id of the call that it is for, "" if no line says it
	inv     *invocation
	start   moment
	content content.Attributes
}

func (r *run) pauseStart(ref spanRef, inv *invocation, ev *agent.Event, at moment) *pause {
	if len(r.pauses) == maxOpen {
		r.stream.stats.Evicted++
		r.endPause(r.pauses[0], &agent.Event{}, at, errIncomplete)
	}
	p := &pause{ref: ref, id: string(ev.ID), subject: ev.Query, tool: string(ev.ToolCallID), inv: inv, start: at}
	r.pauses = append(r.pauses, p)
	return p
}

func (r *run) approvalStart(inv *invocation, ev *agent.Event, at moment) {
	r.counts.approvals++
	p := r.pauseStart(spanRef{approval, r.counts.approvals}, inv, ev, at)
	r.stream.facts(nil, ev.Facts, &p.content)
	if q := &inv.question; inv.current() != nil || inv.state != idle && inv.busy.running == 0 {
		q.asked, q.answered = cmp.Or(q.asked, at), moment{}
	}
}

func (r *run) hookStart(inv *invocation, ev *agent.Event, at moment) *pause {
	r.counts.hooks++
	return r.pauseStart(spanRef{hook, r.counts.hooks}, inv, ev, at)
}

// paused returns the pause that an event ends, nil if there is none. Its id is not enough for an
// approval: Cursor's is always 0.
func (r *run) paused(op operation, ev *agent.Event) *pause {
	for _, p := range r.pauses {
		if p.ref.operation == op && p.id == string(ev.ID) && (ev.Query == "" || ev.Query == p.subject) {
			return p
		}
	}
	return nil
}

func (r *run) approvalEnd(ev *agent.Event, at moment) {
	p := r.paused(approval, ev)
	if p == nil {
		r.stream.stats.EndsWithoutStart++
		return
	}
	if ev.Failed {
		r.doubts.Rejected(p.tool)
	}
	p.inv.question.answered = at
	r.endPause(p, ev, at, "")
}

func (r *run) hookEnd(inv *invocation, ev *agent.Event, at moment) {
	p := r.paused(hook, ev)
	if p == nil {
		p = r.hookStart(inv, ev, at.minus(ev.Length).notBefore(r.start.at))
	}
	r.notAskedYet(p.inv, r.endPause(p, ev, at, ""))
}

// endPause makes the span of a pause, and returns when it ended. errorType is why it ended, unless
// the event says so.
func (r *run) endPause(p *pause, ev *agent.Event, at moment, errorType string) moment {
	r.pauses = slices.DeleteFunc(r.pauses, func(other *pause) bool { return other == p })
	names := r.stream.names
	if ev.Failed {
		errorType = names.pass(ev.Status)
	}
	subject := names.pass(p.subject)
	s := r.newSpan(p.ref, p.inv.ref, p.inv, subject)
	s.start, s.end, s.errorType = p.start, r.clock.after(p.start, at), errorType
	a := &s.attributes
	if p.ref.operation == approval {
		outcome := names.pass(ev.Status)
		a.strIfSet(semconv.QueryType, subject)
		a.strIfSet(semconv.QueryOutcome, outcome)
		if errorType == outcome {
			s.status = outcome
		}
	} else {
		a.strIfSet(semconv.HookEvent, subject)
	}
	a.strIfSet(semconv.ToolCallID, names.id(p.tool))
	r.stream.facts(a, ev.Facts, &p.content)
	if code := ev.Facts.Find(semconv.ProcessExitCode); code != nil && errorType != "" {
		s.status = exitStatus(code.Int)
	}
	s.content = p.content
	r.emit(s)
	return s.end
}

// endPauses ends the pauses that are left when their run ends.
func (r *run) endPauses(at moment, errorType string) {
	for len(r.pauses) > 0 {
		r.endPause(r.pauses[0], &agent.Event{}, at, errorType)
	}
}
