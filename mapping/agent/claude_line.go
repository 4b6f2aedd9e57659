package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A claudeLine is one line. Members may come in any order; the type may be the last
// one.
type claudeLine struct {
	Event
	typ, subtype []byte
	facts        facts
	errorText    []byte
	apiError     bool
	synthetic    bool // a user message that the program wrote
	background   bool
	attempt      int64
	task         []byte  // whose state changed
	ended        Instant // when that task ended
	summary      []byte  // of that task

	message []byte // its id
	stop    []byte // why the model stopped
	usage   Usage
	blocks  []claudeBlock
	result  claudeResult

	eventType, deltaType []byte // of a stream_event

	total       claudeTotal // of the process so far
	resultIndex int64       // -1 if there is none

	texts, ids     int   // deltas and ids of the line that were read
	textAt, uuidAt place // of the last of each, between its quotes
}

// claudeBlock is a block of a message's content.
type claudeBlock struct {
	call
	kind    claudeBlockKind
	id      []byte // of the tool call
	text    []byte
	isError bool
}

type claudeBlockKind uint8

const (
	otherBlock claudeBlockKind = iota
	textBlock
	thinkingBlock
	toolUseBlock
	toolResultBlock
)

// read reads one JSON object. It returns false if the text is not an object or is
// truncated.
func (l *claudeLine) read(r *jsonscan.Reader) bool {
	*l = claudeLine{facts: l.facts[:0], blocks: l.blocks[:0], result: claudeResult{facts: l.result.facts[:0]}, resultIndex: -1}
	if r.Peek() != '{' {
		r.Fail()
		return false
	}
	for key := range r.Members() {
		l.field(r, key)
	}
	return !r.Bad
}

func (l *claudeLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.Str()
	case "subtype":
		l.subtype = r.Str()
	case "session_id":
		l.Session = readID(r)
	case "parent_tool_use_id":
		l.Parent = readID(r)
	case "uuid":
		if r.Peek() != '"' {
			r.Skip()
			break
		}
		l.ids++
		l.uuidAt.start = r.I + 1
		r.Str()
		l.uuidAt.end = r.I - 1
	case "timestamp":
		l.Time = isoTime(r)
	case "event":
		l.streamEvent(r)
	case "message":
		if r.Peek() == '"' {
			l.errorText = r.Str()
		} else {
			l.readMessage(r)
		}
	case "tool_use_result":
		l.result.read(r)
	case "tool_use_id":
		l.ID = readID(r)
	case "task_id":
		l.task = wordOf(r)
	case "status":
		l.Status = enum(jsonscan.Unquote(r.Str()))
	case "summary":
		l.summary = r.Str()
	case "is_backgrounded":
		l.background = r.Bool()
	case "patch":
		l.patch(r)
	case "error":
		l.readError(r)
	case "errors":
		for range r.Elements() {
			if s := r.Str(); len(l.errorText) == 0 {
				l.errorText = s
			}
		}
	case "isApiErrorMessage", "is_api_error_message":
		l.apiError = r.Bool()
	case "isSynthetic", "isMeta", "isCompactSummary":
		l.synthetic = r.Bool() || l.synthetic
	case "result":
		l.Text = r.Str()
	case "is_error":
		l.Failed = r.Bool()
	case "duration_ms":
		l.Length = millis(r)
	case "usage":
		l.usage.read(r)
	case "modelUsage":
		l.total.readModels(r)
	case "total_cost_usd":
		l.total.cost.read(r)
	case "result_index":
		if n, ok := r.Int(); ok {
			l.resultIndex = n
		}
	default:
		l.fact(r, key)
	}
}

// fact reads a member with a fact about the run or an incident.
func (l *claudeLine) fact(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "model":
		l.Model = jsonscan.Unquote(r.Str())
	case "cwd":
		l.facts.text(semconv.ProcessWorkingDirectory, Detail, r.Str())
	case "permissionMode", "permission_mode":
		l.facts.word(semconv.PermissionMode, enumOf(r))
	case "claude_code_version", "qwen_code_version":
		l.facts.word(semconv.AgentVersion, wordOf(r))
	case "apiKeySource":
		l.facts.word(semconv.ClaudeAPIKeySource, wordOf(r))
	case "terminal_reason":
		l.facts.word(semconv.ClaudeTerminalReason, enumOf(r))
	case "api_error_status", "error_status":
		l.number(r, semconv.HTTPResponseStatus)
	case "duration_api_ms":
		l.number(r, semconv.APIMillis)
	case "permission_denials":
		n := 0
		for range r.Elements() {
			n++
			r.Skip()
		}
		if n > 0 {
			l.facts.int(semconv.PermissionDenials, int64(n))
		}
	case "attempt":
		n, _ := r.Int()
		l.attempt = n
		l.facts.int(semconv.Attempt, n)
	case "max_retries":
		l.number(r, semconv.MaxAttempts)
	case "retry_delay_ms":
		l.number(r, semconv.DelayMillis)
	case "error_category":
		l.facts.word(semconv.Reason, enumOf(r))
	case "hook_event":
		l.facts.word(semconv.HookEvent, enumOf(r))
	case "outcome":
		l.facts.word(semconv.HookOutcome, enumOf(r))
	case "exit_code":
		l.number(r, semconv.ProcessExitCode)
	case "trigger":
		l.facts.word(semconv.Reason, enumOf(r))
	case "pre_tokens":
		l.number(r, semconv.TokensBefore)
	case "post_tokens":
		l.number(r, semconv.TokensAfter)
	case "rateLimitType":
		l.facts.word(semconv.RateLimitType, enumOf(r))
	case "resetsAt":
		l.number(r, semconv.RateLimitResets)
	case "compact_metadata", "subagent_retry", "data":
		for key := range r.Members() {
			if string(key) == "compact_metadata" {
				l.fact(r, key)
			} else {
				l.leaf(r, key)
			}
		}
	case "rate_limit_info":
		for key := range r.Members() {
			if string(key) == "status" {
				l.facts.word(semconv.RateLimitStatus, enumOf(r))
			} else {
				l.leaf(r, key)
			}
		}
	default:
		r.Skip()
	}
}

// leaf reads a member of a nested object in a line of the program.
func (l *claudeLine) leaf(r *jsonscan.Reader, key []byte) {
	if c := r.Peek(); c == '{' || c == '[' || string(key) == "cwd" {
		r.Skip()
		return
	}
	l.fact(r, key)
}

func (l *claudeLine) number(r *jsonscan.Reader, key string) {
	if n, ok := r.Int(); ok && n >= 0 {
		l.facts.int(key, n)
	}
}

// readError reads what went wrong: a word, a text, or {"type":..,"message":..}.
func (l *claudeLine) readError(r *jsonscan.Reader) {
	if r.Peek() != '{' {
		if s := r.Str(); len(s) > 0 {
			l.errorText = s
		}
		return
	}
	for key := range r.Members() {
		if string(key) == "message" {
			l.errorText = r.Str()
		} else {
			r.Skip()
		}
	}
}

// patch reads how a task's state changed.
func (l *claudeLine) patch(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "status":
			l.Status = enum(jsonscan.Unquote(r.Str()))
		case "end_time":
			l.ended = millis(r)
		case "is_backgrounded":
			l.background = r.Bool()
		default:
			r.Skip()
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
			l.usage.read(r)
		case "content":
			if r.Peek() == '"' {
				*l.block() = claudeBlock{kind: textBlock, text: r.Str()}
				continue
			}
			for range r.Elements() {
				l.block().read(r)
			}
		default:
			r.Skip()
		}
	}
}

// block returns a new block of the message.
func (l *claudeLine) block() *claudeBlock {
	if len(l.blocks) < cap(l.blocks) {
		l.blocks = l.blocks[:len(l.blocks)+1]
	} else {
		l.blocks = append(l.blocks, claudeBlock{})
	}
	b := &l.blocks[len(l.blocks)-1]
	*b = claudeBlock{call: call{arguments: b.arguments[:0], outcome: b.outcome[:0]}}
	return b
}

func (l *claudeLine) firstText() []byte {
	for i := range l.blocks {
		if l.blocks[i].kind == textBlock {
			return l.blocks[i].text
		}
	}
	return nil
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
			l.usage.read(r)
		case "delta":
			l.readDelta(r)
		default:
			r.Skip()
		}
	}
}

func (l *claudeLine) readDelta(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.deltaType = r.Str()
		case "text", "thinking":
			if r.Peek() != '"' {
				r.Skip()
				continue
			}
			start := r.I + 1
			l.Text = r.Str()
			l.Bytes = jsonscan.UnquotedLen(l.Text)
			l.textAt = place{start, r.I - 1}
			l.texts++
		case "stop_reason":
			l.stop = jsonscan.Unquote(r.Str())
		default:
			r.Skip()
		}
	}
}

// salvage completes a line past the parse limit from its tail, because these
// members come after the message.
func (l *claudeLine) salvage(tail []byte) {
	for _, key := range []string{"parent_tool_use_id", "session_id", "timestamp"} {
		if i := bytes.LastIndex(tail, []byte(`"`+key+`":`)); i >= 0 {
			l.field(&jsonscan.Reader{B: tail, I: i + len(key) + 3}, []byte(key))
		}
	}
}
