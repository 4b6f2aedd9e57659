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
func (r *run) toolStart(inv *invocation, ev *agent.Event, at, start moment) *tool {
	id := string(ev.ID)
	if t := r.tools[id]; t != nil { // the id is reused: the older call will never end
		r.endTool(t, r.clock.after(t.start, at), errIncomplete, "")
		at = at.notBefore(r.clock.reached)
		inv.steps.floor = at.at
	}
	if len(r.tools) == maxOpen {
		old := r.evictOldest(r.tools)
		newest := old[len(old)-1].n
		r.endTools(at, errIncomplete, func(t *tool) bool { return t.n <= newest })
	}
	if inv.ended { // the sub-agent was the work of a call that has ended
		inv = r.invocation(ev, at)
	}
	r.beganBefore(inv, start)
	start = start.notBefore(r.start.at)
	r.counts.tools++
	inv.counts.tools++
	inv.steps.noteStart(at.at)
	t := &tool{id: id, n: r.counts.tools, inv: inv, start: start, floor: inv.steps.floor + quantum}
	t.merge(r, ev.Tool)

	if turn := inv.current(); turn != nil && turn.otherCall(ev.ModelCallID) { // the model call before had only text
		r.closeTurn(inv, turn.lastWord(start), "")
	}
	beside := ev.Kind == agent.ToolEnd && start.at < at.at && inv.ran(start.at) // a call of the turn that made it
	if inv.current() == nil && !beside && r.impliesModelCall(inv, ev.ModelCallID) {
		r.openTurn(inv, start, nil)
	}
	if turn := inv.current(); turn != nil {
		turn.response.merge(ev)
		if r.stream.capture.Full() {
			turn.callPart = []content.Value{t.callPart}
		}
		t.start = start.notBefore(r.endWithCall(inv, start).at)
	} else if calling := inv.callingTurn(); calling.isOf(ev.ModelCallID) {
		calling.response.merge(ev) // its usage may have grown
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
	return inv.busy.running == 0 && (inv.callingTurn() == nil || !r.agent.TurnEnds)
}

// ran reports whether a call ran at an instant: the model waited for it then.
func (inv *invocation) ran(at instant) bool {
	return inv.busy.running > 0 || slices.ContainsFunc(inv.busy.intervals, func(i interval) bool { return i.from <= at && at < i.to })
}

// merge records what a line states about a call's arguments.
func (t *tool) merge(r *run, call *agent.Tool) {
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
		r.starts(t)
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

// toolRuns handles that a call, which may have waited for others, runs: since the last of them
// ended.
func (r *run) toolRuns(ev *agent.Event) {
	if t := r.tools[string(ev.ID)]; t != nil {
		t.start = later(t.start, t.inv.busy.ended)
	}
}

// toolEnd handles the end of a call. last is how far the timeline had come before its line.
func (r *run) toolEnd(inv *invocation, ev *agent.Event, at moment, last instant) {
	t := r.tools[string(ev.ID)]
	end, sooner := r.endedAt(ev, at), ev.Known == agent.Inferred
	if t != nil && end.at < t.start.at && ev.Start == 0 {
		end = at
	}
	start := end
	if !r.clock.guesses(end) {
		start = end.minus(ev.Length)
	}
	missing := t == nil
	if ev.Start != 0 {
		if start = r.stated(ev.Start).notAfter(end.at); ev.Start == ev.Asked {
			start.known = agent.Stamped // by the line that asked for it
		}
	} else if missing && start.at < end.at && inv.busy.running == 0 && inv.ran(start.at) { // printed after the calls that it ran beside
		start, end = start.inferred(), end.inferred()
	}
	switch {
	case missing:
		t = r.toolStart(inv, ev, at, start)
	case ev.Start == 0 && ev.Length > 0 && (sooner || r.clock.guesses(end)): // its end was printed late, perhaps with others'
		end, sooner = earlier(t.start.plus(ev.Length), end), false
	case ev.Start != 0, ev.Length > 0:
		r.correctStart(t, start)
		if ev.Start != 0 || r.agent.EndsOnTime {
			t.start = later(t.start, start)
		}
		if calling := t.callingTurn(); calling != nil && ev.Asked != 0 {
			asked := moment{r.stated(ev.Asked).at, agent.Stamped}
			calling.end = earlier(calling.end, asked.notBefore(max(calling.start.at, calling.events.lastEvent)+quantum))
		}
	case r.clock.guesses(t.start) && r.clock.recording() && r.clock.stamped && !r.clock.coarse && last <= t.start.at && t.start.at < at.at:
		r.shareTime(t, at)
	}
	t.merge(r, ev.Tool)
	end = r.clock.after(t.start, end)
	switch off := end.at - t.start.at - ev.Length; {
	case ev.Length == 0:
	case off > maxDeviation: // nothing is printed before it begins, so the end was printed late, and perhaps the start
		end, t.start = end.inferred(), t.start.inferred()
		if calling := t.callingTurn(); calling != nil && calling.end.at == t.start.at {
			calling.end = calling.end.inferred()
		}
	case off < -maxDeviation:
		if t.start = t.start.inferred(); missing { // and no line says which of the two is wrong
			end = end.inferred()
		}
	}
	t.endsSooner = sooner
	r.outcome(t, ev, end, missing)
	if !r.clock.guesses(end) { // what goes on begins with the line of the end
		r.notAskedYet(inv, at)
	}
}

// shareTime splits the time between two stamps of a recording into halves. The model's
// message began at the first stamp, and a call ended at the second. No line says when
// the message ended and the call began.
func (r *run) shareTime(t *tool, end moment) {
	calling := t.callingTurn()
	if calling == nil || t.start.at != calling.end.at {
		return
	}
	since := t.start.at
	calling.end = calling.end.between(end)
	for _, other := range r.tools {
		if other.turn == calling && other.start.at == since {
			other.start = calling.end
		}
	}
}

// correctStart corrects the start of a call that was printed late, and the end of
// the turn that made the call.
func (r *run) correctStart(t *tool, start moment) {
	calling := t.callingTurn()
	if calling != nil && start.at < calling.end.at-maxDeviation && start.at < t.floor {
		calling.end = calling.end.inferred()
	}
	start = start.notBefore(t.floor)
	if start.at >= t.start.at {
		return
	}
	if calling == nil || calling.state == resumed {
		if t.turn != nil { // its turn has been sent
			start = start.notBefore(t.turn.end.at)
		}
		t.start = earlier(t.start, start)
		return
	}
	if r.beganWith(calling) { // the run began earlier than its first timestamp
		calling.start = earlier(calling.start, moment{start.at - quantum, agent.Inferred})
		r.start = earlier(r.start, calling.start)
	}
	t.start = earlier(t.start, start.notBefore(max(calling.start.at, calling.events.current().start.at)+quantum))
	calling.end = earlier(calling.end, t.start)
}

// toolCall handles a call that is reported only at its end.
func (r *run) toolCall(inv *invocation, ev *agent.Event, at moment) {
	start := at
	if ev.Start != 0 {
		start = r.stated(ev.Start).notAfter(at.at)
	}
	script := r.tools[string(ev.ToolCallID)]
	if script != nil {
		start = start.notBefore(script.start.at)
	}
	t := r.toolStart(inv, ev, at, start)
	if script != nil && script != t {
		t.script = script.ref()
		if script.calls++; script.calls == 1 {
			r.counts.scripts++
			inv.counts.tools--
		}
	}
	if calling := t.callingTurn(); calling != nil && ev.Start != 0 {
		calling.end = earlier(calling.end, t.start).notBefore(max(calling.start.at, calling.events.lastEvent) + quantum)
		t.start = t.start.notBefore(calling.end.at)
	}
	t.endsSooner = ev.Known == agent.Inferred
	r.outcome(t, ev, r.clock.after(t.start, r.endedAt(ev, at)), false)
}

// outcome ends a call with the outcome that its last line states.
func (r *run) outcome(t *tool, ev *agent.Event, at moment, missing bool) {
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
	var asked *invocation // that will work in the background
	switch nested := r.nested[t.id]; {
	case nested == nil:
	case call.Background && nested.counts.turns+nested.counts.tools == 0:
		asked = nested
		delete(r.nested, t.id)
	default:
		nested.errorType = r.stream.names.pass(call.SubagentError)
	}
	at = r.endTool(t, at, errorType, status)
	if response != nil && t.inv.current() == nil {
		t.inv.dialog.ask(content.Message("tool", []content.Value{
			content.ToolResponsePart(r.stream.names.idAgain(t.id), *response),
		}, ""))
	}
	if call.Background {
		r.leaveRunning(t, call, at, asked)
	}
}

// endTool finishes a call, and returns when it ended: not before its sub-agent.
func (r *run) endTool(t *tool, at moment, errorType, status string) moment {
	delete(r.tools, t.id)
	inv := t.inv
	if nested := r.nested[t.id]; nested != nil {
		delete(r.nested, t.id)
		at = later(at, r.endInvocation(nested, at, errorType))
	}
	parent := inv.ref
	if t.script != (spanRef{}) {
		parent = t.script
	}
	s := r.newSpan(t.ref(), parent, inv, t.name)
	s.program, s.start, s.end = cmp.Or(t.executable, t.skill), t.start, at
	if t.endsSooner {
		s.end = at.inferred()
	}
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
	s.content, s.link = t.asked, t.awaited
	if errorType != "" {
		if t.calls == 0 {
			r.counts.toolErrors++
			inv.counts.toolErrors++
		}
		s.errorType, s.status = errorType, status
	}
	r.emit(s)
	t.from = at
	inv.steps.add(at.at)
	inv.busy.running--
	inv.busy.add(t.start, at)
	if inv.busy.running == 0 && inv.current() == nil {
		inv.wait, inv.state = later(at, inv.wait), working
	}
	return at
}

// endTools ends those calls in flight that the filter selects, the calls of sub-agents
// first. It returns when the last one ended.
func (r *run) endTools(at moment, errorType string, filter func(*tool) bool) moment {
	for _, t := range slices.Backward(sortedTools(r.tools)) {
		if filter(t) && r.tools[t.id] == t { // it has not ended with another one
			at = r.endTool(t, r.clock.after(t.start, at), errorType, "")
		}
	}
	return at
}

// invocation returns the invocation that an event belongs to: a sub-agent's if a
// tool call started one.
func (r *run) invocation(ev *agent.Event, at moment) *invocation {
	if len(ev.Parent) == 0 {
		return r.main
	}
	if inv := r.nested[subagentKey(ev)]; inv != nil {
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
	if len(ev.Among) > 0 { // it did not begin with the call
		inv.start, inv.wait = at, at
	}
	r.nested[subagentKey(ev)] = inv
	r.order = append(r.order, inv)
	return inv
}

// subagentKey identifies a sub-agent in its run.
func subagentKey(ev *agent.Event) string {
	if len(ev.Among) == 0 {
		return string(ev.Parent)
	}
	return string(ev.Parent) + "\x00" + string(ev.Among)
}

// maxCallers is how many calls of sub-agents are remembered.
const maxCallers = 1_000

// starts records that a call has started a sub-agent, which may work on when the run has ended: its
// arguments say so, or the sub-agent's lines.
func (r *run) starts(t *tool) {
	if len(r.stream.callers) == maxCallers {
		clear(r.stream.callers)
	}
	r.stream.callers[callKey(r.session, t.id)] = &caller{ids: &r.ids, call: t.ref()}
}

// endNested ends what a background call left open. It returns when the call ended,
// which is not before its work ended.
func (r *run) endNested(task *tool, at moment, errorType string) moment {
	at = r.endTools(at, errIncomplete, func(t *tool) bool { return t.inv.task == task })
	for i, inv := range slices.Backward(r.order) {
		if inv.task != task {
			continue
		}
		at = r.endInvocation(inv, at.notBefore(r.clock.reached), errorType)
		r.order = slices.Delete(r.order, i, i+1)
		maps.DeleteFunc(r.nested, func(_ string, nested *invocation) bool { return nested == inv })
	}
	return at
}

// endInvocation finishes a sub-agent's span, and returns when it ended: not
// before its last turn.
func (r *run) endInvocation(inv *invocation, at moment, errorType string) moment {
	if inv.ended {
		return at
	}
	inv.ended = true
	at = r.endTools(at, errIncomplete, func(t *tool) bool { return t.inv == inv })
	r.endTurn(inv, at, errorType)
	if inv.turn != nil {
		at = later(at, inv.turn.end)
	}
	s := r.newSpan(inv.ref, inv.tool, inv, inv.name)
	s.start, s.end = inv.start, at.notBefore(max(r.clock.reached, inv.start.at+quantum))
	a := &s.attributes
	a.strIfSet(semconv.RequestModel, inv.model)
	a.int(semconv.Turns, int64(inv.counts.turns))
	a.int(semconv.Tools, int64(inv.counts.tools))
	a.int(semconv.ToolErrors, int64(inv.counts.toolErrors))
	a.int(semconv.Deltas, int64(inv.counts.deltas))
	s.addNotices(inv.notices)
	s.addFirstChunk(r, inv.firstChunk)
	inv.addTimes(a)
	s.errorType, s.content = cmp.Or(errorType, inv.errorType), inv.dialog.attributes(r.stream.capture)
	r.emit(s)
	return s.end
}

// leaveRunning records that a call has ended but has left something running, perhaps a
// sub-agent that was asked already.
func (r *run) leaveRunning(t *tool, call *agent.Tool, at moment, asked *invocation) {
	t.task = string(call.Task)
	r.counts.tasks++
	t.background, t.status = r.counts.tasks, "running"
	if asked != nil {
		r.nested[t.id] = asked
		asked.tool, asked.start, asked.wait, asked.task = t.backgroundRef(), t.from, t.from, t
	}
	if old := r.tasks[t.task]; old != nil && t.task != "" { // the id is reused: the older task will never be reported again
		r.stopTask(old, at)
	}
	if early, ok := r.early[t.task]; ok { // its end was printed before the call's
		delete(r.early, t.task)
		t.status, t.failed = early.status, early.failed
		r.endBackground(t, r.clock.after(at, at.inferred()), early.said)
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
func (r *run) taskEnd(inv *invocation, ev *agent.Event, at moment) {
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
	early := earlyEnd{status: r.stream.names.pass(ev.Status), failed: ev.Failed, notice: r.newNotice(&note, at.at)}
	r.stream.facts(nil, ev.Facts, &early.said)
	r.early[string(ev.ID)] = early
}

// endTask handles the end of work that the run left running.
func (r *run) endTask(ev *agent.Event, at moment) {
	at = r.endedAt(ev, at)
	t := r.tasks[string(ev.ID)]
	if ev.Length > 0 || !ev.Wakes && ev.ExitCode.Known { // an await knows how long the work took, and how it ended
		if ev.Length > 0 {
			at = earlier(t.start.plus(ev.Length), at)
		}
		t.over = at.notBefore(t.from.at + quantum)
		t.exit, t.status, t.failed = ev.ExitCode, ev.Status, ev.Failed
		return // the notification may say more
	}
	delete(r.tasks, string(ev.ID))
	if at = at.atBest(ev.Known); !t.over.isZero() {
		at = t.over
	}
	if !t.failed || ev.Failed {
		t.status, t.failed = r.stream.names.pass(ev.Status), ev.Failed
	}
	if ev.ExitCode.Known {
		t.exit = ev.ExitCode
	}
	var said content.Attributes
	r.stream.facts(nil, ev.Facts, &said)
	if t.start.at < at.at && at.at <= t.from.at { // the work was over before its call ended, so it began with the call
		t.from = t.start
	}
	r.endBackground(t, r.clock.after(t.from, at), said)
}

// endBackground finishes the span of what a call left running. said is what the
// notification of its end said.
func (r *run) endBackground(t *tool, at moment, said content.Attributes) {
	errorType := ""
	if t.failed {
		errorType = cmp.Or(t.status, errOther)
	}
	at = r.endNested(t, at, errorType)
	s := r.newSpan(t.backgroundRef(), t.inv.ref, t.inv, t.name)
	s.start, s.end = t.from, at
	s.link = t.ref()
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
	r.emit(s)
}

// timeOutShells records that the agent has stopped waiting for its shells in the
// background: they ended by now, if not before.
func (r *run) timeOutShells(at moment) {
	for _, t := range r.tasks {
		if t.name == "shell" && t.over.isZero() {
			t.over = at.notBefore(t.from.at + quantum).inferred()
		}
	}
}

// stopTask ends background work whose end no line will report.
func (r *run) stopTask(t *tool, at moment) {
	delete(r.tasks, t.taskKey())
	if t.over.isZero() && !r.ended {
		r.doubts.Running++
	}
	r.endBackground(t, cmp.Or(t.over, r.clock.after(t.from, at.inferred())), content.Attributes{})
}

// endTasks ends what was still running in the background when the stream ended. It
// is only known to have outlived the stream.
func (r *run) endTasks(at moment) {
	for _, t := range sortedTools(r.tasks) {
		r.stopTask(t, at)
	}
}
