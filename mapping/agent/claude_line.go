package agent

import (
	"bytes"
	"cmp"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A claudeLine is one line. Members may come in any order; the type may be the last
// one.
type claudeLine struct {
	line
	apiError   bool
	synthetic  bool // a user message that the program wrote
	background bool
	task       []byte  // whose state changed
	ended      Instant // when that task ended
	summary    []byte  // of that task

	message        []byte // its id
	stop           []byte // why the model stopped
	usage          Usage
	others         []ModelUsage // of other models that the message consulted
	inputHasCached bool         // see claudeDialect
	content        []byte       // of the message, as it is written
	blocks         []line       // of the content
	result         Tool         // what the line states of a call's outcome, besides the result that the model gets
	toolUses       int64        // of a sub-agent
	workflow       []byte       // the id of the workflow that the call began, which starts sub-agents
	thought        Instant      // how long the model has thought until then
	lastTokens     int64        // that its last model call used
	subagent       bool         // the task is a sub-agent

	eventType, deltaType []byte // of a stream_event
	abandoned            bool   // the message that is streamed broke off
	calls                bool   // the block of content that begins is a tool call

	denials  []claudeDenial
	notified bool // the result answers the end of background work, not a prompt

	total  claudeTotal // of the process so far
	own    claudeTotal // since the last result, zero if it is not stated
	number int64       // of the result in the process, from 1; 0 if it is not stated
}

func (l *claudeLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "parent_tool_use_id":
		l.Parent = readID(r)
	case "event":
		l.streamEvent(r)
	case "abandoned_blocks":
		l.abandoned = isSet(r.Raw())
	case "message":
		if r.Peek() == '"' {
			l.fault = r.Str()
		} else {
			l.readMessage(r)
		}
	case "tool_use_result":
		l.readOutcome(r)
	case "hook_id":
		l.ID = readID(r)
	case "hook_event":
		l.Query = enum(r.Str())
	case "task_id":
		l.task = wordOf(r)
	case "summary":
		l.summary = r.Str()
	case "is_backgrounded":
		l.background = r.Bool()
	case "patch":
		for key := range r.Members() { // of the task's state
			switch string(key) {
			case "status", "end_time", "is_backgrounded":
				l.field(r, key)
			}
		}
	case "end_time":
		l.ended = millis(r)
	case "error":
		f := readFault(r)
		if l.Facts.status(f.status); len(f.text) > 0 {
			l.fault = f.text
		}
	case "errors":
		for range r.Elements() {
			if s := r.Str(); len(l.fault) == 0 {
				l.fault = s
			}
		}
	case "isApiErrorMessage", "is_api_error_message":
		l.apiError = r.Bool()
	case "isSynthetic", "isMeta", "isCompactSummary":
		l.synthetic = r.Bool() || l.synthetic
	case "result":
		l.Text = r.Str()
	case "usage":
		for key := range r.Members() {
			switch string(key) {
			case "total_tokens":
				l.lastTokens, _ = r.Int()
			case "tool_uses":
				l.toolUses, _ = r.Int()
			default:
				l.usage.count(r, key)
			}
		}
		if !l.inputHasCached {
			l.usage.addCached()
		}
	case "thinkingDurationMs", "thinking_duration_ms":
		l.thought = millis(r)
	case "first_content_frame_ms":
		l.FirstToken = millis(r)
	case "task_type":
		l.subagent = string(r.Str()) == "local_agent"
	case "modelUsage":
		l.readTotal(r, &l.total)
	case "model_usage_since_last_result":
		l.readTotal(r, &l.own)
		for _, m := range l.own.models {
			l.own.usage.AddCost(&m.Usage)
		}
	case "total_cost_usd", "totalCostUSD":
		l.total.usage.readCost(r)
	case "tool_result_meta":
		for range r.Elements() {
			l.readDenial(r)
		}
	case "origin":
		readMember(r, "kind", func() { l.notified = string(r.Str()) == "task-notification" })
	case "result_index":
		if n, ok := r.Int(); ok {
			l.number = n + 1
		}
	case "duration_api_ms", "totalAPIDuration":
		if n, ok := r.Int(); ok && n >= 0 {
			l.total.apiMillis = n
			l.Facts.int(semconv.APIMillis, n)
		}
	case "permission_denials":
		for n := range r.Elements() {
			l.Facts.int(semconv.PermissionDenials, int64(n+1))
		}
	case "compact_metadata", "subagent_retry", "data":
		for key := range r.Members() {
			if string(key) == "compact_metadata" {
				l.field(r, key)
			} else {
				l.Facts.read(r, lineFacts, key)
			}
		}
	case "rate_limit_info":
		for key := range r.Members() {
			if string(key) == "status" {
				l.Facts.word(semconv.RateLimitStatus, enumOf(r))
			} else {
				l.Facts.read(r, lineFacts, key)
			}
		}
	default:
		l.line.field(r, key)
	}
}

// readTotal reads {"<model>":{"inputTokens":..,"outputTokens":..},..}.
func (l *claudeLine) readTotal(r *jsonscan.Reader, to *claudeTotal) {
	for name := range r.Members() {
		model := ModelUsage{Model: bytes.Clone(jsonscan.Unquote(name))}
		l.readUsage(r, &model.Usage)
		to.usage.Add(&model.Usage)
		to.models = append(to.models, model)
	}
}

// A claudeDenial is what a line says of a call that did not run.
type claudeDenial struct {
	call   []byte // nil for the line's only one
	denied bool
	hook   bool // a hook denied it
}

// readDenial reads {"id":..,"non_execution_kind":..,"permission_decision":{"decision":"reject"}}.
func (l *claudeLine) readDenial(r *jsonscan.Reader) {
	var d claudeDenial
	for key := range r.Members() {
		switch string(key) {
		case "id":
			d.call = readID(r)
		case "non_execution_kind":
			d.denied = bytes.HasPrefix(r.Str(), []byte("permission")) || d.denied
		case "permission_decision":
			d.decision(r)
		}
	}
	l.denials = append(l.denials, d)
}

// decision reads {"decision":"reject","source":"hook"}.
func (d *claudeDenial) decision(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "decision":
			d.denied = string(r.Str()) == "reject" || d.denied
		case "source":
			d.hook = string(r.Str()) == "hook"
		}
	}
}

// denied marks a failed call as denied if the line says so.
func (l *claudeLine) denied(b *line) {
	denied, hook := false, false
	for _, d := range l.denials {
		if d.call == nil || bytes.Equal(d.call, b.ID) {
			denied, hook = denied || d.denied, hook || d.hook
		}
	}
	if t := b.tool(); denied && t.ErrorType != "" {
		if t.deny(); hook {
			t.Reason = "blocked by hook"
		}
	}
}

func (l *claudeLine) readUsage(r *jsonscan.Reader, to *Usage) {
	for key := range r.Members() {
		if string(key) == "iterations" {
			l.readIterations(r)
		} else {
			to.count(r, key)
		}
	}
	if !l.inputHasCached {
		to.addCached()
	}
}

// readIterations reads the model calls that a message consists of. The message's usage leaves
// out those of other models, such as an advisor.
func (l *claudeLine) readIterations(r *jsonscan.Reader) {
	l.others = nil
	for range r.Elements() {
		var m ModelUsage
		for key := range r.Members() {
			if string(key) == "model" {
				m.Model = jsonscan.Unquote(r.Str())
			} else {
				m.count(r, key)
			}
		}
		if m.addCached(); len(m.Model) > 0 {
			l.others = append(l.others, m)
		}
	}
}

// readMessage reads a message of the model or of the user.
func (l *claudeLine) readMessage(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "id":
			l.message = readID(r)
		case "model":
			l.Model = jsonscan.Unquote(r.Str())
		case "stop_reason":
			l.stop = jsonscan.Unquote(r.Str())
		case "usage":
			l.readUsage(r, &l.usage)
		case "content":
			start := r.I
			l.blocks = readBlocks(r)
			l.content = r.B[start:r.I]
			for i := range l.blocks {
				if b := &l.blocks[i]; b.Kind == ToolEnd {
					b.tool().endedInClaude(b.Failed)
				}
			}
		}
	}
}

// streamEvent reads an event of the streaming API, which the line contains
// verbatim.
func (l *claudeLine) streamEvent(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.eventType = r.Str()
		case "message":
			l.readMessage(r)
		case "usage":
			l.readUsage(r, &l.usage)
		case "delta":
			l.readDelta(r)
		case "content_block":
			readMember(r, "type", func() { l.calls = bytes.HasSuffix(r.Str(), []byte("tool_use")) })
		}
	}
}

func (l *claudeLine) readDelta(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.deltaType = r.Str()
		case "text", "thinking":
			if r.Peek() == '"' { // else it is null, because the delta is of the other type
				l.Text = r.Str()
			}
		case "stop_reason":
			l.stop = jsonscan.Unquote(r.Str())
		}
	}
}

// startsSubagent reports whether a block is a call that starts a sub-agent.
func (b *line) startsSubagent() bool {
	return b.Kind == ToolStart && (b.Tool.Subagent != "" || b.Tool.Name == "Agent" || b.Tool.Name == "Task")
}

// loadsSkill records which skill a call of the tool Skill loads.
func (t *Tool) loadsSkill() {
	if t.Name != "Skill" {
		return
	}
	t.Executable = "" // until version 2.0, the name of the skill was its command
	t.ArgumentFacts.remove(semconv.ProcessCommandLine)
	r := jsonscan.Reader{B: t.Arguments}
	for key := range r.Members() {
		if k := string(key); (k == "skill" || k == "command") && t.Skill == "" {
			name := bytes.TrimPrefix(jsonscan.Unquote(r.Str()), []byte("/"))
			t.Skill = word(name)
			t.ArgumentFacts.word(semconv.SkillName, nameOf(name, wordChars))
		}
	}
}

// endedInClaude sets whether and why a call failed, in words that are never content.
func (t *Tool) endedInClaude(failed bool) {
	if !failed {
		t.failedAsCoded()
		t.exitedAsReported(resultText(t.Result))
		return
	}
	t.failedAs("", nil)
	switch text := t.ErrorText; {
	case t.ErrorType == "failure": // with an exit code
	case bytes.Contains(text, []byte("InputValidationError")):
		t.Reason = "invalid arguments"
	case bytes.HasPrefix(text, []byte("[Request interrupted by user")):
		t.ErrorType, t.Reason = "interrupted", "interrupted by the user"
	case bytes.HasPrefix(text, []byte("The user doesn't want to")), bytes.HasPrefix(text, []byte("Permission to use")),
		bytes.HasPrefix(text, []byte("Claude requested permissions")):
		t.deny()
	case bytes.Contains(text[:min(len(text), 200)], []byte("hook error")):
		t.Reason = "blocked by hook"
	}
}

// failedAsCoded sets why a tool of the API failed, which has no is_error:
// {"type":"web_search_tool_result_error","error_code":"unavailable"}.
func (t *Tool) failedAsCoded() {
	if len(t.Result) == 0 || t.Result[0] != '{' {
		return
	}
	failed, code := false, ""
	r := jsonscan.Reader{B: t.Result}
	for key := range r.Members() {
		switch string(key) {
		case "type":
			failed = bytes.HasSuffix(r.Str(), []byte("_tool_result_error"))
		case "error_code":
			code = string(enumOf(&r))
		}
	}
	if failed {
		t.failed()
		t.ErrorType = cmp.Or(code, t.ErrorType)
	}
}

// deny marks a failed call as not permitted.
func (t *Tool) deny() { t.ErrorType, t.Reason = "permission_denied", "permission denied" }

// readOutcome reads what a line states about a tool's outcome. Every tool has members of
// its own.
func (l *claudeLine) readOutcome(r *jsonscan.Reader) {
	c := &l.result
	for key := range r.Members() {
		switch string(key) {
		case "backgroundTaskId":
			c.Task = wordOf(r)
			c.Background = len(c.Task) > 0
		case "workflowRunId", "taskId": // of a Workflow, or of an item in the agent's plan, which runs nothing
			id := wordOf(r)
			if string(key) == "workflowRunId" {
				l.workflow = id
			}
			if len(c.Task) == 0 {
				c.Task = id
			}
		case "agentId":
			id := wordOf(r)
			c.OutcomeFacts.word(semconv.SubagentID, id)
			if len(c.Task) == 0 {
				c.Task = id
			}
		case "isAsync":
			c.Background = r.Bool() || c.Background
		case "status":
			c.Background = string(r.Str()) == "async_launched" || c.Background
		case "resolvedModel":
			c.OutcomeFacts.word(semconv.SubagentModel, wordOf(r))
		case "totalToolUseCount":
			l.toolUses, _ = r.Int()
		case "structuredPatch":
			readPatch(r, &c.OutcomeFacts)
		case "file":
			for key := range r.Members() {
				if string(key) != "content" {
					c.OutcomeFacts.read(r, resultFacts, key)
				}
			}
		case "content": // of a file
		default:
			c.OutcomeFacts.read(r, resultFacts, key)
		}
	}
	l.lastTokens = c.OutcomeFacts.number(semconv.SubagentTokens)
	c.OutcomeFacts.remove(semconv.SubagentTokens) // not what the sub-agent used
}

// readPatch counts the lines of an edit: [{"lines":["-old","+new"," same"]}].
func readPatch(r *jsonscan.Reader, to *Facts) {
	added, removed := int64(0), int64(0)
	for range r.Elements() {
		readMember(r, "lines", func() {
			for range r.Elements() {
				switch line := r.Str(); {
				case bytes.HasPrefix(line, []byte("+")):
					added++
				case bytes.HasPrefix(line, []byte("-")):
					removed++
				}
			}
		})
	}
	to.int(semconv.ToolLinesAdded, added)
	to.int(semconv.ToolLinesRemoved, removed)
}

// finishResult adds the line's outcome to its only result block.
func (l *claudeLine) finishResult(t *Tool) {
	t.OutcomeFacts.merge(l.result.OutcomeFacts)
	if t.Background = l.result.Background; t.Background {
		t.Task = l.result.Task
	}
}

// toolEnd returns the end of a tool call, completed from the session's state.
func (s *claudeSession) toolEnd(id []byte, t *Tool) *Tool {
	if a := s.agents[string(id)]; a != nil { // its sub-agent's
		s.subagentUsage.Add(&a.spent)
		delete(s.agents, string(id))
	}
	for task, state := range s.tasks {
		if state.call == string(id) && state.background && !t.Background {
			t.Background, t.Task = true, []byte(task)
		}
	}
	if t.Background {
		s.task(t.Task).background = true
		t.OutcomeFacts.bool(semconv.ToolIsBackground)
	}
	if s.calls[string(id)] {
		t.deny()
	}
	delete(s.calls, string(id))
	return t.finish()
}
