package mapping

import (
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
)

// invocation returns the invocation that an event belongs to: a sub-agent's if a
// tool call started one.
func (r *run) invocation(ev *agent.Event, at instant) *invocation {
	if len(ev.Parent) == 0 {
		return r.main
	}
	if inv := r.nested[string(ev.Parent)]; inv != nil {
		return inv
	}
	r.counts.invocations++
	inv := &invocation{
		ref: spanRef{invokeAgent, r.counts.invocations}, tool: rootRef, name: "subagent", start: at, wait: at,
	}
	t := r.tools[string(ev.Parent)]
	switch {
	case t != nil:
		inv.tool, inv.start, inv.wait, inv.task = t.ref(), t.start, t.start, t.inv.task
	case r.leftRunning(ev.Parent) != nil:
		t = r.leftRunning(ev.Parent)
		inv.tool, inv.start, inv.wait, inv.task = t.backgroundRef(), t.from, t.from, t
	}
	if t != nil && t.subagent != "" {
		inv.name = t.subagent
	}
	if r.nested == nil {
		r.nested = map[string]*invocation{}
	}
	r.nested[string(ev.Parent)] = inv
	r.order = append(r.order, inv)
	return inv
}

// endNested ends what a background call left open. It returns when the call ended,
// which is not before its work ended.
func (r *run) endNested(task *tool, at instant, errorType string) instant {
	for _, t := range slices.Backward(sortedTools(r.tools)) {
		if t.inv.task == task {
			at = r.endTool(t, r.clock.after(t.start, at), errIncomplete, "")
		}
	}
	for i, inv := range slices.Backward(r.order) {
		if inv.task != task {
			continue
		}
		at = r.endInvocation(inv, max(at, r.clock.last), errorType)
		r.order = slices.Delete(r.order, i, i+1)
		maps.DeleteFunc(r.nested, func(_ string, nested *invocation) bool { return nested == inv })
	}
	return at
}
