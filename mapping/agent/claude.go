package agent

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// claude is Claude Code, run with -p --output-format stream-json. Its lines are known from
// recordings of versions 2.1.220 to 2.1.296.
var claude = Agent{
	Flag:     "claude",
	Name:     "claude-code",
	Commands: []string{"claude"},
	Packages: []string{"@anthropic-ai/claude-code"},
	Provider: "anthropic",
	objects:  func() objectDecoder { return newClaudeDecoder(claudeDialect{callIDs: true, resumable: true}) },
	last:     []string{"parent_tool_use_id", "session_id", "timestamp"}, // after the message
	Proof: shapes(
		"type=system subtype uuid session_id !qwen_code_version",
		"claude_code_version type=system",
		"type=assistant|user message.role uuid session_id",
		"type=assistant|user message.role parent_tool_use_id session_id",
		"type=stream_event event parent_tool_use_id|uuid",
		"type=tool_progress tool_use_id tool_name",
		"type=rate_limit_event rate_limit_info.status",
		"type=result subtype is_error total_cost_usd num_turns session_id",
	),
	ends:   claudeEnds,
	resume: []string{"--resume", "-r", "--continue", "-c", "--fork-session"},
	Lines: shapes(
		"uuid session_id", "parent_tool_use_id", "type=stream_event event",
		"type=control_request request_id request", "type=control_response response",
	),
	TurnEnds: true,
}

// claudeEnds are the ends of runs of all agents that print Claude Code's lines.
var claudeEnds = endings{
	"result": {
		"is_error": failedIf, "subtype": subtype, "error": failedWith, "errors": failedWith, "api_error_status": failedWith,
		"terminal_reason": reason,
	},
	"system/task_notification": {"status": only("completed"), "error": failedWith}, // of a sub-agent that worked on alone
}

// A claudeDialect describes how an agent that prints Claude Code's lines deviates
// from them.
type claudeDialect struct {
	// callIDs: all lines of a model call have its message id and repeat its usage,
	// whose output tokens are only a first estimate. Otherwise only the last line
	// of a call has usage, which is final.
	callIDs bool

	finalUsage     bool   // the last usage of a call is final, although callIDs
	resumable      bool   // see claudeSession
	inputHasCached bool   // the input tokens include the cached ones
	sessionUsage   bool   // after a resume, a result states what the session has used
	apiError       string // a text with this prefix is an error, not an answer
}

// A claudeDecoder decodes one stream, in which the lines of several sessions may
// alternate.
type claudeDecoder struct {
	line claudeLine
	claudeDialect
	seed maphash.Seed
	holdsNothing
	resumes  bool // the process was told to resume a session
	sessions map[string]*claudeSession
	current  *claudeSession // of the line before
}

func newClaudeDecoder(dialect claudeDialect) *claudeDecoder {
	return &claudeDecoder{claudeDialect: dialect, seed: maphash.MakeSeed(), sessions: map[string]*claudeSession{}}
}

func (d *claudeDecoder) started(_ Instant, resumes bool) { d.resumes = resumes }

func (d *claudeDecoder) begin(bool) lineReader {
	d.line = claudeLine{inputHasCached: d.inputHasCached}
	return &d.line
}

func (d *claudeDecoder) events(dst []Event) []Event {
	l := &d.line
	l.Kind = Ignored
	switch string(l.typ) {
	case "system":
		if d.system(); l.Notice == semconv.EventRetry {
			dst = d.session(&l.Event).agent(l.Parent).breakOff(&l.Event, dst)
		}
	case "assistant":
		return d.assistant(dst)
	case "user":
		return d.user(dst)
	case "stream_event":
		return d.streamed(dst)
	case "result":
		return d.result(dst)
	case "rate_limit_event":
		l.Kind, l.Notice = Notice, semconv.EventRateLimit
	case "tool_progress":
		d.subagentRetry()
	case "error":
		l.Kind, l.Text = RunError, l.fault
	case "control_request", "control_response", "control_cancel_request", "keep_alive",
		"tool_use_summary", "auth_status", "prompt_suggestion", "command_lifecycle":
	default:
		l.Kind = Unknown
	}
	return append(dst, l.Event)
}

// Types of what the program itself writes, of blocks of messages, and of the streaming API's
// events and deltas that say nothing of the run, or nothing that other lines do not.
var (
	claudeNotes = set("thinking_tokens", "task_progress", "background_tasks_changed", "session_state_changed",
		"post_turn_summary", "hook_progress", "files_persisted", "local_command_output", "elicitation_complete", "notification",
		"memory_recall", "commands_changed", "plugin_install", "mirror_error", "control_request_progress",
		"worker_shutting_down", "informational", "model_refusal_fallback", "model_refusal_no_fallback",
		"session_start", "session_end") // the last two are Qwen Code's
	claudeBlocks = set("image", "document", "container_upload", "search_result", "tool_reference", "compaction")
	claudeEvents = set("content_block_stop", "ping", "error",
		"input_json_delta", "signature_delta", "citations_delta", "compaction_delta",
		"goal_state", "tool_progress") // the last two are Qwen Code's
)

// system classifies a line that the program itself wrote.
func (d *claudeDecoder) system() {
	l, s := &d.line, d.session(&d.line.Event)
	switch string(l.subtype) {
	case "init":
		if l.Kind = RunStart; s.stale { // of the run that has begun
			l.Kind, s.stale = Ignored, false
		}
		s.ended = false
		if version := l.Facts.Find(semconv.AgentVersion); version != nil {
			s.resumable = d.resumable && resumesTotals(version.Text)
		}
	case "status":
		if l.Status == "requesting" {
			l.Kind, l.Asks = TurnStart, true
		}
	case "hook_started":
		l.Kind = HookStart
	case "hook_response":
		l.Kind = HookEnd
		outcome := l.Facts.Find(semconv.HookOutcome)
		if l.Failed = outcome != nil && string(outcome.Text) != "success"; l.Failed {
			l.Status = string(outcome.Text)
		}
	case "api_retry", "retry": // the latter is Qwen Code's
		l.Kind, l.Notice = Notice, semconv.EventRetry
		l.Facts.word(semconv.Reason, []byte(enum(jsonscan.Unquote(l.fault))))
	case "compact_boundary":
		l.Kind, l.Notice = Notice, semconv.EventCompaction
		s.hidden += l.Facts.number(semconv.TokensBefore) + l.Facts.number(semconv.TokensAfter) // of the model call that sums up
	case "permission_denied":
		remember(s.calls, l.ID, true)
	case "task_started":
		t := s.task(l.task)
		t.background = t.background || l.background
		t.call = string(l.ID)
		l.Kind = ToolRuns
		if l.subagent {
			s.delegated(l.ID)
		}
	case "task_updated":
		if l.background {
			s.task(l.task).background = true
		}
		if l.Status != "" && l.Status != "running" && l.Status != "pending" {
			d.taskEnd(s, false)
		}
	case "task_notification":
		d.taskEnd(s, true)
	default:
		if !claudeNotes[string(l.subtype)] {
			l.Kind = Unknown
		}
	}
}

// unknownBlock appends that a block of the message has an unknown type.
func (l *claudeLine) unknownBlock(dst []Event) []Event {
	for i := range l.blocks {
		if b := &l.blocks[i]; b.Kind == Malformed && !claudeBlocks[string(b.typ)] {
			l.subtype = b.typ
			return append(dst, Event{Kind: Unknown, Session: l.Session})
		}
	}
	return dst
}

// taskEnd turns the line into the end of background work. An update may report the
// end before the notification, which wakes the model. A foreground task ends with
// its tool call.
func (d *claudeDecoder) taskEnd(s *claudeSession, notified bool) {
	l := &d.line
	t, running, again := s.tasks[string(l.task)], false, false
	if t != nil {
		_, running = s.calls[t.call]
		s.measured([]byte(t.call), l.lastTokens, l.toolUses)
		if a := s.agents[t.call]; a != nil && t.call != "" {
			again, a.works = a.works && t.over, false
		}
	}
	switch {
	case t == nil && !notified:
		return
	case running: // it is over before its call
		t.ended, t.status = cmp.Or(l.ended, t.ended), l.Status
		if !notified || !t.background {
			return
		}
		t.summary = bytes.Clone(l.summary)
		l.Kind = Notice
	case t != nil && !t.background:
		return
	case t != nil && t.over && !again:
		l.Kind = Notice
	default:
		l.Kind, l.ID = TaskEnd, l.task
		if notified {
			l.settle(&l.Event)
		}
		l.Failed = l.Failed || l.Status != "completed"
		l.Time = cmp.Or(l.Time, l.ended)
		l.Facts.text(semconv.TaskDetail, Full, l.summary)
		if t != nil {
			l.Parent = []byte(t.call)
		}
	}
	if l.Wakes = notified; notified && s.answer == 0 {
		s.answer = s.said
	}
	t = s.task(l.task)
	t.over = t.over || l.Kind == TaskEnd
}

// subagentRetry reports a retried model call of a sub-agent once: the sub-agent's
// progress lines repeat it.
func (d *claudeDecoder) subagentRetry() {
	l := &d.line
	attempt := l.Facts.number(semconv.Attempt)
	if attempt == 0 {
		return
	}
	a := d.session(&l.Event).agent(l.ID)
	if a.attempt != attempt {
		l.Kind, l.Notice, l.Parent = Notice, semconv.EventRetry, l.ID
	}
	a.attempt = attempt
}

// assistant appends the events of a message of the model, which has one or more
// blocks.
func (d *claudeDecoder) assistant(dst []Event) []Event {
	l, s := &d.line, d.session(&d.line.Event)
	a := s.agent(l.Parent)
	a.works, a.asked, s.stale, s.nested = true, false, false, s.nested || len(l.Parent) > 0
	if l.apiError || len(l.fault) > 0 || d.isAPIError(firstText(l.blocks)) {
		return d.failed(s, dst)
	}
	s.fault = ""
	if len(l.Parent) == 0 {
		remember(s.models, l.Model, true)
	}
	ev := l.Event
	ev.FinishReason = finishReason(l.stop)
	if string(l.Model) == "<synthetic>" { // written by the program, not by the model
		ev.Model, l.usage = nil, Usage{}
	}
	ended := false
	switch {
	case d.callIDs:
		if len(a.stop) > 0 && len(l.stop) > 0 && !bytes.Equal(a.stop, l.stop) && bytes.Equal(a.call, l.message) { // a gateway repeats ids
			l.message = nil
		}
		if len(l.stop) > 0 {
			a.stop = bytes.Clone(l.stop)
		}
		s.spend(a, l.message, &l.usage, len(l.Parent) > 0)
		ev.ModelCallID = l.message
		if l.usage.Known && !a.isOver(l.message) {
			l.usage.OutputUnknown = len(l.stop) == 0 && !d.finalUsage
			ev.Usage = l.usage.copied()
		}
	case l.usage.Known && l.usage.Input+l.usage.Output > 0:
		ev.Usage, ended = l.usage.copied(), true
	}

	streamedText, streamedThinking := a.text, a.thinking
	before := len(dst)
	for i := range l.blocks {
		b := &l.blocks[i]
		ev.Kind, ev.Text, ev.ID, ev.Tool, ev.Start = b.Kind, b.Text, b.ID, nil, 0
		switch b.Kind {
		case TextMessage:
			if len(l.Parent) == 0 {
				s.said = maphash.Bytes(d.seed, b.Text)
			}
			if streamedText {
				ev.Kind, a.text = TextEnd, false
			} else if len(b.Text) == 0 {
				continue
			}
		case ThinkingMessage:
			if streamedThinking {
				ev.Kind, a.thinking = ThinkingEnd, false
			} else if l.thought > 0 && l.Time > 0 {
				ev.Start = l.Time - l.thought
			}
		case ToolStart:
			if b.tool().loadsSkill(); string(b.typ) == "server_tool_use" && len(l.others) > 0 && !strings.HasPrefix(b.Tool.Name, "web_") {
				b.Tool.Subagent, s.nested = "advisor", true
			}
			ev.Tool, a.tools = b.tool().finish(), true
			remember(s.calls, b.ID, s.calls[string(b.ID)])
			if b.startsSubagent() {
				s.delegated(b.ID)
			}
		case ToolEnd:
			ev.Tool = b.tool().finish()
			if string(b.typ) == "advisor_tool_result" && a.consulted < len(l.others) {
				m := &l.others[a.consulted]
				a.consulted++
				call := Event{Kind: TurnStart, Session: l.Session, Time: l.Time, Arrival: l.Arrival, Parent: b.ID, Model: m.Model}
				end := call
				end.Kind, end.Usage, end.Final = TurnEnd, &m.Usage, true
				dst = append(dst, call, end)
			}
		default:
			continue
		}
		dst = append(dst, ev)
	}
	ev.Text, ev.ID, ev.Tool = nil, nil, nil
	if len(dst) == before && ev.Usage != nil { // a message without words
		ev.Kind = TurnStart
		dst = append(dst, ev)
	}
	if ended {
		ev.Kind, ev.Final, a.over = TurnEnd, !a.tools, true
		a.tools = false
		dst = append(dst, ev)
	}
	return l.unknownBlock(dst)
}

// failed appends the events of a model call that failed for good.
func (d *claudeDecoder) failed(s *claudeSession, dst []Event) []Event {
	l := &d.line
	ev := l.Event
	ev.Model = nil
	ev.Status = cmp.Or(enum(jsonscan.Unquote(l.fault)), claudeAPIError)
	if len(l.Parent) == 0 {
		s.fault = ev.Status
		report := ev
		report.Kind, report.Text = RunError, firstText(l.blocks)
		dst = append(dst, report)
	}
	ev.Kind, ev.Failed, ev.Final, ev.Text = TurnEnd, true, true, firstText(l.blocks)
	return append(dst, ev)
}

// isAPIError reports whether a text is the program's error message for a failed
// model call.
func (d *claudeDecoder) isAPIError(text []byte) bool {
	return d.apiError != "" && bytes.HasPrefix(text, []byte(d.apiError))
}

// user appends the events of tool results, or of a prompt.
func (d *claudeDecoder) user(dst []Event) []Event {
	l, s := &d.line, d.session(&d.line.Event)
	ev := l.Event
	results := 0
	for i := range l.blocks {
		if l.blocks[i].Kind == ToolEnd {
			results++
		}
	}
	if len(l.Parent) > 0 {
		s.agent(l.Parent).asked = true
	}
	for i := range l.blocks {
		b := &l.blocks[i]
		ev.ID, ev.Tool, ev.Text = b.ID, nil, nil
		switch {
		case b.Kind == ToolEnd:
			dst = d.lastAnswer(s, b, dst)
			if results == 1 {
				l.finishResult(b.tool())
				s.measured(b.ID, l.lastTokens, l.toolUses)
			}
			l.denied(b)
			if a := s.agents[string(b.ID)]; b.tool().ErrorType != "" && a == nil { // it did not begin
				delete(s.subagents, string(b.ID))
			}
			ev.Kind, ev.Tool = ToolEnd, s.toolEnd(b.ID, b.tool())
			if t := s.tasks[string(b.Tool.Task)]; b.Tool.Background && t.status != "" && !t.over { // it was over before its call
				t.over = true
				over := Event{
					Kind: TaskEnd, Session: ev.Session, Arrival: ev.Arrival,
					ID: b.Tool.Task, Time: t.ended, Status: t.status, Failed: t.status != "completed",
				}
				over.Facts.text(semconv.TaskDetail, Full, t.summary)
				dst = append(dst, ev, over)
				continue
			}
		case b.Kind == TextMessage && results == 0 && l.synthetic:
			ev.Kind, ev.Wakes = Notice, true
		case b.Kind == TextMessage && results == 0:
			ev.Kind, ev.Text = Prompt, b.Text
		default:
			continue
		}
		dst = append(dst, ev)
	}
	return l.unknownBlock(dst)
}

// lastAnswer appends the last answer of the sub-agent that a call started, if only the call's
// result has it.
func (d *claudeDecoder) lastAnswer(s *claudeSession, b *line, dst []Event) []Event {
	a := s.agents[string(b.ID)]
	if a == nil || !a.asked || d.finalUsage || // a log has it
		b.Tool.ErrorType != "" || d.line.result.Background {
		return dst
	}
	l := &d.line
	a.asked = false
	return append(dst, Event{
		Kind: TextMessage, Session: l.Session, Time: l.Time, Arrival: l.Arrival, Parent: b.ID, Text: resultText(b.Tool.Result), Final: true,
	})
}

// streamed appends the events of one line of --include-partial-messages.
func (d *claudeDecoder) streamed(dst []Event) []Event {
	l := &d.line
	a := d.session(&l.Event).agent(l.Parent)
	l.subtype = l.eventType
	switch string(l.eventType) {
	case "message_start":
		a.begin(l.message, l.usage)
		l.Kind, l.ModelCallID = TurnStart, d.call(a)
		if l.usage.Known {
			l.usage.OutputUnknown = true
			l.Usage = l.usage.copied()
		}
	case "content_block_delta":
		switch string(l.deltaType) {
		case "text_delta":
			l.Kind, l.ModelCallID, a.text = TextDelta, d.call(a), true
		case "thinking_delta":
			l.Kind, l.ModelCallID, a.thinking = ThinkingDelta, d.call(a), true
		default:
			if l.subtype = l.deltaType; !claudeEvents[string(l.deltaType)] {
				l.Kind = Unknown
			}
		}
	case "message_delta":
		a.usage.raise(&l.usage)
		l.Kind, l.ModelCallID, a.over = TurnEnd, d.call(a), true
		l.FinishReason = finishReason(l.stop)
		l.Final = l.FinishReason != "tool_call" && l.FinishReason != "continued"
		if a.usage.Known {
			l.Usage = a.usage.copied()
		}
	case "message_stop":
		if l.abandoned {
			return a.breakOff(&l.Event, dst)
		}
		if !a.over { // the usage of the call is still unknown
			l.Kind, l.ModelCallID, a.over, l.Final = TurnEnd, d.call(a), true, !a.tools
		}
	case "content_block_start":
		if l.calls {
			l.Kind, l.ModelCallID = OtherOutput, d.call(a)
		}
	default:
		if !claudeEvents[string(l.eventType)] {
			l.Kind = Unknown
		}
	}
	return append(dst, l.Event)
}

// breakOff appends the end of a message that was streamed and broke off, if there is one. The agent
// repeats the model call, as another call.
func (a *claudeAgent) breakOff(at *Event, dst []Event) []Event {
	if len(a.message) == 0 || a.over {
		return dst
	}
	a.over = true
	return append(dst, Event{
		Kind: TurnEnd, Session: at.Session, Parent: at.Parent, Time: at.Time, ModelCallID: a.message, Failed: true, Status: claudeAPIError,
	})
}

// claudeAPIError is the type of an error of the API that has no other.
const claudeAPIError = "api_error"

// call returns the id of the model call that an agent is streaming.
func (d *claudeDecoder) call(a *claudeAgent) []byte {
	if !d.callIDs {
		return nil
	}
	return a.message
}
