package agent

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// opencode is opencode, run with --format json. It prints a part of a message once
// the part is complete, with its start and end times. A step is a model call. There
// is no result: the run ends with the stream, if its last step has ended. Builds since 2.0
// print a part of a step after the step's end, and no end of the last step.
var opencode = Agent{
	Flag:     "opencode",
	Name:     "opencode",
	Commands: []string{"opencode"},
	Packages: []string{"opencode-ai"},
	TurnEnds: true,
	objects:  func() objectDecoder { return &opencodeDecoder{sessions: map[string]*opencodeSession{}} },
	Proof:    shapes("sessionID part.messageID part.type", "type=error timestamp sessionID error.name"),
	ends: endings{
		"step_finish": {"type": succeeded, "part.reason": oneOf("stop", "length", "tool-calls", "content-filter", "other", "unknown"), "part.error": failedWith, "error": failedWith},
		"text":        {"type": succeeded, "part.error": failedWith, "error": failedWith}, // since 2.0
	},
}

// An opencodeDecoder remembers the step of each session. Every line names its session, and
// every part its message.
type opencodeDecoder struct {
	lineOf[opencodeLine, *opencodeLine]
	sessions map[string]*opencodeSession
}

// An opencodeSession is the state of a session.
type opencodeSession struct {
	message []byte          // of the step that end ends
	end     held            // of a step, and the start of the next one: parts of the step may follow
	over    held            // the end of the run, if nothing follows
	answer  held            // the ends of the step and the run, if nothing follows and no line ends the step
	spoke   Instant         // when the text in answer ended
	running map[string]bool // calls that are printed before they end
	open    bool            // the build prints no end of a run's last step
	failed  bool            // an error was reported
}

// maxSteps is how many sessions are remembered. It is less than what the mapping keeps open.
const maxSteps = 512

func (d *opencodeDecoder) Flush(_ int, dst []Event) []Event {
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) {
		s := d.sessions[id]
		switch dst = s.end.take(dst); {
		case s.failed:
		case len(s.over) > 0:
			dst = s.over.take(dst)
		case s.open && len(s.running) == 0:
			dst = s.answer.take(dst)
		}
	}
	clear(d.sessions)
	return dst
}

func (d *opencodeDecoder) events(dst []Event) []Event {
	l := &d.line
	l.classify()
	if len(l.Session) == 0 {
		return append(dst, l.Event)
	}
	s := d.sessions[string(l.Session)]
	if s == nil {
		if len(d.sessions) >= maxSteps {
			dst = d.Flush(0, dst)
		}
		s = &opencodeSession{running: map[string]bool{}}
		d.sessions[string(l.Session)] = s
	}
	return s.events(l, dst)
}

func (s *opencodeSession) events(l *opencodeLine, dst []Event) []Event {
	ofEnded := len(s.end) > 0 && bytes.Equal(l.ModelCallID, s.message)
	s.open = s.open || l.partID || ofEnded && l.Kind == TextMessage
	switch l.Kind {
	case TurnStart:
		s.over, s.answer = nil, nil
		if len(s.end) > 0 && !ofEnded {
			s.end = append(s.end, l.Kept())
			return dst
		}
		dst = s.end.take(dst)
	case TextMessage, ThinkingMessage, ToolCall:
		if !ofEnded {
			dst, s.over = s.end.take(dst), nil
			s.follow(l)
		}
	case TurnEnd:
		dst = s.end.take(dst)
		s.message, s.answer, s.over, s.end = bytes.Clone(l.ModelCallID), nil, nil, hold(l.Event)
		if l.Final {
			s.over = hold(l.runEnd())
		}
		return dst
	case RunError:
		dst = s.end.take(dst)
		s.failed = true
	case Notice: // a call that has not ended
		if len(l.ID) > 0 {
			remember(s.running, l.ID, true)
		}
	}
	return append(dst, l.Event)
}

// follow records a part of a step that has not ended. The answer is its last text, unless a
// call or a later thought follows.
func (s *opencodeSession) follow(l *opencodeLine) {
	switch {
	case l.Kind == TextMessage:
		s.spoke = l.Time
		end := l.runEnd()
		end.NoEnd = true
		s.answer = hold(Event{
			Kind: TurnEnd, Session: l.Session, Time: l.Time, Arrival: l.Arrival, ModelCallID: l.ModelCallID, Final: true,
		}, end)
	case l.Kind == ToolCall:
		delete(s.running, string(l.ID))
		s.answer = nil
	case l.Time > s.spoke:
		s.answer = nil
	}
}

// runEnd returns the end of the run, if the line is the last one.
func (l *opencodeLine) runEnd() Event {
	end := Event{Kind: RunEnd, Session: l.Session, Time: l.Time, Arrival: l.Arrival}
	l.settle(&end)
	return end
}

// An opencodeLine is one line.
type opencodeLine struct {
	line
	id         []byte  // of the part, or of the call
	start, end Instant // of the part
	call       struct{ start, end Instant }
	failed     bool // the line says what went wrong
	goesOn     bool // the model is called again after the step
	partID     bool // the part has its id in a member that builds before 2.0 lack
}

func (l *opencodeLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "part":
		l.part(r)
	case "error":
		l.failed = r.Peek() != 'n'
		f := readFault(r)
		l.Text, l.code = f.text, f.name
		l.Facts.status(f.status)
	case "type", "timestamp", "sessionID":
		l.line.field(r, key)
	}
}

func (l *opencodeLine) classify() {
	l.Kind = Unknown
	switch string(l.typ) {
	case "step_start":
		l.Kind, l.Asks = TurnStart, true
	case "text":
		l.Kind = TextMessage
		l.timed()
	case "reasoning":
		l.Kind = ThinkingMessage
		l.timed()
	case "tool_use":
		if l.ID == nil {
			l.ID = l.id
		}
		if l.Status == "pending" || l.Status == "running" { // the call will be printed again
			l.Kind = Notice
			return
		}
		l.Kind = ToolCall
		if l.call.start != 0 || l.call.end != 0 {
			l.start, l.end = l.call.start, l.call.end
		}
		l.timed()
		l.inferIf(l.start == 0)
		l.toolFailed()
		l.notCalled()
		l.startsSubagent()
		l.Tool.finish()
	case "step_finish":
		l.Kind, l.Final = TurnEnd, !l.goesOn
	case "error":
		if len(l.Session) > 0 && l.failed { // else it is another program's, on the same pipe
			l.Kind, l.Status = RunError, cmp.Or(l.code, semconv.ErrorOther)
		}
	}
}

// startsSubagent records which sub-agent a call starts, as builds since 2.0 name it.
func (l *opencodeLine) startsSubagent() {
	c := l.tool()
	if c.Name != "subagent" && c.Name != "task" || c.Subagent != "" {
		return
	}
	r := jsonscan.Reader{B: c.Arguments}
	readMember(&r, "agent", func() { c.argument([]byte("agent_type"), r.Str()) })
}

// notCalled handles a call that opencode could not make, because there is no such tool or it does
// not take these arguments: in its place, opencode prints a call of "invalid" that went well.
func (l *opencodeLine) notCalled() {
	c := l.tool()
	if c.Name != "invalid" {
		return
	}
	r := jsonscan.Reader{B: c.Arguments}
	for key := range r.Members() {
		switch string(key) {
		case "tool":
			c.named(r.Str())
		case "error":
			c.failedAs("", r.Str())
		}
	}
	if bytes.Contains(c.ErrorText, []byte("unavailable tool")) {
		c.noSuchTool()
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
		case "id":
			l.id = readID(r)
		case "partID":
			l.partID = true
		case "text", "callID":
			l.line.field(r, key)
		case "time":
			readTimes(r, &l.start, &l.end)
		case "model": // builds differ in where they name it, and some do not
			for key := range r.Members() {
				l.model(r, key)
			}
		case "providerID", "modelID":
			l.model(r, key)
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

// model reads the name of a step's model, or of who serves it.
func (l *opencodeLine) model(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "providerID":
		l.Provider = jsonscan.Unquote(r.Str())
	case "modelID":
		l.Model = jsonscan.Unquote(r.Str())
	}
}

// readTimes reads {"start":..,"end":..}.
func readTimes(r *jsonscan.Reader, start, end *Instant) {
	for key := range r.Members() {
		switch string(key) {
		case "start":
			*start = millis(r)
		case "end":
			*end = millis(r)
		}
	}
}

// tokens reads a step's counts. The input leaves out cached tokens, and in some builds
// the output leaves out reasoning tokens: the total shows which. Builds without a total
// leave them out.
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
	if total == 0 || total == u.Input+u.Output+u.Reasoning {
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
			l.metadata(r, false)
		case "time":
			readTimes(r, &l.call.start, &l.call.end)
		}
	}
}

// metadata reads what a tool says of its call besides its output. Builds since 2.0 have it
// within another one.
func (l *opencodeLine) metadata(r *jsonscan.Reader, inner bool) {
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
		case "metadata":
			if !inner {
				l.metadata(r, true)
			}
		}
	}
}
