package agent

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// pi is the coding agent pi, run with --mode json. Few lines have times: a message
// has the time of its beginning, a tool's result is a message, and an entry_appended
// right after a message has the time at which the message ended. A turn is a model call with the tools
// that the model asked for.
var pi = Agent{
	Flag:     "pi",
	Name:     "pi",
	Commands: []string{"pi"},
	Packages: []string{"@mariozechner/pi-coding-agent"},
	TurnEnds: true, EndsOnTime: true,
	objects: func() objectDecoder { return new(piDecoder) },
	Proof: shapes(
		"type=message_update assistantMessageEvent",
		"type=message_start|message_end message.role message.content message.timestamp !id",
		"type=tool_execution_start toolCallId toolName args",
		"type=tool_execution_end toolCallId toolName isError",
		"type=turn_end message toolResults",
	),
	ends: endings{"agent_end": {
		"messages.stopReason": oneOf("stop", "length", "toolUse"), "messages.errorMessage": failedWith, "error": failedWith, "errorMessage": failedWith,
	}},
	Alone: shapes("type=session version id=????????-????-????-????-???????????? timestamp=*-*T*:* cwd"),
	Lines: shapes(
		"type=session version id cwd",
		"type=agent_start|agent_end|agent_settled|turn_start|turn_end !event !session_id",
		"type=message_start|message_end message.role message.timestamp !event",
		"type=tool_execution_start|tool_execution_update|tool_execution_end toolCallId",
		"type=entry_appended entry",
		"type=auto_retry_start|auto_retry_end attempt",
		"type=compaction_start|compaction_end|auto_compaction_start|auto_compaction_end reason",
	),
}

// A piDecoder remembers the current session, because most lines have no session id.
// It holds back the end of a tool until the message with its time, the end of the
// model's message until the next line with a time, and the end of the run because a
// retry or a compaction may follow.
type piDecoder struct {
	lineOf[piLine, *piLine]
	session []byte
	next    held    // the start of a run, if an agent_start follows: session logs have such a line, too
	begun   bool    // the model's message has a message_start
	failed  bool    // the last message broke off
	deltas  int     // of the current message
	asked   Instant // when the model's message began
	pending held    // the end of the model's message, and the events without a time that follow it
	delay   Instant // before the retry in pending
	endedAt Instant // when the model's message ended, if that is known and no line with a time has come since
	running int     // tools
	ended   held    // of tools
	end     held    // of the run
}

func (d *piDecoder) Flush(_ int, dst []Event) []Event {
	if dst = d.finish(dst); d.session == nil { // it died after its first line
		dst = d.next.take(dst)
	}
	return dst
}

// finish appends what is held back of the session.
func (d *piDecoder) finish(dst []Event) []Event {
	from := len(dst)
	dst = d.end.take(d.ended.take(d.endMessage(dst, 0)))
	inSession(d.session, dst[from:])
	return dst
}

// endMessage appends the end of the model's message, at the given time if that is known.
func (d *piDecoder) endMessage(dst []Event, at Instant) []Event {
	for _, ev := range d.pending {
		ev.Time = at
		dst = append(dst, ev)
	}
	d.pending, d.delay = nil, 0
	return dst
}

// endMessageBefore appends the end of the model's message, before a line with a time. If
// a retry follows, the message ended when the wait for it began. Otherwise it is only
// known to have ended between two times.
func (d *piDecoder) endMessageBefore(dst []Event, next Instant) []Event {
	at := Instant(0)
	switch {
	case next <= d.asked || d.asked == 0:
	case d.delay > 0:
		at = max(d.asked, next-d.delay)
	default:
		at = d.asked + (next-d.asked)/2
	}
	for i := range d.pending {
		d.pending[i].Late, d.pending[i].Known = true, Inferred
	}
	return d.endMessage(dst, at)
}

// after appends the current event, which has no time, behind the end of a message.
func (d *piDecoder) after(dst []Event) []Event {
	if len(d.pending) == 0 {
		return append(dst, d.line.Event)
	}
	d.pending = append(d.pending, d.line.Kept())
	return dst
}

func (d *piDecoder) events(dst []Event) []Event {
	l := &d.line
	if l.began > 0 && bytes.HasPrefix(l.typ, []byte("message_")) { // other lines repeat messages
		l.Time = l.began
	}
	switch typ := string(l.typ); {
	case typ == "session":
		l.Kind, l.Session = RunStart, l.id
		d.next = hold(l.Event)
		return dst
	case d.next != nil && (typ == "agent_start" || d.session == nil):
		dst = d.finish(dst) // builds without agent_settled do not end the previous session
		d.session, d.running = d.next[0].Session, 0
		dst = d.next.take(dst)
	}
	from := len(dst)
	if dst = d.lineEvents(dst); l.Kind != Unknown {
		d.next = nil
	}
	inSession(d.session, dst[from:])
	return dst
}

// lineEvents appends the events of a line that belongs to a session.
func (d *piDecoder) lineEvents(dst []Event) []Event {
	l := &d.line
	switch string(l.typ) {
	case "message_start":
		return d.messageStart(dst)
	case "message_update":
		d.update()
	case "message_end":
		return d.messageEnd(dst)
	case "tool_execution_start":
		dst = d.endMessage(dst, 0)
		d.running++
		l.Kind = ToolStart
		l.tool().finish()
		l.Time, l.Late = d.endedAt, true
	case "tool_execution_end":
		d.toolEnd()
		return dst
	case "turn_end":
		dst = d.ended.take(dst)
		l.Kind, l.Final = TurnEnd, l.answered()
		if l.broke() {
			if d.failed { // message_end said so
				l.Kind = Ignored
				return append(dst, l.Event)
			}
			l.breakOff(&l.Event)
		}
		l.Time, l.Late = d.endedAt, true
		return d.after(dst)
	case "agent_end":
		dst = d.ended.take(dst)
		d.holdEnd()
		l.Kind = Ignored
	case "agent_settled":
		return d.end.take(d.endMessage(dst, 0))
	case "auto_retry_start":
		d.end = nil
		l.Kind, l.Notice = Notice, semconv.EventRetry
		d.delay = Instant(l.Facts.number(semconv.DelayMillis)) * Milliseconds
		return d.after(dst)
	case "compaction_end", "auto_compaction_end":
		l.compaction()
		l.Kind, l.Notice = Notice, semconv.EventCompaction
		return d.after(dst)
	case "entry_appended":
		if len(d.pending) > 0 {
			d.endedAt = l.Time
			dst = d.endMessage(dst, l.Time)
		}
		l.Kind = Notice // only its time counts
	case "agent_start", "turn_start", "tool_execution_update", "auto_retry_end", "compaction_start", "auto_compaction_start":
		l.Kind = Ignored
	default:
		l.Kind = Unknown
	}
	return append(dst, l.Event)
}

// messageStart handles the beginning of a message. The model's message has the time
// of the request.
func (d *piDecoder) messageStart(dst []Event) []Event {
	l := &d.line
	d.begun, d.deltas = true, 0
	dst = d.endMessageBefore(dst, l.Time)
	switch l.role {
	case "user":
		dst = d.end.take(dst)
		l.Kind, l.Text = Prompt, firstText(l.blocks())
	case "assistant":
		d.end = nil // the agent goes on
		d.asked, d.endedAt = l.Time, 0
		l.Usage, l.FinishReason = nil, ""
		l.asks()
	case "toolResult":
		return d.toolResult(dst)
	default:
		l.Kind = Ignored
	}
	return append(dst, l.Event)
}

// toolResult ends the tool that a message belongs to. If several tools ran at once,
// their messages come after all have ended.
func (d *piDecoder) toolResult(dst []Event) []Event {
	l := &d.line
	i := slices.IndexFunc(d.ended, func(ev Event) bool { return bytes.Equal(ev.ID, l.ID) })
	if i < 0 {
		return append(dst, Event{Kind: Notice, Time: l.Time})
	}
	if ev := &d.ended[i]; ev.Length > 0 && ev.End == 0 && l.recorded { // they began together, and the longest has just ended
		longest := slices.MaxFunc(d.ended, func(a, b Event) int { return cmp.Compare(a.Length, b.Length) }).Length
		for k := range d.ended {
			d.ended[k].End = l.Time - longest + d.ended[k].Length
		}
	}
	ev := d.ended[i]
	ev.Time = l.Time
	if ev.Length == 0 {
		if ev.Late = ev.Known == Inferred; !ev.Late { // the time is that of this line
			ev.Arrival = l.Arrival
		}
	}
	d.ended = slices.Delete(d.ended, i, i+1)
	return append(dst, ev)
}

// messageEnd handles the end of a message, with its counts, and with its texts if
// they came without deltas.
func (d *piDecoder) messageEnd(dst []Event) []Event {
	l := &d.line
	if l.role != "assistant" {
		if !d.begun {
			dst = d.messageStart(dst)
		}
		d.begun = false
		return dst
	}
	if !d.begun {
		var start piLine
		start.Time = l.Time
		start.asks()
		dst = append(d.endMessageBefore(dst, l.Time), start.Event)
		d.asked, d.endedAt = l.Time, 0
	}
	l.Time = 0 // of its beginning
	if d.deltas == 0 {
		for _, b := range l.blocks() {
			if len(b.Text) > 0 {
				b.Arrival = l.Arrival
				d.pending = append(d.pending, b.Kept())
			}
		}
	}
	l.Kind, l.Final = TextEnd, l.answered()
	if d.failed = l.broke(); d.failed { // a retry follows without a turn_end
		l.Kind = TurnEnd
		l.breakOff(&l.Event)
	}
	d.pending = append(d.pending, l.Kept())
	d.begun, d.deltas = false, 0
	if l.Length > 0 {
		d.endedAt = d.asked + l.Length
		for i := range d.pending {
			d.pending[i].Known = Stated
		}
		dst = d.endMessage(dst, d.endedAt)
	}
	return dst
}

// asks makes the event the beginning of a model call. The time of a message is when the agent
// asked for it, though the message is printed when it begins, or later.
func (l *piLine) asks() { l.Kind, l.Asks, l.Start, l.Late = TurnStart, true, l.Time, true }

// update handles a piece of the model's message.
func (d *piDecoder) update() {
	l := &d.line
	l.Usage = nil // so far
	switch l.update {
	case "text_delta":
		l.Kind = TextDelta
		d.deltas++
	case "thinking_delta":
		l.Kind = ThinkingDelta
		d.deltas++
	case "text_end":
		l.Kind, l.Text = TextEnd, nil
	case "thinking_end":
		l.Kind, l.Text = ThinkingEnd, nil
	case "toolcall_start":
		l.Kind = OtherOutput
	case "", "start", "text_start", "thinking_start", "toolcall_delta", "toolcall_end", "done", "error":
		l.Kind = Ignored
	default:
		l.Kind, l.subtype = Unknown, []byte(l.update)
	}
}

// toolEnd holds back the end of a tool.
func (d *piDecoder) toolEnd() {
	l := &d.line
	d.endedAt = 0
	c := &Tool{Name: l.tool().Name}
	if len(l.result) > 0 {
		c.readResult(&jsonscan.Reader{B: l.result})
		r := jsonscan.Reader{B: l.result}
		readMember(&r, "structuredContent", func() {
			readMember(&r, "exit_code", func() {
				if code, ok := r.Int(); ok {
					c.exited(code)
				}
			})
		})
	}
	if l.Failed {
		c.failedAs("", nil)
		c.brokenOff()
	}
	end := Event{Kind: ToolEnd, ID: l.ID, Tool: c.finish(), Arrival: l.Arrival, Length: l.Length, Late: true}
	end.inferIf(l.Length == 0 && (d.running > 1 || len(d.ended) > 0))
	d.ended = append(d.ended, hold(end)...)
	d.running = max(0, d.running-1)
}

// holdEnd holds the end of the run back.
func (d *piDecoder) holdEnd() {
	l := &d.line
	d.running = 0
	if l.goesOn {
		return
	}
	end := Event{Kind: RunEnd, Arrival: l.Arrival}
	if l.broke() {
		l.breakOff(&end)
	}
	l.settle(&end)
	d.end = hold(end)
}

// A piMessage is what a line of the stream and a row of a log say of a message.
type piMessage struct {
	line
	id      []byte
	stop    string  // why the message ended
	began   Instant // when the message began
	content []byte  // of the message
}

// answered reports whether the message ended as an answer.
func (m *piMessage) answered() bool { return m.stop == "stop" || m.stop == "length" }

// broke reports whether the message broke off.
func (m *piMessage) broke() bool { return m.stop == "error" || m.stop == "aborted" }

// breakOff makes an event the end of what broke off with the message. The error of an API begins
// with its HTTP status, as in "429: {..}".
func (m *piMessage) breakOff(end *Event) {
	end.Failed, end.Status, end.Text = true, m.stop, m.fault
	status, after, ok := cutCode(m.fault)
	if separated := len(after) > 0 && (after[0] == ':' || after[0] == ' '); ok && separated && 400 <= status && status < 600 {
		end.Facts.int(semconv.HTTPResponseStatus, status)
	}
}

// message reads the message.
func (m *piMessage) message(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "responseId":
			m.ModelCallID = readID(r)
		case "stopReason":
			reason := r.Str()
			m.stop, m.FinishReason = enum(reason), finishReason(reason)
		case "errorMessage":
			m.fault = r.Str()
		case "timestamp":
			m.began = millis(r)
		case "content":
			m.content = r.Raw()
		case "role", "model", "provider", "usage", "toolCallId", "toolName", "isError", "durationMs":
			m.field(r, key)
		}
	}
}

// blocks returns the blocks of the message.
func (m *piMessage) blocks() []line { return readBlocks(&jsonscan.Reader{B: m.content}) }

// A piLine is one line.
type piLine struct {
	piMessage
	update string
	result []byte // of a tool, or of a compaction
	goesOn bool   // the agent tries again
}

func (l *piLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "id":
		l.id = readID(r)
	case "message":
		l.message(r)
	case "messages":
		for range r.Elements() { // the last one tells how the run ended
			l.stop, l.fault = "", nil
			l.message(r)
		}
	case "assistantMessageEvent":
		l.deltaEvent(r)
	case "result":
		l.result = r.Raw()
	case "willRetry":
		l.goesOn = r.Bool()
	case "errorMessage":
		l.Facts.text(semconv.Message, Full, r.Str())
	case "timestamp": // of the session
	case "entry":
		readMember(r, "timestamp", func() { l.Time = stamp(r) })
	default:
		l.line.field(r, key)
	}
}

// compaction reads {"tokensBefore":..,"estimatedTokensAfter":..}.
func (l *piLine) compaction() {
	r := jsonscan.Reader{B: l.result}
	for key := range r.Members() {
		l.Facts.read(&r, lineFacts, key)
	}
}

// deltaEvent reads {"type":"text_delta","delta":..}.
func (l *piLine) deltaEvent(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.update = string(enumOf(r))
		case "delta":
			l.Text = r.Str()
		}
	}
}
