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
	floor      instant // the earliest possible start
	pending    bool    // its end will tell when it started
	estimated  bool    // it may have ended before its end was reported
	repeat     int     // how often in a row it was called; zero until its arguments are known

	arguments attributes // in wire format
	asked     content.Attributes
	callPart  content.Value

	// Work that the call left running in the background.
	task       string
	background int     // the number of its span
	from       instant // when the call ended
	over       instant // when the work ended, if an await said so
	exit       agent.Exit
	status     string
	failed     bool
}

func (t *tool) ref() spanRef { return spanRef{executeTool, t.n} }

func (t *tool) backgroundRef() spanRef { return spanRef{background, t.background} }

// maxOpen is how many calls, tasks or approvals a run may have open at once.
// Past that the oldest end, a tenth at a time: to find them takes a look at all.
const maxOpen = 2_000

// toolStart handles the start of a call. printed is when the previous line was
// printed.
func (r *run) toolStart(inv *invocation, ev *agent.Event, at, printed instant) *tool {
	id := string(ev.ID)
	if t := r.tools[id]; t != nil { // the id is reused: the older call will never end
		r.endTool(t, r.clock.after(t.start, at), errIncomplete, "")
		at = max(at, r.clock.last)
		if inv.ended { // it was the work of that call
			inv = r.invocation(ev, at)
		}
	}
	start := at
	if ev.Start != 0 { // the line was printed late
		start = max(min(r.instantOf(ev.Start), at), min(printed, at))
	}
	r.counts.tools++
	inv.counts.tools++
	t := r.m.spareTool
	if r.m.spareTool = nil; t == nil {
		t = new(tool)
	}
	*t = tool{arguments: attributes{wire: r.m.buffers.take(1024)}, id: id, n: r.counts.tools, inv: inv, start: start, floor: min(printed, at), pending: ev.StartPending}
	t.estimated = r.guessed && ev.Start == 0
	t.learn(r, ev.Tool)

	if inv.turn == nil && r.impliesModelCall(inv, ev.ModelCallID) {
		r.openTurn(inv, start, nil)
	}
	if inv.turn != nil {
		inv.turn.learn(ev)
		inv.turn.mayGoOn = ev.GoesOn || r.agent.TurnEnds
		if r.m.capture.Full() {
			inv.turn.callPart = []content.Value{t.callPart}
		}
		var waitsFor *tool
		if ev.StartPending {
			waitsFor = t
		}
		t.start = r.callTool(inv, start, waitsFor)
	}
	t.turn = inv.lastTurn
	inv.running++
	inv.woken = false
	r.tools[id] = t
	if len(r.tools) > maxOpen {
		for _, old := range r.oldest(r.tools, t) {
			r.endTool(old, r.clock.after(old.start, at), errIncomplete, "")
		}
	}
	return t
}

// oldest counts and returns those that end to make room: not the ones whose
// sub-agent still works, unless all do, and then only the newest.
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
	if len(call) > 0 && inv.lastTurn != nil && inv.lastTurn.call != "" {
		return inv.lastTurn.call != string(call)
	}
	return inv.running == 0 && (inv.callingTurn == nil || !r.agent.TurnEnds)
}

// learn records what a line states about a call's arguments.
func (t *tool) learn(r *run, call *agent.Tool) {
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
	if t.executable != "" {
		t.arguments.str(semconv.ProcessExecutable, t.executable)
	}
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

// toolEnd handles the end of a call.
func (r *run) toolEnd(inv *invocation, ev *agent.Event, at instant) {
	t := r.tools[string(ev.ID)]
	missing := t == nil
	switch {
	case missing:
		if ev.Length > 0 {
			ev.Start = at - ev.Length - r.clock.skew - instant(r.m.opts.Shift)
		}
		t = r.toolStart(inv, ev, at, r.start)
	case t.pending && ev.Start != 0:
		r.correctStart(t, max(r.instantOf(ev.Start), t.floor))
	}
	t.learn(r, ev.Tool)
	r.outcome(t, ev, r.clock.after(t.start, r.ownTime(ev, at)), missing)
}

// correctStart corrects the start of a call that was printed late, and the end of
// the turn that made the call.
func (r *run) correctStart(t *tool, start instant) {
	if start >= t.start {
		return
	}
	called := t.inv.callingTurn
	if called == nil || called.waitsFor != t {
		if t.turn != nil { // its turn has been sent
			start = max(start, t.turn.end)
		}
		t.start = min(t.start, start)
		return
	}
	called.end = max(start, called.start+quantum, called.log.last+quantum)
	t.start = min(t.start, called.end)
	called.end = t.start
}

// toolCall handles a call that is reported only at its end.
func (r *run) toolCall(inv *invocation, ev *agent.Event, at instant) {
	started := *ev
	started.Time = 0
	t := r.toolStart(inv, &started, at, r.start)
	if called := inv.callingTurn; called != nil && t.turn == called && ev.Start != 0 {
		called.end = max(min(called.end, t.start), called.start+quantum, called.log.last+quantum)
		t.start = max(t.start, called.end)
	}
	r.outcome(t, ev, r.clock.after(t.start, r.ownTime(ev, at)), false)
}

// outcome ends a call with the outcome that its last line states. The next call may
// reuse t.
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
		t.inv.ask(content.Message("tool", []content.Value{
			content.ToolResponsePart(r.m.names.idAgain(strings.ToValidUTF8(t.id, "\uFFFD")), *response),
		}, ""))
	}
	if call.Background {
		r.leaveRunning(t, call, at)
	} else {
		r.m.spareTool = t
	}
}

// endTool finishes a call, and returns when it ended: not before its sub-agent.
func (r *run) endTool(t *tool, at instant, errorType, status string) instant {
	delete(r.tools, t.id)
	inv := t.inv
	if called := inv.callingTurn; called != nil && called.waitsFor == t {
		called.waitsFor = nil
		if !called.mayGoOn {
			r.settleCalled(inv)
		}
	}
	if nested := r.nested[t.id]; nested != nil {
		delete(r.nested, t.id)
		at = max(at, r.endInvocation(nested, at, errorType))
	}
	s := r.newSpan(t.ref(), inv.ref, inv, spanName{semconv.OperationExecuteTool, t.name, t.executable})
	s.start, s.end = t.start, at
	a := &s.attributes
	a.str(semconv.ToolName, t.name)
	if t.id != "" { // not known any more if its run was evicted
		a.str(semconv.ToolCallID, r.m.names.id(t.id))
	}
	if t.mcp {
		a.str(semconv.ToolType, "extension")
		a.str(semconv.MCPMethodName, "tools/call")
	} else {
		a.str(semconv.ToolType, "function")
	}
	if t.turn != nil {
		a.int(semconv.TurnNumber, int64(t.turn.n))
		if t.turn.call != "" {
			a.str(semconv.ResponseID, r.m.names.id(t.turn.call))
		}
	}
	if t.repeat > 1 {
		a.int(semconv.ToolRepeat, int64(t.repeat))
	}
	a.wire = append(a.wire, t.arguments.wire...)
	r.m.reuse(&t.arguments)
	a.lost += t.arguments.lost
	s.content, s.estimated = t.asked, t.estimated
	if errorType != "" {
		r.counts.toolErrors++
		inv.counts.toolErrors++
		s.errorType, s.status = errorType, status
	}
	r.emit(s)
	t.from = at
	inv.running--
	inv.ranTool(t.start, at)
	if inv.running == 0 && inv.turn == nil {
		inv.wait, inv.idle = max(inv.wait, at), false
	}
	return at
}
