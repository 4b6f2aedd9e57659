package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// pi is the coding agent pi, run with --mode json. Few lines have times: a message
// has the time of its beginning, and a tool's result is a message. A turn is a
// model call with the tools that the model asked for.
var pi = Agent{
	Flag:     "pi",
	Name:     "pi",
	Nameless: true,
	TurnEnds: true,
	New:      func() Decoder { return new(piDecoder) },
	IsProof: func(m *Marks) bool {
		switch m.Type {
		case "session":
			return m.has("version")
		case "agent_start", "agent_end", "turn_start", "turn_end":
			return !m.has("event") && !m.has("session_id")
		case "message_update":
			return m.has("assistantMessageEvent")
		case "message_start", "message_end":
			return m.has("message.role") && !m.has("event")
		case "tool_execution_start", "tool_execution_end":
			return m.has("toolCallId")
		}
		return false
	},
}

// A piDecoder remembers the current session, because most lines have no session id.
// It holds back the end of a tool until the message with its time, and the end of
// the run because a retry or a compaction may follow.
type piDecoder struct {
	scanner
	line    piLine
	session []byte
	deltas  int     // of the current message
	running int     // tools
	ended   []Event // of tools
	end     *Event  // of the run
}

// Flush implements [Decoder].
func (d *piDecoder) Flush(dst []Event) []Event {
	from := len(dst)
	dst = d.endRun(d.endTools(dst))
	for i := from; i < len(dst); i++ {
		dst[i].Session = d.session
	}
	return dst
}

// Decode implements [Decoder].
func (d *piDecoder) Decode(line Line, dst []Event) []Event {
	d.line.arrival = line.Arrival
	return d.readObjects(line, dst, d)
}

func (d *piDecoder) endRun(dst []Event) []Event {
	if d.end != nil {
		dst = append(dst, *d.end)
		d.end = nil
	}
	return dst
}

func (d *piDecoder) endTools(dst []Event) []Event {
	dst = append(dst, d.ended...)
	clear(d.ended)
	d.ended = d.ended[:0]
	return dst
}

func (d *piDecoder) read(r *jsonscan.Reader, dst []Event) ([]Event, bool) {
	l := &d.line
	*l = piLine{calling: calling{from: &d.pool}, arrival: l.arrival}
	for key := range r.Members() {
		l.field(r, key)
	}
	if len(l.typ) == 0 {
		return dst, false
	}
	if string(l.typ) == "session" {
		dst = d.Flush(dst) // builds without agent_settled do not end the previous session
		d.session, d.running = bytes.Clone(l.id), 0
	}
	from := len(dst)
	dst = d.events(dst)
	for i := from; i < len(dst); i++ {
		dst[i].Session = d.session
	}
	return dst, true
}

// events appends the events of the current line.
func (d *piDecoder) events(dst []Event) []Event {
	l := &d.line
	switch string(l.typ) {
	case "session":
		l.Kind, l.Facts = RunStart, l.facts
	case "message_start":
		return d.messageStart(dst)
	case "message_update":
		d.update()
	case "message_end":
		return d.messageEnd(dst)
	case "tool_execution_start":
		d.running++
		l.Kind, l.ID, l.Tool = ToolStart, l.callID, l.tool().finish()
	case "tool_execution_end":
		d.toolEnd()
		return dst
	case "turn_end":
		dst = d.endTools(dst)
		l.Kind, l.Final = TurnEnd, l.stop == "stop" || l.stop == "length"
		l.Failed = l.stop == "error" || l.stop == "aborted"
		l.Status = l.stop
	case "agent_end":
		dst = d.endTools(dst)
		d.holdEnd()
		l.Kind = Ignored
	case "agent_settled":
		return d.endRun(dst)
	case "auto_retry_start":
		d.end = nil
		l.Kind, l.Notice, l.Facts = Notice, semconv.EventRetry, l.facts
	case "compaction_end", "auto_compaction_end":
		l.compaction()
		l.Kind, l.Notice, l.Facts = Notice, semconv.EventCompaction, l.facts
	case "entry_appended":
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
	d.deltas = 0
	switch l.role {
	case "user":
		dst = d.endRun(dst)
		l.Kind = Prompt
	case "assistant":
		d.end = nil // the agent goes on
		l.Kind, l.Usage, l.Text, l.FinishReason = TurnStart, nil, nil, ""
		l.Estimated = true
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
	for i := range d.ended {
		ev := d.ended[i]
		if !bytes.Equal(ev.ID, l.callID) {
			continue
		}
		ev.Time = l.Time
		d.ended = append(d.ended[:i], d.ended[i+1:]...)
		return append(dst, ev)
	}
	return append(dst, Event{Kind: Notice, Time: l.Time})
}

// messageEnd handles the end of a message, with its counts, and with its texts if
// they came without deltas.
func (d *piDecoder) messageEnd(dst []Event) []Event {
	l := &d.line
	if l.role != "assistant" {
		return dst
	}
	l.Time = 0 // of its beginning
	if d.deltas == 0 {
		dst = append(dst, l.said...)
	}
	d.deltas = 0
	l.Kind, l.Text = TextEnd, nil
	return append(dst, l.Event)
}

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
	default:
		l.Kind = Ignored
	}
}

// toolEnd holds the end of a tool back. It outlives its line then, of which it
// needs what the tool returned; its start had the arguments.
func (d *piDecoder) toolEnd() {
	l := &d.line
	c := new(call)
	c.named(l.name)
	if len(l.result) > 0 {
		c.readResult(&jsonscan.Reader{B: bytes.Clone(l.result)})
	}
	if l.isError {
		c.failed()
		c.ErrorText = resultText(c.Result)
		c.exitedAsTold(c.ErrorText)
	}
	d.ended = append(d.ended, Event{
		Kind: ToolEnd, ID: bytes.Clone(l.callID), Tool: c.finish(), Arrival: l.arrival, Estimated: d.running > 1 || len(d.ended) > 0,
	})
	d.running = max(0, d.running-1)
}

// holdEnd holds the end of the run back.
func (d *piDecoder) holdEnd() {
	l := &d.line
	d.running = 0
	if l.goesOn {
		return
	}
	d.end = &Event{Kind: RunEnd, Arrival: l.arrival}
	if l.stop == "error" || l.stop == "aborted" {
		d.end.Failed, d.end.Status, d.end.Text = true, l.stop, bytes.Clone(l.fault)
	}
}
