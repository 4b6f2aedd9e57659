package mapping

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// toolStart handles the start of a call, which may be earlier than its line.
func (r *run) toolStart(inv *invocation, ev *agent.Event, at, start instant) *tool {
	id := string(ev.ID)
	if t := r.tools[id]; t != nil { // the id is reused: the older call will never end
		r.endTool(t, r.clock.after(t.start, at), errIncomplete, "")
		at = max(at, r.clock.last)
		inv.steps.floor = at
	}
	if len(r.tools) == maxOpen {
		old := r.evictOldest(r.tools)
		newest := old[len(old)-1].n
		r.endTools(at, errIncomplete, func(t *tool) bool { return t.n <= newest })
	}
	if inv.ended { // the sub-agent was the work of a call that has ended
		inv = r.invocation(ev, at)
	}
	start = max(start, r.start)
	r.counts.tools++
	inv.counts.tools++
	inv.steps.print(at)
	t := &tool{id: id, n: r.counts.tools, inv: inv, start: start, floor: inv.steps.floor + quantum}
	t.estimated = r.guessed && start == at
	if t.learn(r, ev.Tool); t.subagent != "" {
		r.starts(t)
	}

	if turn := inv.current(); turn != nil && turn.otherCall(ev.ModelCallID) { // the model call before had only text
		r.closeTurn(inv, turn.lastWord(start), "")
	}
	if inv.current() == nil && r.impliesModelCall(inv, ev.ModelCallID) {
		r.openTurn(inv, start, nil)
	}
	if turn := inv.current(); turn != nil {
		turn.response.learn(ev)
		if r.stream.capture.Full() {
			turn.callPart = []content.Value{t.callPart}
		}
		t.start = max(start, r.endWithCall(inv, start))
	} else if caller := inv.caller(); caller != nil && len(ev.ModelCallID) > 0 && caller.response.id == string(ev.ModelCallID) {
		caller.response.learn(ev) // its usage may have grown
	}
	t.turn, inv.question = inv.turn, question{}
	inv.busy.running++
	if inv.state == woken {
		inv.state = working
	}
	r.tools[id] = t
	return t
}

// evictOldest picks the oldest tenth of the open calls, which end to make room.
func (r *run) evictOldest(open map[string]*tool) []*tool {
	old := sortedTools(open)[:maxOpen/10]
	r.stream.stats.Evicted += len(old)
	return old
}

// impliesModelCall reports whether a tool call implies another model call, one
// without any text. If the call has no model call id, a tool that starts while others
// run belongs to their turn, and so does a tool that starts before the turn's end.
func (r *run) impliesModelCall(inv *invocation, call []byte) bool {
	if len(call) > 0 && inv.turn != nil && inv.turn.response.id != "" {
		return inv.turn.response.id != string(call)
	}
	return inv.busy.running == 0 && (inv.caller() == nil || !r.agent.TurnEnds)
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
		t.name = r.stream.names.pass(call.Name)
	}
	t.mcp, t.executable = call.MCP, ""
	t.command = call.Executable != "" || call.ArgumentFacts.Find(semconv.ProcessCommandLine) != nil
	if r.stream.names.pass(call.Executable) == call.Executable {
		t.executable = call.Executable
	}
	if r.stream.names.pass(call.Skill) == call.Skill {
		t.skill = call.Skill
	}
	if t.repeat == 0 && len(call.Arguments) > 0 {
		t.repeat = t.inv.repeats.Called(call)
	}
	if call.Subagent != "" {
		t.subagent = r.stream.names.pass(call.Subagent)
	}
	c := r.stream.capture
	t.asked = content.Attributes{}
	t.arguments = r.stream.attributes(fieldAttributes, t.arguments.wire[:0])
	r.stream.facts(&t.arguments, call.ArgumentFacts, &t.asked)
	t.arguments.strIfSet(semconv.ProcessExecutable, t.executable)
	if c.Full() {
		arguments, lost := content.Object(), 0
		if len(call.Arguments) > 0 {
			arguments, lost = c.Value(call.Arguments)
			c.JSON(&t.asked, semconv.ToolArguments, &arguments, lost)
		}
		t.callPart = content.ToolCallPart(r.stream.names.idAgain(t.id), t.name, arguments)
	}
}

// toolEnd handles the end of a call. last is when the previous line was printed.
func (r *run) toolEnd(inv *invocation, ev *agent.Event, at, last instant) {
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
	case t.estimated && r.clock.recording() && !r.guessed && last <= t.start:
		r.shareTime(t, at)
	}
	t.learn(r, ev.Tool)
	end = r.clock.after(t.start, end)
	if off := end - t.start - ev.Length; ev.Length > 0 && max(off, -off) > maxDeviation {
		t.estimated = true
	}
	r.outcome(t, ev, end, missing)
}

// maxDeviation is how far a call's span may be from the length that the agent states.
const maxDeviation = 60 * agent.Milliseconds

// shareTime splits the time between two stamps of a recording into halves. The model's
// message began at the first stamp, and a call ended at the second. No line says when
// the message ended and the call began.
func (r *run) shareTime(t *tool, end instant) {
	caller := t.inv.caller()
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
	caller := t.inv.caller()
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
	t.start = min(t.start, max(start, caller.start+quantum, caller.log.current().start+quantum))
	caller.end = min(caller.end, t.start)
}

// toolCall handles a call that is reported only at its end.
func (r *run) toolCall(inv *invocation, ev *agent.Event, at instant) {
	start := at
	if ev.Start != 0 {
		start = min(r.instantOf(ev.Start), at)
	}
	script := r.tools[string(ev.ToolCallID)]
	if script != nil {
		start = max(start, script.start)
	}
	t := r.toolStart(inv, ev, at, start)
	if script != nil && script != t {
		t.script = script.ref()
		if script.calls++; script.calls == 1 {
			r.counts.scripts++
			inv.counts.tools--
		}
	}
	if caller := inv.caller(); caller != nil && t.turn == caller && ev.Start != 0 {
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
	r.doubts.Called(t.id, ev, call, t.inv.ref == rootRef, t.command)
	c := r.stream.capture
	a := &t.arguments
	answered := content.Attributes{}
	r.stream.facts(a, call.OutcomeFacts, &answered)
	if missing {
		a.bool(semconv.StartMissing, true)
	}
	t.estimated = t.estimated || ev.Estimated || r.guessed
	errorType, status := r.stream.names.pass(call.ErrorType), call.Reason
	if t.mcp && call.Reported && errorType == "error" {
		errorType = semconv.ErrorTool
	} else if errorType != call.ErrorType { // the reason may repeat the type
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
	nested := r.nested[t.id]
	if nested != nil && call.Background && nested.counts.turns+nested.counts.tools == 0 { // it will work in the background
		delete(r.nested, t.id)
	} else {
		nested = nil
	}
	if nested := r.nested[t.id]; nested != nil {
		nested.failure = r.stream.names.pass(call.SubagentError)
	}
	at = r.endTool(t, at, errorType, status)
	if response != nil && t.inv.current() == nil {
		t.inv.dialog.ask(content.Message("tool", []content.Value{
			content.ToolResponsePart(r.stream.names.idAgain(t.id), *response),
		}, ""))
	}
	if call.Background {
		r.leaveRunning(t, call, at, nested)
	}
}

// endTool finishes a call, and returns when it ended: not before its sub-agent.
func (r *run) endTool(t *tool, at instant, errorType, status string) instant {
	delete(r.tools, t.id)
	inv := t.inv
	if nested := r.nested[t.id]; nested != nil {
		delete(r.nested, t.id)
		at = max(at, r.endInvocation(nested, at, errorType))
	}
	parent := inv.ref
	if t.script != (spanRef{}) {
		parent = t.script
	}
	s := r.newSpan(t.ref(), parent, inv, t.name)
	s.program, s.start, s.end = cmp.Or(t.executable, t.skill), t.start, at
	a := &s.attributes
	if t.calls > 0 {
		a.int(semconv.ToolCalls, int64(t.calls))
	}
	a.str(semconv.ToolName, t.name)
	a.strIfSet(semconv.ToolCallID, r.stream.names.id(t.id))
	if t.mcp {
		a.str(semconv.ToolType, "extension")
		a.str(semconv.MCPMethodName, "tools/call")
	} else {
		a.str(semconv.ToolType, "function")
	}
	if t.turn != nil {
		a.int(semconv.TurnNumber, int64(t.turn.n))
		a.strIfSet(semconv.ResponseID, r.stream.names.id(t.turn.response.id))
	}
	if t.repeat > 1 {
		a.int(semconv.ToolRepeat, int64(t.repeat))
	}
	a.add(&t.arguments)
	s.content, s.estimated, s.link = t.asked, t.estimated, t.awaited
	if errorType != "" {
		if t.calls == 0 {
			r.counts.toolErrors++
			inv.counts.toolErrors++
		}
		s.errorType, s.status = errorType, status
	}
	r.emit(held{span: s})
	t.from = at
	inv.steps.add(at)
	inv.busy.running--
	inv.busy.add(t.start, at)
	if inv.busy.running == 0 && inv.current() == nil {
		inv.wait, inv.guessed, inv.state = max(inv.wait, at), r.guessed, working
	}
	return at
}

// endTools ends those calls in flight that the filter selects, the calls of sub-agents
// first. It returns when the last one ended.
func (r *run) endTools(at instant, errorType string, filter func(*tool) bool) instant {
	for _, t := range slices.Backward(sortedTools(r.tools)) {
		if filter(t) && r.tools[t.id] == t { // it has not ended with another one
			at = r.endTool(t, r.clock.after(t.start, at), errorType, "")
		}
	}
	return at
}

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
	if t != nil {
		r.starts(t)
		inv.name = cmp.Or(t.subagent, inv.name)
	}
	r.nested[string(ev.Parent)] = inv
	r.order = append(r.order, inv)
	return inv
}

// maxCallers is how many calls of sub-agents are remembered.
const maxCallers = 1_000

// starts records which call started a sub-agent, which may work on when the run has ended.
func (r *run) starts(t *tool) {
	if len(r.stream.callers) == maxCallers {
		clear(r.stream.callers)
	}
	r.stream.callers[callKey(r.session, t.id)] = &caller{ids: &r.ids, call: t.ref()}
}

// endNested ends what a background call left open. It returns when the call ended,
// which is not before its work ended.
func (r *run) endNested(task *tool, at instant, errorType string) instant {
	at = r.endTools(at, errIncomplete, func(t *tool) bool { return t.inv.task == task })
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

// endInvocation finishes a sub-agent's span, and returns when it ended: not
// before its last turn.
func (r *run) endInvocation(inv *invocation, at instant, errorType string) instant {
	if inv.ended {
		return at
	}
	inv.ended = true
	at = r.endTools(at, errIncomplete, func(t *tool) bool { return t.inv == inv })
	r.endTurn(inv, at, errorType)
	if inv.turn != nil {
		at = max(at, inv.turn.end)
	}
	s := r.newSpan(inv.ref, inv.tool, inv, inv.name)
	s.start, s.end = inv.start, max(at, r.clock.last, inv.start+quantum)
	a := &s.attributes
	a.strIfSet(semconv.RequestModel, inv.model)
	a.int(semconv.Turns, int64(inv.counts.turns))
	a.int(semconv.Tools, int64(inv.counts.tools))
	a.int(semconv.ToolErrors, int64(inv.counts.toolErrors))
	a.int(semconv.Deltas, int64(inv.counts.deltas))
	s.addNotices(inv.notices)
	s.addFirstChunk(inv.start, inv.firstChunk)
	s.errorType, s.content = cmp.Or(errorType, inv.failure), inv.dialog.attributes(r.stream.capture)
	r.emit(held{span: s, times: inv})
	return s.end
}

// leaveRunning records that a call has ended but has left something running, perhaps a
// sub-agent that was asked already.
func (r *run) leaveRunning(t *tool, call *agent.Tool, at instant, asked *invocation) {
	t.task = string(call.Task)
	r.counts.tasks++
	t.background, t.status, t.estimated = r.counts.tasks, "running", false
	if asked != nil {
		r.nested[t.id] = asked
		asked.tool, asked.start, asked.wait, asked.task = t.backgroundRef(), t.from, t.from, t
	}
	if old := r.tasks[t.task]; old != nil && t.task != "" { // the id is reused: the older task will never be reported again
		r.stopTask(old, at)
	}
	if early, ok := r.early[t.task]; ok { // its end was printed before the call's
		delete(r.early, t.task)
		t.status, t.failed, t.estimated = early.status, early.failed, true
		r.endBackground(t, r.clock.after(at, at), early.said)
		return
	}
	r.tasks[t.taskKey()] = t
	if len(r.tasks) > maxOpen {
		for _, old := range r.evictOldest(r.tasks) {
			r.stopTask(old, at)
		}
	}
}

// taskEnd handles the end of background work, or a notification of it. Some work
// belongs to a nested agent whose calls are not in the stream.
func (r *run) taskEnd(inv *invocation, ev *agent.Event, at instant) {
	if ev.Wakes {
		r.taskWakes(inv, at)
	}
	if r.tasks[string(ev.ID)] != nil {
		r.endTask(ev, at)
		return
	}
	if !ev.Wakes {
		return // it was reported before
	}
	note := *ev
	note.Notice = semconv.EventTaskNotification
	note.Facts = []agent.Fact{{Key: semconv.TaskID, Kind: agent.FactText, Text: ev.ID}}
	if ev.Status != "" {
		note.Facts = append(note.Facts, agent.Fact{Key: semconv.TaskStatus, Kind: agent.FactText, Text: []byte(ev.Status)})
	}
	if len(r.tools) == 0 || len(r.early) >= maxOpen {
		r.notice(inv, &note, at)
		return
	}
	early := earlyEnd{status: r.stream.names.pass(ev.Status), failed: ev.Failed, notice: r.newNotice(&note, at)}
	r.stream.facts(nil, ev.Facts, &early.said)
	r.early[string(ev.ID)] = early
}

// endTask handles the end of work that the run left running.
func (r *run) endTask(ev *agent.Event, at instant) {
	at = r.ownTime(ev, at)
	t := r.tasks[string(ev.ID)]
	if ev.Length > 0 || !ev.Wakes && ev.ExitCode.Known { // an await knows how long the work took, and how it ended
		if ev.Length > 0 {
			at = min(quantize(t.start+ev.Length), at)
		}
		t.over, t.estimated = max(at, t.from+quantum), false
		t.exit, t.status, t.failed = ev.ExitCode, ev.Status, ev.Failed
		return // the notification may say more
	}
	delete(r.tasks, string(ev.ID))
	if t.over != 0 {
		at = t.over
	} else {
		t.estimated = ev.Estimated || r.guessed
	}
	if !t.failed || ev.Failed {
		t.status, t.failed = r.stream.names.pass(ev.Status), ev.Failed
	}
	var said content.Attributes
	r.stream.facts(nil, ev.Facts, &said)
	if t.start < at && at <= t.from { // the work was over before its call ended, so it began with the call
		t.from = t.start
	}
	r.endBackground(t, r.clock.after(t.from, at), said)
}

// endBackground finishes the span of what a call left running. said is what the
// notification of its end said.
func (r *run) endBackground(t *tool, at instant, said content.Attributes) {
	errorType := ""
	if t.failed {
		errorType = cmp.Or(t.status, errOther)
	}
	at = r.endNested(t, at, errorType)
	s := r.newSpan(t.backgroundRef(), t.inv.ref, t.inv, t.name)
	s.start, s.end = t.from, at
	s.link, s.estimated = t.ref(), t.estimated
	s.attributes.strIfSet(semconv.TaskID, r.stream.names.id(t.task))
	s.attributes.str(semconv.TaskStatus, t.status)
	if t.exit.Known {
		s.attributes.int(semconv.ProcessExitCode, t.exit.Code)
	}
	s.errorType = errorType
	if errorType != "" && t.exit.Known {
		s.status = exitStatus(t.exit.Code)
	}
	s.content = said
	r.emit(held{span: s})
}

// timeOutShells records that the agent has stopped waiting for its shells in the
// background: they ended by now, if not before.
func (r *run) timeOutShells(at instant) {
	for _, t := range r.tasks {
		if t.name == "shell" && t.over == 0 {
			t.over, t.estimated = max(at, t.from+quantum), true
		}
	}
}

// stopTask ends background work whose end no line will report.
func (r *run) stopTask(t *tool, at instant) {
	delete(r.tasks, t.taskKey())
	if t.over == 0 {
		t.estimated = true
		if !r.ended {
			r.doubts.Running++
		}
	}
	r.endBackground(t, cmp.Or(t.over, r.clock.after(t.from, at)), content.Attributes{})
}

// endTasks ends what was still running in the background when the stream ended. It
// is only known to have outlived the stream.
func (r *run) endTasks(at instant) {
	for _, t := range sortedTools(r.tasks) {
		r.stopTask(t, at)
	}
}
