package agent

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// copilot is GitHub's Copilot CLI, run with --output-format json. A turn is a model
// call with the tools that the model asks for. Lines of sub-agents are interleaved
// with the agent's and have an agentId. The session id may come only with the last
// line.
var copilot = Agent{
	Flag:     "copilot",
	Name:     "copilot-cli",
	Provider: "github",
	TurnEnds: true,
	New: func() Decoder {
		d := new(copilotDecoder)
		d.begin(nil)
		return d
	},
	IsProof: func(m *Marks) bool {
		return strings.Contains(m.Type, ".") && m.has("data") && m.has("id") || m.Type == "result" && m.has("sessionId") && m.has("exitCode")
	},
}

// A copilotDecoder reads one stream.
type copilotDecoder struct {
	scanner
	line    copilotLine
	session []byte
	begun   bool
	over    bool                    // nothing but another run may come
	turns   map[string]*copilotTurn // the current ones, by agent
	parents map[string][]byte       // the tool calls that started sub-agents, by agent
	started [][]byte                // tool calls whose sub-agent has not been seen
	asked   map[string]string       // kinds of open questions, by their ids
	fault   string                  // the last error's type
	total   *Usage                  // of the session
	running map[string]bool         // tool calls
	early   copilotEnd
	arrival Instant // of the current line
	cut     bool    // the line exceeds the parse limit
}

// A copilotEnd is the end of a tool call whose start has not come.
type copilotEnd struct {
	text    []byte
	id      string
	arrival Instant
}

// A copilotTurn is the state of a turn.
type copilotTurn struct {
	texts, thoughts int // deltas since the last whole text
	thought         bool
	usage           Usage
	counted         bool // from a source other than the output counts of messages
	calls           bool
	id              string
	answered        bool   // with a whole message or a call
	fault           string // the type of an error after which nothing came
}

// begin resets the state for a new session.
func (d *copilotDecoder) begin(session []byte) {
	d.session, d.begun, d.fault, d.total, d.started = bytes.Clone(session), false, "", nil, nil
	d.turns, d.parents, d.asked = map[string]*copilotTurn{}, map[string][]byte{}, map[string]string{}
	d.running = map[string]bool{}
}

// Flush implements [Decoder].
func (d *copilotDecoder) Flush(dst []Event) []Event { return d.takeEarly(dst) }

// Decode implements [Decoder].
func (d *copilotDecoder) Decode(line Line, dst []Event) []Event {
	d.arrival, d.cut = line.Arrival, line.Tail != nil
	return d.readObjects(line, dst, d)
}

// releasing are the types of lines that release the held end of a tool call: the
// call's start cannot follow them.
var releasing = set("user.message", "assistant.turn_start", "assistant.turn_end", "assistant.message", "assistant.message_delta",
	"tool.execution_start", "tool.execution_complete", "session.start", "result")

func (d *copilotDecoder) read(r *jsonscan.Reader, dst []Event) ([]Event, bool) {
	l := &d.line
	start := r.I
	l.read(r, &d.pool)
	if len(l.typ) == 0 || r.Bad && !d.cut {
		return dst, false
	}
	if l.typ == "result" && len(l.session) == 0 && !l.exit.Known { // another agent's
		return append(dst, Event{Kind: Unknown}), true
	}
	waiting := len(d.early.text) > 0 && releasing[l.typ]
	starts := waiting && l.typ == "tool.execution_start" && string(l.ID) == d.early.id
	if waiting && !starts {
		now := *l
		dst = d.takeEarly(dst)
		*l = now
	}
	if l.typ == "tool.execution_complete" && d.begun && len(l.ID) > 0 && !d.running[string(l.ID)] && !r.Bad {
		d.early = copilotEnd{bytes.Clone(r.B[start:r.I]), string(l.ID), d.arrival}
		return dst, true
	}
	dst = d.lineEvents(dst)
	if starts {
		dst = d.takeEarly(dst)
	}
	return dst, true
}

// takeEarly appends the end of a tool call that was held back.
func (d *copilotDecoder) takeEarly(dst []Event) []Event {
	if len(d.early.text) == 0 {
		return dst
	}
	from := len(dst)
	d.line.read(&jsonscan.Reader{B: d.early.text}, &d.pool)
	dst = d.lineEvents(dst)
	for i := from; i < len(dst); i++ {
		dst[i].Arrival = d.early.arrival
	}
	d.early = copilotEnd{}
	return dst
}

// lineEvents appends the events of the current line, and of the session that begins
// or ends with it.
func (d *copilotDecoder) lineEvents(dst []Event) []Event {
	l := &d.line
	if l.typ == "session.start" && d.begun && len(d.session) > 0 && !bytes.Equal(l.session, d.session) {
		d.begin(nil)
	}
	from := len(dst)
	if !d.begun && l.begins(d.over) {
		d.begun, d.over = true, false
		if l.typ == "session.start" {
			d.session = bytes.Clone(l.session)
		}
		dst = append(dst, Event{Kind: RunStart, Time: l.Time, ID: l.id, Model: l.selected, Facts: l.facts})
	}
	if !d.begun && l.typ != "result" {
		l.Kind = Ignored // it tidies up
		if !strings.Contains(l.typ, ".") {
			l.Kind = Unknown
		}
		return append(dst, l.Event)
	}
	if len(l.agent) > 0 {
		l.Parent = d.parent()
	}
	dst = d.classify(dst)
	for i := from; i < len(dst); i++ {
		if dst[i].Kind != SessionNamed && dst[i].Session == nil {
			dst[i].Session = d.session
		}
	}
	if l.typ == "result" {
		d.begin(nil)
		d.over = true
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
	case strings.HasPrefix(l.typ, "subagent.") && len(l.ID) > 0:
		p = bytes.Clone(l.ID)
	case len(l.parentCall) > 0:
		p = bytes.Clone(l.parentCall)
	case len(d.started) > 0: // the oldest call whose sub-agent has printed nothing yet
		p, d.started = d.started[0], d.started[1:]
	default:
		p = bytes.Clone(l.agent)
	}
	if len(d.parents) < maxSessions {
		d.parents[string(l.agent)] = p
	}
	return p
}

func (d *copilotDecoder) turn() *copilotTurn {
	key := string(d.line.agent)
	t := d.turns[key]
	if t == nil {
		if len(d.turns) >= maxSessions {
			clear(d.turns)
		}
		t = new(copilotTurn)
		d.turns[key] = t
	}
	return t
}

func (d *copilotDecoder) classify(dst []Event) []Event {
	l := &d.line
	l.Kind = Ignored
	switch l.typ {
	case "session.start":
	case "user.message":
		l.Kind, l.Text = Prompt, l.content
	case "assistant.turn_start":
		*d.turn() = copilotTurn{id: l.turn}
		l.Kind = TurnStart
	case "assistant.message_delta":
		t := d.turn()
		t.texts++
		t.fault = ""
		l.Kind = TextDelta
	case "assistant.reasoning_delta":
		t := d.turn()
		t.thoughts++
		t.thought, t.fault = true, ""
		l.Kind = ThinkingDelta
	case "assistant.reasoning":
		return d.reasoning(dst, l.content)
	case "assistant.message":
		return d.message(dst)
	case "assistant.usage":
		t := d.turn()
		if !t.counted {
			t.usage = Usage{}
		}
		t.counted = true
		t.usage.add(&l.used)
		l.Kind, l.Usage = TextEnd, t.used()
	case "assistant.turn_end":
		t := d.turn()
		if l.turn != "" && t.id != "" && l.turn != t.id { // the end of the turn before
			l.Kind = Notice
			break
		}
		l.Kind, l.Final = TurnEnd, !t.calls
		l.Failed, l.Status = t.fault != "", t.fault
	case "tool.execution_start":
		d.turn().answered = true
		if len(d.running) < maxSessions {
			d.running[string(l.ID)] = true
		}
		l.Kind, l.Tool = ToolStart, l.tool().finish()
	case "tool.execution_complete":
		delete(d.running, string(l.ID))
		l.Kind = ToolEnd
		l.finishTool()
	case "subagent.started":
		if len(l.agent) == 0 && len(d.started) < maxSessions {
			d.started = append(d.started, bytes.Clone(l.ID))
		}
	case "session.error":
		d.fail(cmp.Or(l.errorType, "error"))
		l.Text = l.message
	case "abort":
		d.fail("aborted")
	case "session.warning":
		l.Kind, l.Notice = Notice, semconv.EventWarning
		l.Facts = []Fact{{Key: semconv.Message, Kind: FactText, Level: Full, Text: l.message}}
	case "session.compaction_complete":
		l.Kind, l.Notice, l.Facts = Notice, semconv.EventCompaction, l.facts
	case "session.shutdown":
		d.total = l.total
	case "result":
		return d.result(dst)
	default:
		d.question()
	}
	return append(dst, l.Event)
}

// fail handles an error, which breaks off a model call that is not over.
func (d *copilotDecoder) fail(fault string) {
	l := &d.line
	d.fault = fault
	if t := d.turn(); !t.answered {
		t.fault = fault
	}
	l.Kind, l.Status = RunError, fault
}

// question handles requests to the user, such as "permission.requested". For other
// lines only the time counts.
func (d *copilotDecoder) question() {
	l := &d.line
	kind, end := strings.CutSuffix(l.typ, ".completed")
	kind, start := strings.CutSuffix(kind, ".requested")
	id := string(l.requestID)
	switch {
	case id != "" && start:
		l.Kind, l.Query = ApprovalStart, cmp.Or(l.askedFor, kind)
		if len(d.asked) < maxSessions {
			d.asked[id] = l.Query
		}
		l.ToolCallID, l.Facts = l.ID, l.facts
	case id != "" && end:
		l.Kind, l.Query = ApprovalEnd, cmp.Or(d.asked[id], kind)
		delete(d.asked, id)
		l.Status = cmp.Or(l.outcome, "completed")
		l.Failed = strings.HasPrefix(l.Status, "denied")
	case !strings.Contains(l.typ, "."):
		l.Kind = Unknown
	default:
		l.Kind = Notice
	}
	l.ID = l.requestID
}

// reasoning handles a whole block of thinking, which deltas may already have
// printed.
func (d *copilotDecoder) reasoning(dst []Event, text []byte) []Event {
	l := &d.line
	t := d.turn()
	ev := Event{Kind: ThinkingMessage, Time: l.Time, Parent: l.Parent, Text: text, Bytes: jsonscan.UnquotedLen(text)}
	if t.thoughts > 0 {
		ev.Kind = ThinkingEnd
	}
	t.thoughts, t.thought, t.fault = 0, true, ""
	return append(dst, ev)
}

// message handles a whole message, whose text deltas may already have printed.
func (d *copilotDecoder) message(dst []Event) []Event {
	l := &d.line
	t := d.turn()
	if len(l.thinking) > 0 && (!t.thought || t.thoughts > 0) {
		dst = d.reasoning(dst, l.thinking)
	}
	l.Text, l.Bytes = l.content, jsonscan.UnquotedLen(l.content)
	l.Kind = TextMessage
	if t.texts > 0 || len(l.content) == 0 {
		l.Kind, l.Text = TextEnd, nil
	}
	t.texts, t.thought = 0, false
	t.answered, t.fault = true, ""
	t.calls = t.calls || l.calls > 0
	if !t.counted && l.used.Known {
		t.usage.add(&l.used)
		t.usage.OutputOnly = true
	}
	if t.usage.Known {
		l.Usage = t.used()
	}
	return append(dst, l.Event)
}

func (t *copilotTurn) used() *Usage {
	u := t.usage
	return &u
}

// add adds counts.
func (u *Usage) add(v *Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Reasoning += v.Reasoning
	u.Known = u.Known || v.Known
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
	l.Kind, l.Usage, l.Facts = RunEnd, d.total, l.facts
	if l.exit.Known && l.exit.Code != 0 {
		l.Failed, l.Status = true, cmp.Or(d.fault, "failure")
	}
	return append(dst, l.Event)
}
