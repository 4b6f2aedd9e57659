package agent

import (
	"bytes"
	"cmp"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// copilot is GitHub's Copilot CLI, run with --output-format json. Between
// assistant.turn_start and assistant.turn_end are one or more model calls, each with a
// message of its own; with some providers, these two lines never come. Lines of
// sub-agents are interleaved with the agent's and have an agentId. The session id may
// come only with the last line.
//
// The session log has the same lines, but for those that are ephemeral. A run is a prompt and
// what follows it up to the last end of a turn before the next prompt. The stream's last run
// has a result as well.
var copilot = Agent{
	Flag:     "copilot",
	Name:     "copilot-cli",
	Commands: []string{"copilot"},
	Packages: []string{"@github/copilot"},
	Provider: "github",
	TurnEnds: true, EndsOnTime: true,
	Folders: Folders{Default: ".copilot", Names: []string{"session-state"}, LogOf: "%s/events.jsonl"},
	objects: func() objectDecoder { return newCopilotDecoder() },
	Proof: shapes(
		"type=assistant.message|assistant.message_delta data.messageId id timestamp parentId",
		"type=assistant.turn_start|assistant.turn_end data.turnId id timestamp parentId",
		"type=tool.execution_start|tool.execution_complete data.toolCallId id timestamp parentId",
		"type=session.start data.sessionId id timestamp parentId",
		"type=session.error data.errorType id timestamp parentId",
		"type=session.shutdown data.shutdownType id timestamp parentId",
		"type=result sessionId exitCode usage.premiumRequests",
	),
	Lines: shapes("type=*.*|abort data id timestamp parentId", "type=result sessionId exitCode usage"),
	ends: endings{
		"result":             {"exitCode": only("0"), "error": failedWith},
		"session.shutdown":   {"data.shutdownType": oneOf("routine"), "data.errorReason": failedWith, "data.error": failedWith},
		"assistant.turn_end": {"type": succeeded, "data.error": failedWith}, // of the session log
		"assistant.message":  {"type": succeeded, "data.error": failedWith}, // with providers without turns
	},
	Kin: func(path string, _ iter.Seq[*Marks]) (kin []string, all bool) {
		if filepath.Base(path) != "events.jsonl" { // the session log has the stream's lines
			return nil, true
		}
		return []string{"copilot " + path}, true
	},
}

// A copilotDecoder reads one stream.
type copilotDecoder struct {
	lineOf[copilotLine, *copilotLine]
	copilotSession
	begun     bool
	process   bool                    // the lines are those of a process of ours: no session log has them
	over      bool                    // the run is over: only another run may follow
	calls     map[string]*copilotCall // the current model calls, by agent
	parents   map[string][]byte       // the tool calls that started sub-agents, by agent
	delegated [][]byte                // tool calls whose sub-agent has not been seen
	agents    map[string]copilotAgent // how sub-agents ended, by the calls that started them
	names     map[string]string       // of the tools that messages ask for, by call
	running   map[string]bool         // tool calls that have started
	fault     string                  // the last error's type
	open      map[string]bool         // tool calls that have not ended
	turns     bool                    // a line began a turn
	broke     bool                    // an error or the user broke off the run, and nothing came since
	early     held                    // the end of a tool call or of a turn: see holdEnd
	answer    held                    // the end of the run if a prompt or nothing follows
	final     bool                    // nothing of the run has to follow
	end       held                    // of the run, by session.shutdown: a result may follow
}

func newCopilotDecoder() *copilotDecoder {
	d := new(copilotDecoder)
	d.newSession()
	d.over = false
	return d
}

func (d *copilotDecoder) started(Instant, bool) { d.process = true }

// complete implements [completer]. Newest builds state tokens only in the log.
func (d *copilotDecoder) complete(end *Event, session string, since Instant, log func(session string) []byte) {
	if end.Kind != RunEnd || end.Usage != nil {
		return
	}
	decoder := Decoder{Agent: new(Agent), objectDecoder: newCopilotDecoder()}
	var used Usage
	for row := range bytes.Lines(log(session)) {
		for _, ev := range decoder.Decode(Line{Text: row}, nil) {
			switch {
			case ev.Kind == RunStart:
				end.Facts.merge(ev.Facts.kept())
			case ev.Kind == TextEnd && ev.Usage != nil && !ev.Usage.OutputOnly && ev.Time >= since:
				used.Add(ev.Usage)
			}
		}
	}
	if used.Known {
		end.Usage = &used
		end.Facts.bool(semconv.SessionLog)
	}
}

// A copilotSession is what outlives a run.
type copilotSession struct {
	session []byte
	model   []byte // selected at its start
	facts   Facts  // of its runs
	runs    int    // since the totals were last stated
	log     bool   // its lines are a session log's
	resumed bool   // its totals are not those of these runs
	total   Usage  // as last stated
	own     Usage  // of the model calls since then
}

// A copilotAgent is how a sub-agent ended.
type copilotAgent struct {
	fault  string // "incomplete" if it has not, "" if it ended well
	tokens int64  // that it used
}

// end records in the end of its call how the sub-agent ended.
func (a copilotAgent) end(call *Tool) {
	if call.SubagentError = a.fault; a.tokens > 0 {
		call.OutcomeFacts.int(semconv.SubagentTokens, a.tokens)
	}
}

// A copilotCall is the state of a model call.
type copilotCall struct {
	turn         string // the id of the turn that it is part of
	begun        bool   // a TurnStart was emitted
	id           string // the API's id of the call
	message      []byte // the id of its whole message, nil before that came
	known        bool   // tokens were stated
	counted      bool   // by assistant.usage: a message states only its output
	tools        bool   // it asks for tools
	called       bool   // a tool that it asked for has started
	output       int64  // tokens, as stated so far
	ended        bool   // by assistant.turn_end
	textDeltas   bool   // since the last whole text
	thoughts     bool   // it has printed thinking
	thoughtDelta bool   // since the last whole block of thinking
	fault        string // the type of an error after which nothing came
	faultText    []byte
	retries      bool  // that error was a failed attempt, which may be repeated
	again        bool  // it is repeated
	failed       Facts // of that error
	failedAt     Instant
}

// newRun resets the state for another run of the session.
func (d *copilotDecoder) newRun() {
	*d = copilotDecoder{
		lineOf: d.lineOf, copilotSession: d.copilotSession, process: d.process,
		over: true, calls: map[string]*copilotCall{}, parents: map[string][]byte{},
		agents: map[string]copilotAgent{}, names: map[string]string{}, running: map[string]bool{}, open: map[string]bool{},
	}
}

// newSession resets the state for a new session.
func (d *copilotDecoder) newSession() {
	d.copilotSession = copilotSession{}
	d.newRun()
}

func (d *copilotDecoder) Flush(_ int, dst []Event) []Event {
	dst = d.early.take(dst)
	d.breakOff()
	if d.end == nil && !d.final {
		return dst
	}
	return d.endRun(dst)
}

// breakOff forgets the end of a stream's run that no result ended.
func (d *copilotDecoder) breakOff() {
	if !d.log && d.answer != nil && !d.answer[0].Failed {
		d.answer = nil
	}
}

// endRun appends the end of a run that has ended, by session.shutdown or as far as its own
// lines say.
func (d *copilotDecoder) endRun(dst []Event) []Event {
	if d.end == nil && d.answer == nil {
		return dst
	}
	dst = d.answer.take(d.end.take(dst))
	d.newRun()
	return dst
}

// endsHere records that the run is over if a prompt follows, or nothing.
func (d *copilotDecoder) endsHere() {
	l := &d.line
	if len(l.agent) > 0 || len(d.open) > 0 && !d.broke {
		return
	}
	end := Event{Kind: RunEnd, Session: d.session, Time: l.Time, Arrival: l.Arrival}
	if d.broke {
		end.Failed, end.Status, end.Text = true, d.fault, l.fault
	}
	l.settle(&end)
	d.answer, d.final = hold(end), d.broke || !d.call().tools
}

// goesOn records that the run is not over.
func (d *copilotDecoder) goesOn() { d.answer, d.final, d.broke = nil, false, false }

func (d *copilotDecoder) events(dst []Event) []Event {
	l := &d.line
	if l.name = string(l.typ); l.name == "session.usage_record" { // of the log
		l.name = "assistant.usage"
	}
	d.log = d.log && !l.ephemeral
	if l.name == "result" && len(l.session) == 0 && !l.ExitCode.Known { // another agent's
		return append(dst, Event{Kind: Unknown})
	}
	early, from := d.early, len(dst)
	d.early = nil
	dst = d.lineEvents(dst)
	switch {
	case len(early) > 0 && l.precedes(&early[0]):
		if early[0].Kind == ToolEnd {
			d.agents[string(l.ID)].end(early[0].Tool)
		}
		dst = append(dst, early...)
	case l.Kind == Unknown, l.Kind == Notice && l.Notice == "":
		d.early = early
	default:
		dst = slices.Insert(dst, from, early...)
	}
	return dst
}

// precedes reports whether a line belongs before an end that came before it: lines may be a
// few milliseconds out of order.
func (l *copilotLine) precedes(end *Event) bool {
	switch l.name {
	case "tool.execution_start", "subagent.completed", "subagent.failed":
		return end.Kind == ToolEnd && bytes.Equal(end.ID, l.ID)
	case "assistant.usage":
		return end.Kind == TurnEnd
	}
	return false
}

// holdEnd holds the current event back until the next line that says more than its time.
func (d *copilotDecoder) holdEnd(dst []Event) []Event {
	d.line.Session = d.session
	d.early = hold(d.line.Event)
	return dst
}

// lineEvents appends the events of the current line, and of the session that begins
// or ends with it.
func (d *copilotDecoder) lineEvents(dst []Event) []Event {
	l := &d.line
	switch {
	case d.end != nil && l.begins(true), l.name == "session.resume",
		l.name == "user.message" && len(l.agent) == 0 && d.answer != nil:
		dst = d.endRun(dst)
	}
	switch {
	case l.name == "session.start" && len(d.session) > 0 && !bytes.Equal(l.session, d.session):
		d.breakOff()
		dst = d.endRun(dst)
		d.newSession()
	case l.name == "session.resume" && d.begun: // it was killed
		d.newRun()
	}
	from := len(dst)
	switch {
	case (l.name == "session.start" || l.name == "session.resume") && !d.begun: // it waits for a prompt
		d.over, d.log, d.resumed = true, !d.process, d.resumed || l.name == "session.resume"
		if len(l.session) > 0 {
			d.session = bytes.Clone(l.session)
		}
		kept := l.Kept()
		d.facts.merge(kept.Facts)
		if len(l.selected) > 0 {
			d.model = bytes.Clone(l.selected)
		}
		l.Kind = Ignored
		return append(dst, Event{Kind: Ignored})
	case !d.begun && l.begins(d.over):
		d.begun = true
		d.runs++
		dst = append(dst, Event{Kind: RunStart, Time: l.Time, ID: l.id, Model: d.model, Facts: d.facts})
	}
	if !d.begun && l.name != "result" {
		l.Kind = Ignored // a cleanup line of a run that is over
		if !strings.Contains(l.name, ".") {
			l.Kind = Unknown
		}
		return append(dst, l.Event)
	}
	switch {
	case len(l.agent) > 0:
		l.Parent = d.parent()
	case l.name == "subagent.started":
		l.Parent = l.ID
	}
	idle := d.final
	dst = d.classify(dst)
	if idle && d.final && !l.ofRun() { // the run does not last until then
		for i := from; i < len(dst); i++ {
			if dst[i].Kind != TaskEnd {
				dst[i].Time = 0
			}
		}
	}
	for i := from; i < len(dst); i++ {
		if dst[i].Kind != SessionNamed {
			dst[i].Session = d.session
		}
	}
	if l.name == "result" {
		d.newSession()
	}
	return dst
}

// parent returns the tool call that started the sub-agent of the current line.
func (d *copilotDecoder) parent() []byte {
	l := &d.line
	if p := d.parents[string(l.agent)]; p != nil {
		return p
	}
	var p []byte
	switch {
	case strings.HasPrefix(l.name, "subagent.") && len(l.ID) > 0:
		p = bytes.Clone(l.ID)
	case len(l.parentCall) > 0:
		p = bytes.Clone(l.parentCall)
	case len(d.delegated) > 0: // the oldest call whose sub-agent has printed nothing yet
		p, d.delegated = d.delegated[0], d.delegated[1:]
	default:
		p = bytes.Clone(l.agent)
	}
	remember(d.parents, l.agent, p)
	return p
}

// call returns the current model call of the current line's agent.
func (d *copilotDecoder) call() *copilotCall { return recall(d.calls, d.line.agent) }

// output returns the model call that the current line is part of, and appends the
// beginning of a new one: the one before is over once its message and its usage have
// come.
func (d *copilotDecoder) output(dst []Event) ([]Event, *copilotCall) {
	l, c := &d.line, d.call()
	isUsage := l.name == "assistant.usage"
	over := c.ended || c.message != nil && c.known && !bytes.Equal(c.message, l.messageID)
	switch id := string(l.ModelCallID); {
	case isUsage: // a turn's last call may get it after the turn has ended
		over = c.counted || c.ended && c.message == nil
	case c.counted && c.called: // a message after the call's tools is another call's
		over = true
	case id != "" && c.id != "":
		over = c.ended || id != c.id
	}
	if !c.begun || over {
		*c = copilotCall{turn: c.turn, begun: true}
		dst = append(dst, Event{Kind: TurnStart, Time: l.Time, Parent: l.Parent})
	}
	if len(l.ModelCallID) > 0 {
		c.id = string(l.ModelCallID)
	}
	if !isUsage {
		c.fault = ""
		d.goesOn()
	}
	return dst, c
}

func (d *copilotDecoder) classify(dst []Event) []Event {
	l := &d.line
	l.Kind = Ignored
	switch l.name {
	case "session.start":
	case "user.message":
		l.Kind = Prompt
	case "assistant.turn_start":
		d.turns = true
		d.goesOn()
		*d.call() = copilotCall{turn: l.turn, begun: true}
		l.Kind = TurnStart
	case "assistant.message_delta":
		dst, c := d.output(dst)
		c.textDeltas = true
		l.Kind = TextDelta
		return append(dst, l.Event)
	case "assistant.reasoning_delta":
		dst, c := d.output(dst)
		c.thoughts, c.thoughtDelta = true, true
		l.Kind = ThinkingDelta
		return append(dst, l.Event)
	case "assistant.reasoning":
		dst, c := d.output(dst)
		return d.reasoning(dst, c, l.Text)
	case "assistant.message":
		return d.message(dst)
	case "assistant.usage":
		dst, c := d.output(dst)
		d.count(c)
		c.known, c.counted = true, true
		l.Kind = TextEnd
		return append(dst, l.Event)
	case "assistant.turn_end":
		c := d.call()
		if l.turn != "" && c.turn != "" && l.turn != c.turn { // the end of the turn before
			l.Kind = Notice
			break
		}
		c.ended = true
		l.Kind, l.Final = TurnEnd, !c.tools
		if l.Failed, l.Status = c.fault != "", c.fault; l.Failed {
			l.Text, l.Facts = c.faultText, c.failed
		}
		d.endsHere()
		return d.holdEnd(dst)
	case "tool.execution_start":
		d.call().called = true
		d.goesOn()
		remember(d.running, l.ID, true)
		remember(d.open, l.ID, true)
		d.nameTool()
		l.Kind = ToolStart
		l.tool().finish()
	case "tool.execution_complete":
		d.nameTool()
		l.Kind = ToolEnd
		l.finishTool()
		delete(d.open, string(l.ID))
		d.agents[string(l.ID)].end(l.Tool)
		if len(l.ID) > 0 && !d.running[string(l.ID)] || l.Tool.SubagentError == semconv.ErrorIncomplete {
			return d.holdEnd(dst)
		}
	case "subagent.started":
		if len(l.agent) == 0 && len(d.delegated) < maxSessions {
			d.delegated = append(d.delegated, bytes.Clone(l.ID))
		}
		l.Kind = Notice // of which the sub-agent's span begins
		remember(d.agents, l.ID, copilotAgent{fault: semconv.ErrorIncomplete})
	case "subagent.completed": // its call may have ended
		l.Kind, l.Parent = Notice, nil
		remember(d.agents, l.ID, copilotAgent{tokens: l.tokens})
	case "subagent.failed":
		l.Kind, l.Parent = Notice, nil
		remember(d.agents, l.ID, copilotAgent{cmp.Or(l.code, "error"), l.tokens})
	case "model.call_start":
		return d.asks(dst)
	case "model.call_failure":
		c := d.call()
		c.faultText = bytes.Clone(l.fault)
		c.fault, c.retries, c.failed = cmp.Or(l.code, "error"), true, l.Facts.kept()
		c.failedAt, l.Kind = l.Time, Notice
	case "assistant.turn_retry":
		d.call().again = true
		if dst = d.retry(dst); l.Kind != Notice {
			l.Kind, l.Notice = Notice, semconv.EventRetry
		}
	case "session.error":
		d.fail(cmp.Or(l.code, "error"))
		l.Text = l.fault
	case "abort":
		d.fail("aborted")
	case "session.warning":
		l.warn(l.fault)
	case "hook.start":
		l.Kind, l.ID = HookStart, l.hookID
	case "hook.end":
		l.Kind, l.ID = HookEnd, l.hookID
		if l.Failed = !l.success; l.Failed {
			l.Status = "error"
		}
	case "assistant.tool_call_delta":
		dst, _ := d.output(dst)
		l.Kind = OtherOutput
		return append(dst, l.Event)
	case "session.compaction_complete":
		l.Kind, l.Notice = Notice, semconv.EventCompaction
	case "system.notification":
		if l.Kind, l.Parent = Notice, nil; l.notice == "shell_completed" {
			l.Wakes = true
			l.endTask()
		}
	case "session.idle":
		l.Kind, d.final = Notice, d.answer != nil
	case "session.shutdown":
		d.shutdown()
	case "result":
		return d.result(dst)
	default:
		d.question()
		if l.Kind == Notice {
			l.Parent = nil // the call may have ended
			if !copilotNotes[l.name] {
				dst = append(dst, Event{Kind: Unknown})
			}
		}
	}
	return append(dst, l.Event)
}

// copilotNotes are the types of lines of which only the time counts.
var copilotNotes = set("session.mcp_servers_loaded", "session.mcp_server_status_changed", "session.mcp_server_removed",
	"session.mcp_server_needs_reconnect", "session.skills_loaded", "session.tools_updated", "session.custom_agents_updated",
	"session.extensions_loaded", "session.auto_mode_resolved", "session.managed_settings_resolved",
	"session.managed_settings_enforced", "session.model_change", "session.mode_changed", "session.context_changed",
	"session.context_cleared", "session.title_changed", "session.permissions_changed", "session.plan_changed",
	"session.todos_changed", "session.background_tasks_changed", "session.remote_steerable_changed",
	"session.workspace_file_changed", "session.autopilot_objective_changed", "session.schedule_created",
	"session.schedule_cancelled", "session.info", "session.usage_info", "session.usage_checkpoint", "session.compaction_start",
	"session.truncation", "session.snapshot_rewind", "session.handoff", "session.task_complete", "session.completion_receipt",
	"session.binary_asset", "session.custom_notification", "session.canvas.opened", "session.canvas.closed",
	"session.canvas.recorded", "session.canvas.removed", "session.canvas.unavailable", "session.canvas.registry_changed",
	"session.extensions.attachments_pushed", "session.fusion_route_started", "session.fusion_route_failed",
	"session.fusion_resolved", "session.fusion_completed", "assistant.intent", "assistant.idle", "agent.interrupted", "assistant.message_start",
	"assistant.streaming_delta", "assistant.server_tool_progress",
	"assistant.fusion_phase_started", "assistant.fusion_phase_activity", "assistant.fusion_phase_completed",
	"assistant.fusion_phase_failed", "model.call_end", "model.call_finished", "model.call_final_result", "tool.shell_output",
	"tool.user_requested", "tool.execution_partial_result", "tool.execution_progress", "tool_search.activated",
	"skill.invoked", "skill.invoked_ref", "skill.context_delivered_ref", "subagent.configured", "subagent.selected",
	"subagent.deselected", "hook.progress", "system.message",
	"pending_messages.modified", "mcp.tools.list_changed", "mcp.resources.list_changed",
	"mcp.prompts.list_changed", "mcp.oauth_required", "mcp.oauth_completed", "mcp.headers_refresh_required",
	"mcp.headers_refresh_completed", "mcp_app.tool_call_complete", "command.queued", "command.execute", "command.completed",
	"commands.changed", "capabilities.changed", "ui.ephemeral_query", "factory.run_started", "factory.run_updated",
	"factory.run_settled")

// asks handles the beginning of a model call.
func (d *copilotDecoder) asks(dst []Event) []Event {
	l := &d.line
	c := d.call()
	if dst = d.retry(dst); l.Kind == Notice {
		return append(dst, l.Event)
	}
	if c.again { // the same call, whatever the attempt before it has said
		c.again, l.Kind = false, Notice
		return append(dst, l.Event)
	}
	if c.begun && (c.message != nil || c.ended) {
		*c = copilotCall{turn: c.turn, begun: true}
	}
	c.begun, l.Kind, l.Asks = true, TurnStart, true
	return append(dst, l.Event)
}

// retry makes the current line the retry of a failed attempt, if there was one. An attempt that has
// said something is a call of its own.
func (d *copilotDecoder) retry(dst []Event) []Event {
	l, c := &d.line, d.call()
	if !c.retries {
		return dst
	}
	reason := l.Facts
	l.Kind, l.Notice, l.Facts = Notice, semconv.EventRetry, slices.Clone(c.failed)
	l.Facts.merge(reason)
	if c.textDeltas || c.thoughts {
		end := Event{Kind: TurnEnd, Time: c.failedAt, Parent: l.Parent, Failed: true, Status: c.fault, Text: c.faultText, Facts: c.failed}
		dst = append(dst, end, Event{Kind: TurnStart, Time: c.failedAt, Parent: l.Parent})
		*c = copilotCall{turn: c.turn, begun: true, again: c.again}
	}
	c.fault, c.retries, c.failed = "", false, nil
	return dst
}

// fail handles an error, which breaks off a model call that is not over.
func (d *copilotDecoder) fail(fault string) {
	l := &d.line
	d.fault = fault
	c := d.call()
	c.retries = false
	if c.message == nil && !c.called {
		c.fault, c.faultText, c.failed = fault, bytes.Clone(l.fault), l.Facts.kept()
	}
	l.Kind, l.Status = RunError, fault
	if len(l.agent) == 0 && (c.fault != "" || fault == "aborted") {
		d.broke = true
		d.endsHere()
	}
}

// question handles requests to the user, such as "permission.requested". For other
// lines only the time counts.
func (d *copilotDecoder) question() {
	l := &d.line
	kind, start := strings.CutSuffix(l.name, ".requested")
	switch {
	case len(l.requestID) > 0 && start:
		l.Kind, l.Query = ApprovalStart, cmp.Or(l.Query, kind)
		l.ToolCallID = l.ID
	case len(l.requestID) > 0 && strings.HasSuffix(l.name, ".completed"):
		l.Kind = ApprovalEnd
		l.Status = cmp.Or(l.Status, "completed")
		l.Failed = strings.HasPrefix(l.Status, "denied")
	case !strings.Contains(l.name, "."):
		l.Kind = Unknown
	default:
		l.Kind = Notice
	}
	l.ID = l.requestID
}

// nameTool names the tool of the current line as the message that asked for it did,
// if the line has no name.
func (d *copilotDecoder) nameTool() {
	if c := d.line.tool(); c.Name == "" {
		c.Name = d.names[string(d.line.ID)]
	}
}

// reasoning handles a whole block of thinking, which deltas may already have
// printed.
func (d *copilotDecoder) reasoning(dst []Event, c *copilotCall, text []byte) []Event {
	l := &d.line
	ev := Event{Kind: ThinkingMessage, Time: l.Time, Parent: l.Parent, Text: text}
	if c.thoughtDelta {
		ev.Kind = ThinkingEnd
	}
	c.thoughts, c.thoughtDelta = true, false
	return append(dst, ev)
}

// message handles a whole message, whose text deltas may already have printed.
func (d *copilotDecoder) message(dst []Event) []Event {
	l := &d.line
	dst, c := d.output(dst)
	if len(l.thinking) > 0 && (!c.thoughts || c.thoughtDelta) {
		dst = d.reasoning(dst, c, l.thinking)
	}
	l.Kind = TextMessage
	if c.textDeltas || len(l.Text) == 0 {
		l.Kind, l.Text = TextEnd, nil
	}
	c.textDeltas, c.thoughts = false, false
	c.message = append([]byte{}, l.messageID...)
	c.tools = c.tools || len(l.requests) > 0
	for _, r := range l.requests {
		remember(d.names, r.id, r.name)
	}
	if c.counted {
		l.Usage = nil
	} else if l.Usage != nil {
		d.count(c)
		c.known, l.Usage.OutputOnly = true, true
	}
	if !d.turns && !c.tools {
		d.endsHere()
	}
	return append(dst, l.Event)
}

// count adds the current line's output to that of the session's model calls.
func (d *copilotDecoder) count(c *copilotCall) {
	if u := d.line.Usage; u != nil {
		d.own.Output += u.Output - c.output
		c.output = u.Output
	}
}

// shutdown handles the end of a session, which has its totals. The SDK's stream ends with
// it; the CLI prints a result after it, and the session log may go on.
func (d *copilotDecoder) shutdown() {
	l := &d.line
	end := Event{Kind: RunEnd, Time: l.Time, Arrival: l.Arrival, Session: d.session}
	switch {
	case d.answer != nil:
		end = d.answer[0]
	case l.shutdown == "error":
		end.Failed, end.Status, end.Text = true, cmp.Or(d.fault, "error"), l.fault
	case d.turns || len(d.open) > 0:
		end.Failed, end.Status = true, semconv.ErrorIncomplete
	}
	if used := d.since(l.total); d.runs == 1 && !d.resumed { // all of it is this run's
		end.Facts, end.Usage = l.Facts, used
	} else {
		end.SessionUsage = used
	}
	l.settle(&end)
	d.end, d.answer = hold(end), nil
	l.Time = 0
}

// since returns what the session used since its totals were last stated. In a session that was
// resumed, older builds state what was used since then.
func (d *copilotDecoder) since(total *Usage) *Usage {
	if total == nil || !total.Known {
		return nil
	}
	rest := total.copied()
	rest.Sub(&d.total)
	resumed := min(rest.Input, rest.Output, rest.CacheRead, rest.CacheWrite) >= 0 &&
		max(rest.Output-d.own.Output, d.own.Output-rest.Output) <= max(total.Output-d.own.Output, d.own.Output-total.Output)
	if !resumed {
		rest = total
	}
	d.total, d.own = *total, Usage{}
	return rest
}

// result handles the last line, which has the session's id.
func (d *copilotDecoder) result(dst []Event) []Event {
	l := &d.line
	id := bytes.Clone(l.session)
	if len(id) > 0 && !bytes.Equal(id, d.session) {
		if d.begun {
			dst = append(dst, Event{Kind: SessionNamed, Session: d.session, ID: id})
		}
		d.session = id
	}
	l.Kind = RunEnd
	if d.end != nil {
		l.Usage, l.SessionUsage = d.end[0].Usage, d.end[0].SessionUsage
	}
	if l.ExitCode.Known && l.ExitCode.Code != 0 {
		l.Failed, l.Status = true, cmp.Or(d.fault, "failure")
	}
	l.settle(&l.Event)
	return append(dst, l.Event)
}

// A copilotLine is one line: an envelope with data, or the result, which has none.
// The meaning of a member of data does not depend on the line's type, which may
// come last.
type copilotLine struct {
	line
	name               string // the type
	turn               string // its id
	id, agent, session []byte
	parentCall         []byte
	selected           []byte // model
	thinking           []byte
	requestID, hookID  []byte
	messageID          []byte
	requests           []toolRequest
	shutdown           string // how the session ended
	notice             string // what a notification is about
	success, ephemeral bool
	total              *Usage
	tokens             int64 // that a sub-agent has used
}

// A toolRequest is a tool call that a message asks for.
type toolRequest struct {
	id   []byte
	name string
}

// ofRun reports whether a run whose last turn has ended may have a line.
func (l *copilotLine) ofRun() bool {
	return l.name == "assistant.turn_end" || l.name == "assistant.usage" || l.name == "result"
}

// begins reports whether a run begins with a line. After the end of a run, cleanup
// lines may follow, which begin none.
func (l *copilotLine) begins(over bool) bool {
	switch l.name {
	case "user.message", "assistant.turn_start", "assistant.message", "assistant.message_delta", "assistant.reasoning",
		"assistant.reasoning_delta", "tool.execution_start", "session.error":
		return true
	}
	return !over && strings.Contains(l.name, ".")
}

func (l *copilotLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "id":
		l.id = r.Str()
	case "agentId":
		l.agent = readID(r)
	case "ephemeral":
		l.ephemeral = r.Bool()
	case "sessionId":
		l.session = readID(r)
	case "exitCode":
		l.ExitCode.Code, l.ExitCode.Known = r.Int()
	case "usage":
		l.runUsage(r)
	case "data":
		for key := range r.Members() {
			l.data(r, key)
		}
	case "type", "timestamp":
		l.line.field(r, key)
	}
}

func (l *copilotLine) data(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "sessionId":
		l.session = readID(r)
	case "selectedModel":
		l.selected = jsonscan.Unquote(r.Str())
	case "context":
		readMember(r, "cwd", func() { l.line.field(r, []byte("cwd")) })
	case "content", "deltaContent":
		l.Text = r.Str()
	case "reasoningText":
		l.thinking = r.Str()
	case "toolRequests":
		for range r.Elements() {
			var t toolRequest
			for key := range r.Members() {
				switch string(key) {
				case "toolCallId":
					t.id = readID(r)
				case "name":
					t.name = word(jsonscan.Unquote(r.Str()))
				}
			}
			l.requests = append(l.requests, t)
		}
	case "inputTokens", "outputTokens", "reasoningTokens", "cacheReadTokens", "cacheWriteTokens":
		l.used().count(r, key)
	case "usage": // of a session.usage_record
		for key := range r.Members() {
			l.data(r, key)
		}
	case "duration":
		l.Length = millis(r)
	case "timeToFirstTokenMs":
		l.FirstToken = readMillis(r)
	case "copilotVersion":
		l.Facts.word(semconv.AgentVersion, wordOf(r))
	case "statusCode":
		l.Facts.read(r, resultFacts, key)
	case "retryAttempt": // the failed one, from 0
		if n, ok := r.Int(); ok {
			l.Facts.int(semconv.Attempt, n+1)
		}
	case "reason":
		l.Facts.read(r, lineFacts, key)
	case "shellExecution":
		readMember(r, "exitCode", func() { l.ExitCode.Code, l.ExitCode.Known = r.Int() })
	case "toolTelemetry":
		readMember(r, "metrics", func() {
			readMember(r, "exit_code", func() {
				if code, ok := r.Int(); ok && !l.ExitCode.Known {
					l.ExitCode = Exit{code, true}
				}
			})
		})
	case "kind": // of a notification
		for key := range r.Members() {
			switch string(key) {
			case "type":
				l.notice = string(enumOf(r))
			case "shellId":
				l.ID = readID(r)
			case "exitCode":
				l.ExitCode.Code, l.ExitCode.Known = r.Int()
			}
		}
	case "finishReason":
		l.FinishReason = finishReason(r.Str())
	case "apiCallId":
		l.ModelCallID = readID(r)
	case "messageId":
		l.messageID = readID(r)
	case "parentToolCallId":
		l.parentCall = readID(r)
	case "toolName":
		if name := r.Str(); l.tool().Name == "" {
			l.Tool.named(name)
		}
	case "mcpToolName":
		if name := r.Str(); len(name) > 0 {
			l.tool().named(name)
		}
	case "mcpServerName":
		if server := r.Str(); len(server) > 0 {
			l.tool().MCP = true
			l.Tool.ArgumentFacts.text(semconv.MCPServer, Detail, server)
		}
	case "success":
		l.success = r.Bool()
	case "result":
		l.result(r)
	case "errorReason", "errorMessage":
		l.fault = r.Str()
	case "shutdownType":
		l.shutdown = string(enumOf(r))
	case "totalPremiumRequests":
		l.premiumRequests(r)
	case "totalApiDurationMs":
		l.apiTime(r)
	case "totalTokens":
		l.tokens, _ = r.Int()
	case "errorType":
		l.code = string(enumOf(r))
	case "turnId":
		l.turn = string(readID(r))
	case "requestId":
		l.requestID = readID(r)
	case "hookInvocationId":
		l.hookID = readID(r)
	case "hookType":
		l.Query = string(enumOf(r))
	case "permissionRequest":
		l.permission(r)
	case "modelMetrics":
		l.metrics(r)
	case "toolCallId", "model", "arguments", "error", "message", "preCompactionTokens", "postCompactionTokens":
		l.line.field(r, key)
	}
}

// apiTime reads how long model calls took. It may be 0 although there were some.
func (l *copilotLine) apiTime(r *jsonscan.Reader) {
	if n, ok := r.Int(); ok && n > 0 {
		l.Facts.int(semconv.APIMillis, n)
	}
}

func (l *copilotLine) premiumRequests(r *jsonscan.Reader) {
	l.Facts.word(semconv.CopilotPremiumRequests, []byte(word(r.Raw())))
}

// result reads what a tool returned, {"content":..,"detailedContent":..}, or
// what became of a question, {"kind":"approved"}.
func (l *copilotLine) result(r *jsonscan.Reader) {
	again := *r
	for key := range again.Members() {
		switch string(key) {
		case "kind":
			l.Status = string(enumOf(&again))
		case "content":
			l.tool().textSize(again.Str())
		}
	}
	if l.Status == "" {
		l.tool().readResult(r)
	}
}

func (l *copilotLine) finishTool() {
	c := l.tool()
	switch code := l.code; {
	case l.success:
	case code == "denied" || code == "rejected" || strings.HasPrefix(code, "permission"):
		c.rejected()
	default:
		c.failed()
		c.ErrorType = cmp.Or(code, c.ErrorType)
	}
	if !l.success {
		c.ErrorText = l.fault
	}
	if l.ExitCode.Known {
		c.exited(l.ExitCode.Code)
	} else if l.success {
		text := resultText(c.Result)
		c.exitedAsMarked(text)
		if shell, ok := bytes.CutPrefix(text, []byte("<command started in background with shellId: ")); ok {
			c.Background, c.Task = true, bytes.TrimSuffix(shell, []byte(">"))
			c.OutcomeFacts.bool(semconv.ToolIsBackground)
		}
	}
	c.finish()
}

func (l *copilotLine) permission(r *jsonscan.Reader) {
	start := r.I
	for key := range r.Members() {
		switch string(key) {
		case "kind":
			l.Query = string(enumOf(r))
		case "toolCallId":
			l.ID = readID(r)
		default:
			l.Facts.argument(r, key)
		}
	}
	l.Facts.json(semconv.QueryArguments, r.B[start:r.I])
}

// metrics reads the session's counts by model,
// {"<model>":{"usage":{"inputTokens":..}}}.
func (l *copilotLine) metrics(r *jsonscan.Reader) {
	l.total = new(Usage)
	for range r.Members() {
		readMember(r, "usage", func() {
			var u Usage
			u.read(r)
			l.total.Add(&u)
		})
	}
}

// runUsage reads the usage in the result:
// {"premiumRequests":1,"sessionDurationMs":..}.
func (l *copilotLine) runUsage(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "premiumRequests":
			l.premiumRequests(r)
		case "sessionDurationMs":
			l.Length = millis(r)
		case "totalApiDurationMs":
			l.apiTime(r)
		}
	}
}
