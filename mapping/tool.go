package mapping

import (
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A tool is a call in flight, or one that left something running.
type tool struct {
	id         string
	n          int
	inv        *invocation
	turn       *turn // the turn that called it
	name       string
	executable string
	subagent   string
	mcp        bool
	start      instant
	floor      instant // the call cannot have started earlier
	estimated  bool    // it, or what it left running, may have ended before its end was reported
	awaited    spanRef // the background work that it waited for
	repeat     int     // how often in a row this call was made; zero until its arguments are known

	arguments attributes // in wire format
	asked     content.Attributes
	callPart  content.Value
	work
}

func (t *tool) ref() spanRef { return spanRef{executeTool, t.n} }

// maxOpen is how many calls, tasks or approvals a run may have open at once.
// Beyond that, the oldest tenth is ended at once, because finding the oldest means
// sorting all of them.
const maxOpen = 2_000

// toolStart handles the start of a call, which may be earlier than its line.
func (r *run) toolStart(inv *invocation, ev *agent.Event, at, start instant) *tool {
	id := string(ev.ID)
	if t := r.tools[id]; t != nil { // the id is reused: the older call will never end
		r.endTool(t, r.clock.after(t.start, at), errIncomplete, "")
		at = max(at, r.clock.last)
		if inv.ended { // the sub-agent was the work of that call
			inv = r.invocation(ev, at)
		}
	}
	start = max(start, r.start)
	r.counts.tools++
	inv.counts.tools++
	t := &tool{id: id, n: r.counts.tools, inv: inv, start: start, floor: inv.lastStep + quantum}
	t.estimated = r.guessed && start == at
	t.learn(r, ev.Tool)

	if inv.turn == nil && r.impliesModelCall(inv, ev.ModelCallID) {
		r.openTurn(inv, start, nil)
	}
	if inv.turn != nil {
		inv.turn.response.learn(ev)
		if r.m.capture.Full() {
			inv.turn.callPart = []content.Value{t.callPart}
		}
		t.start = max(start, r.endWithCall(inv, start, r.openAfter(ev)))
	}
	t.turn = inv.lastTurn
	inv.busy.running++
	if inv.state == woken {
		inv.state = working
	}
	r.tools[id] = t
	if len(r.tools) > maxOpen {
		for _, old := range r.oldest(r.tools, t) {
			r.endTool(old, r.clock.after(old.start, at), errIncomplete, "")
		}
	}
	return t
}

// openAfter returns how long a turn stays open after a tool call.
func (r *run) openAfter(ev *agent.Event) turnOpen {
	switch {
	case ev.GoesOn || r.agent.TurnEnds:
		return untilNextTurn
	case ev.StartPending:
		return untilCallsEnd
	}
	return notOpen
}

// oldest returns the calls that end to make room, and counts them. Calls whose sub-agent
// still works are left; if that leaves none to end, only the newest call ends.
func (r *run) oldest(open map[string]*tool, newest *tool) []*tool {
	old := slices.DeleteFunc(sortedTools(open), func(t *tool) bool { return t == newest || r.nested[t.id] != nil })
	old = old[:min(len(old), maxOpen/10)]
	if len(old) == 0 {
		old = []*tool{newest}
	}
	r.m.stats.Evicted += len(old)
	return old
}

// impliesModelCall reports whether a tool call implies another model call, one
// without any text. If the call has no model call id, a tool that starts while others
// run belongs to their turn, and so does a tool that starts before the turn's end.
func (r *run) impliesModelCall(inv *invocation, call []byte) bool {
	if len(call) > 0 && inv.lastTurn != nil && inv.lastTurn.response.id != "" {
		return inv.lastTurn.response.id != string(call)
	}
	return inv.busy.running == 0 && (inv.caller == nil || !r.agent.TurnEnds)
}

// learn records what a line states about a call's arguments.
func (t *tool) learn(r *run, call *agent.Tool) {
	if call != nil && !call.Background && r.tasks[string(call.Task)] != nil {
		t.awaited = r.tasks[string(call.Task)].backgroundRef()
	}
	if call == nil || t.name != "" && len(call.Arguments) == 0 { // as in many failures
		return
	}
	if call.Name != "" {
		t.name = r.m.names.pass(call.Name)
	}
	t.mcp, t.executable = call.MCP, ""
	if r.m.names.pass(call.Executable) == call.Executable {
		t.executable = call.Executable
	}
	if t.repeat == 0 && len(call.Arguments) > 0 {
		t.repeat = t.inv.repeats.called(call)
	}
	if call.Subagent != "" {
		t.subagent = r.m.names.pass(call.Subagent)
	}
	c := r.m.capture
	t.asked = content.Attributes{}
	t.arguments = attributes{wire: t.arguments.wire[:0], field: fieldAttributes, max: r.m.opts.MaxAttributeBytes}
	for i := range call.ArgumentFacts {
		r.m.fact(&t.arguments, &call.ArgumentFacts[i], &t.asked)
	}
	t.arguments.strIfSet(semconv.ProcessExecutable, t.executable)
	c.Text(&t.asked, semconv.ToolDescription, call.Description)
	if c.Full() {
		arguments, lost := content.Object(), 0
		if len(call.Arguments) > 0 {
			arguments, lost = c.Value(call.Arguments)
			c.JSON(&t.asked, semconv.ToolArguments, &arguments, lost)
		}
		t.callPart = content.ToolCallPart(r.m.names.idAgain(strings.ToValidUTF8(t.id, "\uFFFD")), t.name, arguments)
	}
}

// toolEnd handles the end of a call. printed is when the previous line was printed.
func (r *run) toolEnd(inv *invocation, ev *agent.Event, at, printed instant) {
	t := r.tools[string(ev.ID)]
	end := r.ownTime(ev, at)
	if t != nil && end < t.start {
		end = at
	}
	start := end
	if !r.guessed {
		start = quantize(end - ev.Length)
	}
	missing := t == nil
	switch {
	case missing:
		t = r.toolStart(inv, ev, at, start)
	case ev.Length > 0:
		r.correctStart(t, start)
	case t.estimated && r.clock.recording() && !r.guessed && printed <= t.start:
		r.shareTime(t, at)
	}
	t.learn(r, ev.Tool)
	r.outcome(t, ev, r.clock.after(t.start, end), missing)
}

// shareTime splits the time between two stamps of a recording into halves. The model's
// message began at the first stamp, and a call ended at the second. No line says when
// the message ended and the call began.
func (r *run) shareTime(t *tool, end instant) {
	caller := t.inv.caller
	if caller == nil || t.turn != caller || t.start != caller.end {
		return
	}
	since := t.start
	caller.end += quantize((end - caller.end) / 2)
	caller.guessed = true
	for _, other := range r.tools {
		if other.turn == caller && other.start == since {
			other.start = caller.end
		}
	}
}

// correctStart corrects the start of a call that was printed late, and the end of
// the turn that made the call.
func (r *run) correctStart(t *tool, start instant) {
	start = max(start, t.floor)
	if start >= t.start {
		return
	}
	caller := t.inv.caller
	if caller == nil || caller != t.turn || caller.state == resumed {
		if t.turn != nil { // its turn has been sent
			start = max(start, t.turn.end)
		}
		t.start = min(t.start, start)
		return
	}
	if r.startGuessed() && r.ownFirst && caller.n == 1 { // the run began earlier than its first timestamp
		caller.start = min(caller.start, start-quantum)
		r.start = min(r.start, caller.start)
	}
	t.start = min(t.start, max(start, caller.start+quantum, caller.log.start+quantum))
	caller.end = min(caller.end, t.start)
}

// toolCall handles a call that is reported only at its end.
func (r *run) toolCall(inv *invocation, ev *agent.Event, at instant) {
	start := at
	if ev.Start != 0 {
		start = min(r.instantOf(ev.Start), at)
	}
	t := r.toolStart(inv, ev, at, start)
	if caller := inv.caller; caller != nil && t.turn == caller && ev.Start != 0 {
		caller.end = max(min(caller.end, t.start), caller.start+quantum, caller.log.last+quantum)
		t.start = max(t.start, caller.end)
	}
	r.outcome(t, ev, r.clock.after(t.start, r.ownTime(ev, at)), false)
}

// outcome ends a call with the outcome that its last line states.
func (r *run) outcome(t *tool, ev *agent.Event, at instant, missing bool) {
	call := ev.Tool
	if call == nil {
		call = &agent.Tool{}
	}
	c := r.m.capture
	a := &t.arguments
	answered := content.Attributes{}
	for i := range call.OutcomeFacts {
		r.m.fact(a, &call.OutcomeFacts[i], &answered)
	}
	if missing {
		a.bool(semconv.StartMissing, true)
	}
	t.estimated = t.estimated || ev.Estimated || r.guessed
	errorType, status := r.m.names.pass(call.ErrorType), call.Reason
	if errorType != call.ErrorType { // the reason may repeat the type
		status = ""
	}
	if errorType != "" {
		if s, lost := c.String(call.ErrorText); s != "" {
			answered.Lost += lost
			status = strings.TrimSpace(strings.TrimPrefix(status+": "+s, ": "))
		}
	}
	var response *content.Value
	if c.Full() && len(call.Result) > 0 {
		v, lost := c.Value(call.Result)
		c.JSON(&answered, semconv.ToolResult, &v, lost)
		response = &v
	}
	t.asked.Merge(answered)
	at = r.endTool(t, at, errorType, status)
	if response != nil && t.inv.turn == nil {
		t.inv.dialog.ask(content.Message("tool", []content.Value{
			content.ToolResponsePart(r.m.names.idAgain(strings.ToValidUTF8(t.id, "\uFFFD")), *response),
		}, ""))
	}
	if call.Background {
		r.leaveRunning(t, call, at)
	}
}

// endTool finishes a call, and returns when it ended: not before its sub-agent.
func (r *run) endTool(t *tool, at instant, errorType, status string) instant {
	delete(r.tools, t.id)
	inv := t.inv
	if caller := inv.caller; caller != nil && caller.open == untilCallsEnd && inv.busy.running == 1 {
		r.finishCaller(inv)
	}
	if nested := r.nested[t.id]; nested != nil {
		delete(r.nested, t.id)
		at = max(at, r.endInvocation(nested, at, errorType))
	}
	s := r.newSpan(t.ref(), inv.ref, inv, spanName{semconv.OperationExecuteTool, t.name, t.executable})
	s.start, s.end = t.start, at
	a := &s.attributes
	a.str(semconv.ToolName, t.name)
	a.strIfSet(semconv.ToolCallID, r.m.names.id(t.id))
	if t.mcp {
		a.str(semconv.ToolType, "extension")
		a.str(semconv.MCPMethodName, "tools/call")
	} else {
		a.str(semconv.ToolType, "function")
	}
	if t.turn != nil {
		a.int(semconv.TurnNumber, int64(t.turn.n))
		a.strIfSet(semconv.ResponseID, r.m.names.id(t.turn.response.id))
	}
	if t.repeat > 1 {
		a.int(semconv.ToolRepeat, int64(t.repeat))
	}
	a.wire = append(a.wire, t.arguments.wire...)
	a.lost += t.arguments.lost
	s.content, s.estimated, s.link = t.asked, t.estimated, t.awaited
	if errorType != "" {
		r.counts.toolErrors++
		inv.counts.toolErrors++
		s.errorType, s.status = errorType, status
	}
	r.emit(s)
	t.from = at
	inv.lastStep = max(inv.lastStep, at)
	inv.busy.running--
	inv.busy.add(t.start, at)
	if inv.busy.running == 0 && inv.turn == nil {
		inv.wait, inv.state = max(inv.wait, at), working
	}
	return at
}
