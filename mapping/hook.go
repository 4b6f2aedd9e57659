package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A pendingHook is a program of the user's that the agent runs, and waits for.
type pendingHook struct {
	id      string
	n       int
	event   string // that it is for
	callID  string // of the tool that it is for, as it may be shown
	inv     *invocation
	start   moment
	content content.Attributes
}

func (r *run) hookStart(inv *invocation, ev *agent.Event, at moment) {
	if len(r.hooks) == maxOpen {
		r.stream.stats.Evicted++
		r.endHook(r.hooks[0], at, &agent.Event{}, errIncomplete)
		r.hooks = slices.Delete(r.hooks, 0, 1)
	}
	r.counts.hooks++
	h := &pendingHook{id: string(ev.ID), n: r.counts.hooks, inv: inv, start: at}
	h.event = r.stream.names.pass(ev.Query)
	h.callID = r.stream.names.id(string(ev.ToolCallID))
	r.hooks = append(r.hooks, h)
}

func (r *run) hookEnd(inv *invocation, ev *agent.Event, at moment) {
	i := slices.IndexFunc(r.hooks, func(h *pendingHook) bool { return h.id == string(ev.ID) })
	if i < 0 {
		r.hookStart(inv, ev, at.minus(ev.Length).notBefore(r.start.at))
		i = len(r.hooks) - 1
	}
	h := r.hooks[i]
	r.hooks = slices.Delete(r.hooks, i, i+1)
	errorType := ""
	if ev.Failed {
		errorType = r.stream.names.pass(ev.Status)
	}
	r.notAskedYet(h.inv, r.endHook(h, at, ev, errorType))
}

// endHook makes the span of a hook, and returns when it ended.
func (r *run) endHook(h *pendingHook, at moment, ev *agent.Event, errorType string) moment {
	end := r.clock.after(h.start, at)
	s := r.newSpan(spanRef{hook, h.n}, h.inv.ref, h.inv, h.event)
	s.start, s.end = h.start, end
	s.attributes.strIfSet(semconv.HookEvent, h.event)
	s.attributes.strIfSet(semconv.ToolCallID, h.callID)
	r.stream.facts(&s.attributes, ev.Facts, &h.content)
	if code := ev.Facts.Find(semconv.ProcessExitCode); code != nil && errorType != "" {
		s.status = exitStatus(code.Int)
	}
	s.errorType, s.content = errorType, h.content
	r.emit(s)
	return end
}

// endHooks ends the hooks that still run when their run ends.
func (r *run) endHooks(at moment, errorType string) {
	for _, h := range r.hooks {
		r.endHook(h, at, &agent.Event{}, errorType)
	}
	r.hooks = nil
}
