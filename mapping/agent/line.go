package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A lineReader reads the members of an object.
type lineReader interface {
	head() *line
	field(r *jsonscan.Reader, key []byte)
}

// A lineOf is the line that a decoder reads.
type lineOf[L any, P interface {
	*L
	lineReader
}] struct{ line L }

func (c *lineOf[L, P]) begin(bool) lineReader {
	c.line = *new(L)
	return P(&c.line)
}

// holdsNothing is the Flush of a decoder that emits all events at once.
type holdsNothing struct{}

func (holdsNothing) Flush(_ int, dst []Event) []Event { return dst }

// A line holds the members of a line that mean the same for all agents. A decoder reads the
// members that only its agent has, and makes events of both.
type line struct {
	Event
	typ, subtype []byte
	role         string
	fault        []byte // the text of an error
	code         string // the name of that error

	object   []byte // as it is written
	tail     []byte // the end of an object that was cut
	ends     endings
	input    int    // that the line is from
	path     string // of that input
	recorded bool   // its arrival is a place, see Line
}

func (l *line) head() *line { return l }

// field reads a member that means the same in the lines of all agents that have it.
func (l *line) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.Str()
	case "subtype":
		l.subtype = r.Str()
	case "session_id", "sessionID", "sessionId":
		l.Session = readID(r)
	case "timestamp", "timestamp_ms":
		l.Time = stamp(r)
	case "call_id", "callID", "toolCallId", "tool_id", "tool_use_id":
		l.ID = readID(r)
	case "text", "thinking":
		l.Text = r.Str()
	case "model":
		l.Model = jsonscan.Unquote(r.Str())
	case "provider":
		l.Provider = jsonscan.Unquote(r.Str())
	case "role":
		l.role = string(enumOf(r))
	case "status":
		l.Status = string(enumOf(r))
	case "is_error", "isError":
		l.Failed = r.Bool()
	case "error":
		l.fault, l.code = readFailure(r)
	case "message":
		l.fault = r.Str()
	case "duration_ms", "durationMs":
		l.Length = millis(r)
	case "usage":
		l.used().read(r)
		l.Usage.addCached()
	case "toolName", "tool_name":
		l.tool().named(r.Str())
	case "arguments", "args", "parameters":
		l.tool().readArguments(r)
	case "output", "aggregated_output":
		l.tool().readOutput(r)
	case "cwd":
		l.Facts.text(semconv.ProcessWorkingDirectory, Detail, r.Str())
	default:
		l.Facts.read(r, lineFacts, key)
	}
}

// tool returns what the line states about a call.
func (l *line) tool() *Tool {
	if l.Tool == nil {
		l.Tool = new(Tool)
	}
	return l.Tool
}

// readBlocks reads the content of a message: a text, or a list of blocks.
func readBlocks(r *jsonscan.Reader) (blocks []line) {
	if r.Peek() == '"' {
		return []line{{Event: Event{Kind: TextMessage, Text: r.Str()}}}
	}
	for range r.Elements() {
		blocks = append(blocks, readBlock(r))
	}
	return blocks
}

// readBlock reads a block of a message's content. Tools that a model's API itself runs have
// types of their own, such as server_tool_use and web_search_tool_result.
func readBlock(r *jsonscan.Reader) (b line) {
	for key := range r.Members() {
		switch string(key) {
		case "id":
			b.ID = readID(r)
		case "name":
			b.tool().named(r.Str())
		case "input":
			b.tool().readArguments(r)
		case "content":
			b.tool().readResult(r)
		case "type", "text", "thinking", "tool_use_id", "arguments", "is_error":
			b.field(r, key)
		}
	}
	switch {
	case string(b.typ) == "text":
		b.Kind = TextMessage
	case bytes.HasSuffix(b.typ, []byte("thinking")):
		b.Kind = ThinkingMessage
	case bytes.HasSuffix(b.typ, []byte("tool_use")), string(b.typ) == "toolCall":
		b.Kind = ToolStart
	case bytes.HasSuffix(b.typ, []byte("tool_result")):
		b.Kind = ToolEnd
	}
	return b
}

// firstText returns the first text of a message, nil if it has none.
func firstText(blocks []line) []byte {
	for i := range blocks {
		if blocks[i].Kind == TextMessage {
			return blocks[i].Text
		}
	}
	return nil
}

// used returns what the line states about token counts.
func (l *line) used() *Usage {
	if l.Usage == nil {
		l.Usage = new(Usage)
	}
	return l.Usage
}

// warn makes a notice of a line that warns of something.
func (l *line) warn(text []byte) {
	l.Kind, l.Notice = Notice, semconv.EventWarning
	l.Facts.text(semconv.Message, Full, text)
}

// lineFacts are the attributes for members that state a fact about a run or an incident.
var lineFacts = factTable{
	"attempt":              {semconv.Attempt, count},
	"maxAttempts":          {semconv.MaxAttempts, count},
	"max_retries":          {semconv.MaxAttempts, count},
	"delayMs":              {semconv.DelayMillis, count},
	"delay_ms":             {semconv.DelayMillis, count},
	"retryAttempt":         {semconv.Attempt, count},
	"maxRetries":           {semconv.MaxAttempts, count},
	"retryInMs":            {semconv.DelayMillis, count},
	"is_resume":            {semconv.RetryResumes, flag},
	"retry_delay_ms":       {semconv.DelayMillis, count},
	"permissionMode":       {semconv.PermissionMode, enumText},
	"permission_mode":      {semconv.PermissionMode, enumText},
	"claude_code_version":  {semconv.AgentVersion, wordText},
	"qwen_code_version":    {semconv.AgentVersion, wordText},
	"apiKeySource":         {semconv.ClaudeAPIKeySource, wordText},
	"terminal_reason":      {semconv.ClaudeTerminalReason, enumText},
	"api_error_status":     {semconv.HTTPResponseStatus, count},
	"apiErrorStatus":       {semconv.HTTPResponseStatus, count},
	"error_status":         {semconv.HTTPResponseStatus, count},
	"error_category":       {semconv.Reason, enumText},
	"reason":               {semconv.Reason, enumText},
	"trigger":              {semconv.Reason, enumText},
	"reasoning_effort":     {semconv.ReasoningLevel, enumText},
	"thinkingLevel":        {semconv.ReasoningLevel, enumText},
	"outcome":              {semconv.HookOutcome, enumText},
	"exit_code":            {semconv.ProcessExitCode, count},
	"pre_tokens":           {semconv.TokensBefore, count},
	"preCompactionTokens":  {semconv.TokensBefore, count},
	"preTokens":            {semconv.TokensBefore, count},
	"tokensBefore":         {semconv.TokensBefore, count},
	"post_tokens":          {semconv.TokensAfter, count},
	"postCompactionTokens": {semconv.TokensAfter, count},
	"postTokens":           {semconv.TokensAfter, count},
	"tokensAfter":          {semconv.TokensAfter, count},
	"estimatedTokensAfter": {semconv.TokensAfter, count},
	"rateLimitType":        {semconv.RateLimitType, enumText},
	"resetsAt":             {semconv.RateLimitResets, count},
}

// inSession sets the session of events.
func inSession(session []byte, events []Event) {
	for i := range events {
		events[i].Session = session
	}
}
