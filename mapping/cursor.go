package mapping

import (
	"bytes"
	"slices"
	"strings"
)

// Cursor is the agent name of Cursor's CLI, run with --output-format
// stream-json. What it prints was read off streams and builds of 2025 and
// 2026; its own documentation is behind.
const Cursor = "cursor-agent"

// cursorProvider is gen_ai.provider.name: Cursor serves all its models itself.
const cursorProvider = "cursor"

// A cursorLine is one line's top level.
type cursorLine struct {
	event
	content      words
	typ, subtype []byte
	hasModelCall bool
	foreign      foreignMarks

	texts           int   // texts read
	textAt, stampAt place // of the last text, between its quotes, and the timestamp
}

// decodeCursor reads one JSON object. It returns false if r's text is none or
// ends early.
func decodeCursor(r *reader, l *cursorLine) bool {
	*l = cursorLine{}
	l.words = &l.content
	if r.peek() != '{' {
		r.fail()
		return false
	}
	for key := range r.members() {
		l.field(r, key)
	}
	l.classify()
	return !r.bad
}

func (l *cursorLine) field(r *reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.str()
	case "subtype":
		l.subtype = r.str()
	case "session_id":
		l.session = unquote(r.str())
	case "timestamp_ms":
		r.peek()
		l.stampAt.start = r.i
		l.setStamp(r.integer())
		l.stampAt.end = r.i
	case "model_call_id":
		l.modelCall = unquote(r.str())
		l.hasModelCall = len(l.modelCall) > 0
	case "text":
		l.said(r)
	case "message":
		if r.peek() == '"' { // of an error
			l.content.text = r.str()
		} else {
			l.message(r)
		}
	case "call_id", "task_id":
		l.id = unquote(r.str())
	case "tool_call":
		l.toolCall(r)
	case "query", "response":
		r.peek()
		start := r.i
		l.approval(r)
		l.content.query = r.b[start:r.i]
	case "query_type":
		l.query = queryName(unquote(r.str()))
	case "status":
		l.status = enum(unquote(r.str()))
	case "model":
		model := unquote(r.str())
		l.model = clean(string(model))
	case "apiKeySource":
		l.attribute(keyAPIKeySource, r.str())
		l.foreign.apiKeySource = true
	case "permissionMode":
		l.attribute(keyPermissionMode, r.str())
	case "request_id":
		l.attribute(keyRequestID, r.str())
	case "usage":
		l.usage(r)
	case "cwd", "detail":
		l.content.detail = r.str()
	case "title":
		l.content.text = r.str()
	case "result", "error":
		if s := r.str(); len(s) > 0 {
			l.content.text = s
		}
	case "duration_ms":
		if ms, ok := r.integer(); ok && 0 < ms && ms < maxMillis {
			l.took = instant(ms) * 1e6
			l.attrs = merge(l.attrs, num(keyDurationReported, ms))
		}
	case "is_error":
		l.failed = r.truth()
	default:
		l.foreign.note(key)
		r.skip()
	}
}

// maxMillis keeps a time in milliseconds within an instant.
const maxMillis = 1 << 63 / 1000000

func (l *cursorLine) setStamp(ms int64, ok bool) {
	if ok && 0 < ms && ms < maxMillis {
		l.stamp = instant(ms) * 1e6
	}
}

func (l *cursorLine) attribute(key string, quoted []byte) {
	if v := unquote(quoted); len(v) > 0 {
		l.attrs = merge(l.attrs, str(key, string(v)))
	}
}

// classify settles what kind of event the line is.
func (l *cursorLine) classify() {
	switch string(l.typ) {
	case "system":
		switch string(l.subtype) {
		case "init":
			l.kind = runStart
		case "task_notification":
			l.kind = taskEnd
			l.failed = l.status != "success"
		case "background_shell_timeout":
			l.kind = control
		case "error":
			l.kind = runError
		}
	case "error":
		l.kind = runError
	case "user":
		l.kind = prompt
	case "thinking":
		switch string(l.subtype) {
		case "delta":
			l.kind = thinkingDelta
		case "completed":
			l.kind = thinkingEnd
		}
	case "assistant":
		// With a timestamp and without a model call it is a delta. All else is
		// a flush: it repeats the deltas of its segment if there were any, and
		// is the only copy of the text if there were none. The last of a turn
		// has neither.
		l.kind = flush
		l.final = l.stamp == 0 && !l.hasModelCall
		if l.stamp != 0 && !l.hasModelCall {
			l.kind = textDelta
		}
	case "tool_call":
		switch string(l.subtype) {
		case "started":
			l.kind = toolStart
		case "completed":
			l.kind = toolEnd
		}
	case "interaction_query":
		switch string(l.subtype) {
		case "request":
			l.kind = approvalStart
		case "response":
			l.kind = approvalEnd
		}
	case "result":
		l.kind = runEnd
		if l.failed = l.failed || string(l.subtype) == "error"; l.failed {
			l.status = enum(l.subtype)
			if l.status == "" || l.status == "success" {
				l.status = errOther
			}
		}
	case "retry", "connection":
		l.kind = control
	}
}

// message reads {"role":..,"content":[{"type":"text","text":..}]}.
func (l *cursorLine) message(r *reader) {
	for key := range r.members() {
		switch {
		case string(key) != "content":
			r.skip()
		case r.peek() == '"': // the shape of other agents, and of old versions
			l.said(r)
		default:
			for range r.elements() {
				l.contentBlock(r)
			}
		}
	}
}

func (l *cursorLine) contentBlock(r *reader) {
	for key := range r.members() {
		if string(key) == "text" {
			l.said(r)
		} else {
			r.skip()
		}
	}
}

func (l *cursorLine) said(r *reader) {
	if r.peek() != '"' {
		r.skip()
		return
	}
	start := r.i + 1
	words := r.str()
	l.bytes += unquotedLen(words)
	l.textAt = place{start, r.i - 1}
	switch l.texts++; l.texts {
	case 1:
		l.content.text = words
	case 2: // a text of several blocks is no longer a part of the line
		l.content.text = slices.Concat(l.content.text, words)
	default:
		l.content.text = append(l.content.text, words...)
	}
}

// usage reads a run's token counts. The convention's input tokens include the
// cached ones, Cursor's do not.
func (l *cursorLine) usage(r *reader) {
	var input, output, cacheRead, cacheWrite int64
	for key := range r.members() {
		n, _ := r.integer()
		switch string(key) {
		case "inputTokens":
			input = n
		case "outputTokens":
			output = n
		case "cacheReadTokens":
			cacheRead = n
		case "cacheWriteTokens":
			cacheWrite = n
		}
	}
	l.attrs = merge(l.attrs,
		num(keyInputTokens, input+cacheRead+cacheWrite), num(keyOutputTokens, output),
		num(keyCacheRead, cacheRead), num(keyCacheCreation, cacheWrite))
}

// approval reads the object of an interaction_query's request,
// {"id":0,"shellRequestQuery":{..}}, or response,
// {"id":0,"shellRequestResponse":{"approved":{}}}.
func (l *cursorLine) approval(r *reader) {
	for key := range r.members() {
		switch {
		case string(key) == "id":
			l.id = bytes.Trim(r.raw(), `"`)
		case bytes.HasSuffix(key, []byte("Response")):
			l.approvalOutcome(r)
		default:
			r.skip()
		}
	}
}

func (l *cursorLine) approvalOutcome(r *reader) {
	for key := range r.members() {
		if l.status == "" {
			l.status = enum(key)
			l.failed = l.status == "rejected"
		}
		r.skip()
	}
}

// queryName turns shellRequestQuery and askQuestionInteractionQuery into shell
// and askQuestion.
func queryName(s []byte) string {
	name := strings.TrimSuffix(enum(s), "Query")
	return strings.TrimSuffix(strings.TrimSuffix(name, "Request"), "Interaction")
}

// salvage completes a line past the parse limit from its end: Cursor writes
// these keys last.
func (l *cursorLine) salvage(tail []byte) {
	after := func(key string) *reader {
		i := bytes.LastIndex(tail, []byte(key))
		if i < 0 {
			return nil
		}
		return &reader{b: tail, i: i + len(key)}
	}
	if r := after(`"timestamp_ms":`); r != nil {
		l.setStamp(r.integer())
	}
	if r := after(`"session_id":`); r != nil {
		l.session = unquote(r.str())
	}
	if r := after(`"model_call_id":`); r != nil {
		l.modelCall = unquote(r.str())
		l.hasModelCall = len(l.modelCall) > 0
	}
	l.classify()
}

// foreignMarks are the keys by which other agents' streams are told from
// Cursor's. Never one of them alone but in its place: Claude Code has
// apiKeySource too.
type foreignMarks struct {
	apiKeySource, uuid, tools, mcpServers, parentTool, sessionID, part bool
	claude, qwen                                                       bool
}

func (f *foreignMarks) note(key []byte) {
	switch string(key) {
	case "uuid":
		f.uuid = true
	case "tools":
		f.tools = true
	case "mcp_servers":
		f.mcpServers = true
	case "parent_tool_use_id":
		f.parentTool = true
	case "claude_code_version":
		f.claude = true
	case "qwen_code_version":
		f.qwen = true
	case "sessionID":
		f.sessionID = true
	case "part":
		f.part = true
	}
}

// sniff tells whether the line proves its stream to be Cursor's, or whose else
// it is. Most lines prove neither.
func (l *cursorLine) sniff() (cursor bool, other string) {
	f, typ := &l.foreign, string(l.typ)
	switch {
	case typ == "tool_call" && len(l.subtype) > 0, typ == "thinking", l.hasModelCall:
		return true, ""
	case f.qwen:
		return false, "Qwen Code"
	case l.kind == runStart && strings.HasPrefix(string(l.session), "T-"):
		return false, "Amp"
	case f.claude, f.uuid && len(l.session) > 0, f.tools && f.mcpServers, f.parentTool, typ == "stream_event":
		return false, "Claude Code"
	case strings.HasPrefix(typ, "thread."), strings.HasPrefix(typ, "item."):
		return false, "Codex"
	case typ == "init":
		return false, "Gemini CLI"
	case f.sessionID && f.part:
		return false, "opencode"
	case l.kind == runStart && f.apiKeySource:
		return true, ""
	case l.kind == runStart && f.tools:
		return false, "another agent"
	}
	return false, ""
}
