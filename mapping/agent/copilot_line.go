package agent

import (
	"cmp"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A copilotLine is one line: an envelope with data, or the result, which has none.
// The meaning of a member of data does not depend on the line's type, which may
// come last.
type copilotLine struct {
	Event
	calling
	typ, errorType     string
	turn               string // its id
	id, agent, session []byte
	parentCall         []byte
	selected           []byte // model
	content, thinking  []byte
	message            []byte // of an error
	requestID          []byte
	askedFor, outcome  string
	calls              int
	success            bool
	used               Usage
	total              *Usage
	exit               Exit
	facts              facts
}

// begins tells whether a run begins with a line. When one is over, others of
// its lines may come that tidy up.
func (l *copilotLine) begins(over bool) bool {
	family, _, dotted := strings.Cut(l.typ, ".")
	switch {
	case !dotted:
		return false
	case !over, l.typ == "session.start", l.typ == "session.error":
		return true
	}
	return family == "user" || family == "assistant" || family == "tool"
}

func (l *copilotLine) read(r *jsonscan.Reader, pool *calls) {
	*l = copilotLine{calling: calling{from: pool}}
	for key := range r.Members() {
		l.field(r, key)
	}
}

func (l *copilotLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = string(r.Str())
	case "timestamp":
		l.Time = isoTime(r)
	case "id":
		l.id = r.Str()
	case "agentId":
		l.agent = readID(r)
	case "sessionId":
		l.session = readID(r)
	case "exitCode":
		l.exit.Code, l.exit.Known = r.Int()
	case "usage":
		l.runUsage(r)
	case "data":
		for key := range r.Members() {
			l.data(r, key)
		}
	default:
		r.Skip()
	}
}

func (l *copilotLine) data(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "sessionId":
		l.session = readID(r)
	case "selectedModel":
		l.selected = jsonscan.Unquote(r.Str())
	case "context":
		l.context(r)
	case "model":
		l.Model = jsonscan.Unquote(r.Str())
	case "content":
		l.content = r.Str()
	case "reasoningText":
		l.thinking = r.Str()
	case "deltaContent":
		l.Text = r.Str()
		l.Bytes = jsonscan.UnquotedLen(l.Text)
	case "toolRequests":
		for range r.Elements() {
			l.calls++
			r.Skip()
		}
	case "inputTokens", "outputTokens", "reasoningTokens", "cacheReadTokens", "cacheWriteTokens":
		l.used.countOf(r, key)
	case "finishReason":
		l.FinishReason = finishReason(r.Str())
	case "apiCallId":
		l.ModelCallID = readID(r)
	case "toolCallId":
		l.ID = readID(r)
	case "parentToolCallId":
		l.parentCall = readID(r)
	case "toolName":
		if name := r.Str(); l.tool().Name == "" {
			l.call.named(name)
		}
	case "mcpToolName":
		if name := r.Str(); len(name) > 0 {
			l.tool().named(name)
		}
	case "mcpServerName":
		if server := r.Str(); len(server) > 0 {
			l.tool().MCP = true
			l.call.arguments.text(semconv.MCPServer, Detail, server)
		}
	case "arguments":
		l.tool().readArguments(r)
	case "success":
		l.success = r.Bool()
	case "result":
		l.result(r)
	case "error":
		l.failure(r)
	case "message":
		l.message = r.Str()
	case "errorType":
		l.errorType = enum(r.Str())
	case "turnId":
		l.turn = string(readID(r))
	case "requestId":
		l.requestID = readID(r)
	case "permissionRequest":
		l.permission(r)
	case "preCompactionTokens":
		l.facts.number(r, semconv.TokensBefore)
	case "postCompactionTokens":
		l.facts.number(r, semconv.TokensAfter)
	case "modelMetrics":
		l.metrics(r)
	default:
		r.Skip()
	}
}

func (l *copilotLine) context(r *jsonscan.Reader) {
	for key := range r.Members() {
		if string(key) == "cwd" {
			l.facts.text(semconv.ProcessWorkingDirectory, Detail, r.Str())
		} else {
			r.Skip()
		}
	}
}

// countOf reads one of a call's counts. Its input includes what was cached.
func (u *Usage) countOf(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "inputTokens":
		readCount(r, &u.Input, &u.Known)
	case "outputTokens":
		readCount(r, &u.Output, &u.Known)
	case "reasoningTokens":
		readCount(r, &u.Reasoning, &u.Known)
	case "cacheReadTokens":
		readCount(r, &u.CacheRead, &u.Known)
	case "cacheWriteTokens":
		readCount(r, &u.CacheWrite, &u.Known)
	default:
		r.Skip()
	}
}

// result reads what a tool returned, {"content":..,"detailedContent":..}, or
// what became of a question, {"kind":"approved"}.
func (l *copilotLine) result(r *jsonscan.Reader) {
	again := *r
	for key := range again.Members() {
		switch string(key) {
		case "kind":
			l.outcome = enum(again.Str())
		case "content":
			text := again.Str()
			l.tool().textSize(text)
		default:
			again.Skip()
		}
	}
	if l.outcome != "" {
		l.facts.set(Fact{Key: semconv.QueryResponse, Kind: FactJSON, Level: Full, Text: r.Raw()})
		return
	}
	l.tool().readResult(r)
}

func (l *copilotLine) finishTool() {
	c := l.tool()
	switch code := l.errorType; {
	case l.success:
	case code == "denied" || code == "rejected" || strings.HasPrefix(code, "permission"):
		c.rejected()
	default:
		c.failed()
		c.ErrorType = cmp.Or(code, c.ErrorType)
	}
	if !l.success {
		c.ErrorText = l.message
	}
	l.Tool = c.finish()
}

// failure reads {"message":..,"code":..}, or a text.
func (l *copilotLine) failure(r *jsonscan.Reader) {
	if r.Peek() == '"' {
		l.message = r.Str()
		return
	}
	for key := range r.Members() {
		switch string(key) {
		case "message":
			l.message = r.Str()
		case "code":
			l.errorType = enum(r.Str())
		default:
			r.Skip()
		}
	}
}

// permissionDetails are the members that say what a request for permission is
// about.
var permissionDetails = map[string]string{
	"fullCommandText": semconv.ProcessCommandLine,
	"path":            semconv.FilePath,
	"fileName":        semconv.FilePath,
	"url":             semconv.URLFull,
	"serverName":      semconv.MCPServer,
}

func (l *copilotLine) permission(r *jsonscan.Reader) {
	r.Peek()
	start := r.I
	for key := range r.Members() {
		name, known := permissionDetails[string(key)]
		switch {
		case string(key) == "kind":
			l.askedFor = enum(r.Str())
		case string(key) == "toolCallId":
			l.ID = readID(r)
		case known:
			l.facts.text(name, Detail, r.Str())
		default:
			r.Skip()
		}
	}
	l.facts.set(Fact{Key: semconv.QueryArguments, Kind: FactJSON, Level: Full, Text: r.B[start:r.I]})
}

// metrics reads the session's counts by model,
// {"<model>":{"usage":{"inputTokens":..}}}.
func (l *copilotLine) metrics(r *jsonscan.Reader) {
	l.total = new(Usage)
	for range r.Members() {
		for key := range r.Members() {
			if string(key) != "usage" {
				r.Skip()
				continue
			}
			var u Usage
			for key := range r.Members() {
				u.countOf(r, key)
			}
			l.total.add(&u)
		}
	}
}

// runUsage reads the usage in the result:
// {"premiumRequests":1,"sessionDurationMs":..}.
func (l *copilotLine) runUsage(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "premiumRequests":
			l.facts.word(semconv.CopilotPremiumRequests, []byte(word(r.Raw())))
		case "sessionDurationMs":
			if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
				l.Length = Instant(ms) * Milliseconds
			}
		default:
			r.Skip()
		}
	}
}
