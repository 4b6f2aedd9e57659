package agent

import (
	"bytes"
	"cmp"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// opencode is opencode, run with --format json. It prints a part of a message once
// the part is complete, with its start and end times. A step is a model call. There
// is no result: the run ends with the stream.
var opencode = Agent{
	Flag:      "opencode",
	Name:      "opencode",
	TurnEnds:  true,
	EndsAtEOF: true,
	objects:   func() objectDecoder { return new(opencodeDecoder) },
	Proof:     shapes("sessionID part.messageID part.type", "type=error timestamp sessionID error.name"),
}

// An opencodeDecoder is stateless: every line has its session, and every part its
// message.
type opencodeDecoder struct {
	lineOf[opencodeLine, *opencodeLine]
	holdsNothing
}

func (d *opencodeDecoder) events(dst []Event) []Event {
	d.line.classify()
	return append(dst, d.line.Event)
}

// An opencodeLine is one line.
type opencodeLine struct {
	line
	start, end Instant // of the part
	failed     bool    // the line says what went wrong
	goesOn     bool    // the model is called again after the step
}

func (l *opencodeLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "part":
		l.part(r)
	case "error":
		l.failed = r.Peek() != 'n'
		l.Text, l.code = readFailure(r)
	case "type", "timestamp", "sessionID":
		l.line.field(r, key)
	}
}

func (l *opencodeLine) classify() {
	l.Kind = Unknown
	switch string(l.typ) {
	case "step_start":
		l.Kind = TurnStart
	case "text":
		l.Kind = TextMessage
		l.timed()
	case "reasoning":
		l.Kind = ThinkingMessage
		l.timed()
	case "tool_use":
		if l.Status == "pending" || l.Status == "running" { // the call will be printed again
			l.Kind = Notice
			return
		}
		l.Kind = ToolCall
		l.timed()
		l.toolFailed()
		l.Tool.finish()
	case "step_finish":
		l.Kind, l.Final = TurnEnd, !l.goesOn
	case "error":
		if len(l.Session) > 0 && l.failed { // else it is another program's, on the same pipe
			l.Kind, l.Status = RunError, cmp.Or(l.code, semconv.ErrorOther)
		}
	}
}

// toolFailed distinguishes failures by their text, the only thing that differs.
func (l *opencodeLine) toolFailed() {
	c := l.tool()
	switch text := c.ErrorText; {
	case l.Status != "error":
	case bytes.Contains(text, []byte("rejected permission")), bytes.Contains(text, []byte("rule which prevents")):
		c.rejected()
	default:
		c.failed()
	}
}

// timed sets the times of a part. Some builds write the end of a text as its start,
// too.
func (l *opencodeLine) timed() {
	if l.end != 0 {
		l.Time = l.end
	}
	if l.Kind == ToolCall || l.start < l.end {
		l.Start = l.start
	}
}

// part reads a part of a message.
func (l *opencodeLine) part(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "messageID":
			l.ModelCallID = readID(r)
		case "text", "callID":
			l.line.field(r, key)
		case "time":
			l.times(r)
		case "reason":
			reason := r.Str()
			l.FinishReason = finishReason(reason)
			l.goesOn = string(reason) == "tool-calls" || string(reason) == "unknown"
		case "cost":
			l.used().readCost(r)
		case "tokens":
			l.tokens(r)
		case "tool":
			l.tool().named(r.Str())
		case "state":
			l.toolState(r)
		}
	}
}

func (l *opencodeLine) times(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "start":
			l.start = millis(r)
		case "end":
			l.end = millis(r)
		}
	}
}

// tokens reads a step's counts. The input leaves out cached tokens, and in some builds
// the output leaves out reasoning tokens: the total shows which.
func (l *opencodeLine) tokens(r *jsonscan.Reader) {
	u := l.used()
	var total int64
	for key := range r.Members() {
		if string(key) == "total" {
			total, _ = r.Int()
		} else {
			u.count(r, key)
		}
	}
	u.addCached()
	if total == u.Input+u.Output+u.Reasoning {
		u.Output += u.Reasoning
	}
}

func (l *opencodeLine) toolState(r *jsonscan.Reader) {
	c := l.tool()
	for key := range r.Members() {
		switch string(key) {
		case "status":
			l.Status = string(enumOf(r))
		case "input":
			c.readArguments(r)
		case "output":
			c.readOutput(r)
		case "error":
			c.ErrorText = r.Str()
		case "title":
			if title := r.Str(); c.ArgumentFacts.Find(semconv.ToolDescription) == nil {
				c.ArgumentFacts.text(semconv.ToolDescription, Detail, title)
			}
		case "metadata":
			l.metadata(r)
		case "time":
			l.times(r)
		}
	}
}

// metadata reads what a tool says of its call besides its output.
func (l *opencodeLine) metadata(r *jsonscan.Reader) {
	c := l.Tool
	for key := range r.Members() {
		switch string(key) {
		case "exit", "exitCode":
			if code, ok := r.Int(); ok {
				c.exited(code)
			}
		case "truncated":
			c.OutcomeFacts.read(r, resultFacts, key)
		case "sessionId":
			c.OutcomeFacts.word(semconv.SubagentID, wordOf(r))
		}
	}
}
