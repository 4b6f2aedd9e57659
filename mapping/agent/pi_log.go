package agent

import (
	"bytes"
	"iter"
	"path/filepath"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// piLog is a session log of pi, a file below ~/.pi/agent/sessions. A row has the time at
// which it was written, and its message the time at which that began. The rows form a tree,
// in which a user goes back and branches off: each branch was paid for, so each prompt is a
// run. The rows are known from versions 1 to 3.
var piLog = Agent{
	Flag: "pi-log",
	Name: "pi",
	objects: func() objectDecoder {
		return &piLogDecoder{sessions: map[string]*piLogSession{}, files: map[int]*piLogSession{}, rows: newMemory[struct{}]()}
	},
	Proof: shapes(
		"type=message timestamp message.role message.timestamp !session_id",
		"type=model_change timestamp provider modelId",
		"type=thinking_level_change timestamp thinkingLevel",
		"type=compaction timestamp summary tokensBefore",
		"type=session_info|branch_summary|custom|custom_message|label|context_edit id parentId timestamp",
	),
	ends: endings{"message": {
		"message.stopReason": oneOf("stop", "length", "toolUse"), "message.errorMessage": failedWith,
	}},
	Lines:    shapes("type=session id timestamp cwd"),
	TurnEnds: true,
	Folders:  Folders{Default: ".pi/agent", Names: []string{"sessions"}},
	Log:      true,
	Kin: func(path string, rows iter.Seq[*Marks]) (kin []string, all bool) {
		kin = []string{"pi " + filepath.Base(path)}
		for _, session := range firstValues(rows, "", "id", "branchedFrom", "parentSession") {
			kin = append(kin, "pi "+filepath.Base(session))
		}
		return kin, true
	},
}

// A piLogDecoder decodes session logs, in which only the first row names the session.
type piLogDecoder struct {
	lineOf[piRow, *piRow]
	sessions map[string]*piLogSession
	files    map[int]*piLogSession
	rows     memory[struct{}] // that were read: a branch of a session in a file of its own begins with copies
}

// A piLogSession is the state of a session.
type piLogSession struct {
	logRun
	inputs map[int]bool // those that have its rows and have not ended or paused since
	id     []byte
	facts  Facts // of the session's runs
	model  []byte
	asked  Instant // when the run's prompt was written, 0 once the model has answered
}

// A piRow is a row.
type piRow struct {
	piMessage
}

func (d *piLogDecoder) Flush(input int, dst []Event) []Event {
	if s := d.files[input]; s != nil {
		if delete(s.inputs, input); len(s.inputs) == 0 {
			dst = s.finish(dst)
		}
	}
	return dst
}

func (d *piLogDecoder) events(dst []Event) []Event {
	l, from := &d.line, len(dst)
	s := d.files[l.input]
	if s == nil || string(l.typ) == "session" {
		dst = d.Flush(l.input, dst)
		if s = d.sessions[string(l.id)]; s == nil {
			s = &piLogSession{inputs: map[int]bool{}}
		}
		d.files[l.input] = s
	}
	s.inputs[l.input] = true
	if _, copied := d.rows.keep(d.rows.hash(l.object), struct{}{}); !copied {
		dst = d.rowEvents(s, dst)
	}
	if len(dst) == from {
		dst = append(dst, Event{Kind: Ignored})
	}
	return dst
}

func (l *piRow) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "id":
		l.id = readID(r)
	case "modelId":
		l.Model = jsonscan.Unquote(r.Str())
	case "message":
		l.message(r)
	case "type", "timestamp", "provider", "cwd", "tokensBefore", "thinkingLevel":
		l.line.field(r, key)
	}
}

// rowEvents appends the events of the current row.
func (d *piLogDecoder) rowEvents(s *piLogSession, dst []Event) []Event {
	l := &d.line
	switch string(l.typ) {
	case "session":
		if s.id = bytes.Clone(l.id); len(s.id) > 0 {
			remember(d.sessions, s.id, s)
		}
		s.learn(l)
	case "model_change", "thinking_level_change":
		s.learn(l)
	case "compaction":
		if s.running && len(s.end) == 0 {
			l.Session, l.Kind, l.Notice = s.id, Notice, semconv.EventCompaction
			dst = append(dst, l.Event)
		}
	case "message":
		l.Session = s.id
		switch l.role {
		case "user":
			return d.prompt(s, dst)
		case "assistant":
			return d.answer(s, dst)
		case "toolResult":
			return d.result(s, dst)
		}
	case "session_info", "branch_summary", "custom", "custom_message", "label",
		"context_edit": // takes a failed message out of the context, before the retry
	default:
		dst = append(dst, Event{Kind: Unknown, Session: s.id})
	}
	return dst
}

// learn records what a row states about the runs that follow.
func (s *piLogSession) learn(l *piRow) {
	kept := l.Kept()
	s.facts.merge(kept.Facts)
	if len(kept.Model) > 0 {
		s.model = kept.Model
	}
}

// beginRun appends the beginning of a run.
func (d *piLogDecoder) beginRun(s *piLogSession, dst []Event) []Event {
	s.running, s.asked = true, d.line.Time
	return append(dst, Event{Kind: RunStart, Session: s.id, Time: d.line.Time, Model: s.model, Facts: s.facts})
}

// prompt appends the events of a message of the user, which begins a run unless the agent
// is at work. Prompts that wait together are written one after another; one that was made
// after an unanswered one was written shows that the agent had stopped.
func (d *piLogDecoder) prompt(s *piLogSession, dst []Event) []Event {
	l := &d.line
	if dst = s.finish(dst); !s.running || s.asked > 0 && l.began > s.asked {
		dst = d.beginRun(s, dst)
	}
	return append(dst, Event{Kind: Prompt, Session: s.id, Time: l.Time, Text: firstText(l.blocks())})
}

// answer appends the events of a message of the model.
func (d *piLogDecoder) answer(s *piLogSession, dst []Event) []Event {
	l := &d.line
	var failed Instant // when the attempt before did
	if len(s.end) > 0 && s.end[0].Failed {
		failed = s.end[0].Time
	}
	if s.end = nil; !s.running {
		dst = d.beginRun(s, dst)
	}
	s.asked = 0
	start := l.Event
	start.Kind, start.Usage, start.FinishReason, start.Length = TurnStart, nil, "", 0
	if l.began > 0 {
		start.Time, start.Asks = min(l.began, l.Time), true
	}
	blocks := l.blocks()
	if neverAsked := l.stop == "aborted" && len(blocks) == 0 && (l.Usage == nil || l.Usage.Input == 0) && l.Time-start.Time < leastCall; neverAsked {
		end := Event{Kind: RunEnd, Session: s.id, Time: l.Time, Arrival: l.Arrival}
		l.breakOff(&end)
		s.end = hold(end)
		return dst
	}
	if failed > 0 { // the wait for the next attempt is the call's
		dst = append(dst, Event{Kind: Notice, Session: s.id, Time: failed, Notice: semconv.EventRetry})
	}
	dst = append(dst, start)
	ended := l.Time
	if l.Length > 0 && l.began > 0 { // the row is written a little later
		ended = min(l.began+l.Length, l.Time)
	}
	for _, b := range blocks {
		if b.Session, b.Time, b.ModelCallID = l.Session, ended, l.ModelCallID; b.Kind == ToolStart {
			b.Time = l.Time
			b.tool().finish()
		} else if len(b.Text) == 0 {
			continue
		}
		dst = append(dst, b.Event)
	}
	end := l.Event
	end.Kind, end.Final, end.Time = TurnEnd, l.answered(), ended
	over := Event{Kind: RunEnd, Session: s.id, Time: l.Time, Arrival: l.Arrival}
	if l.broke() {
		l.breakOff(&end)
		l.breakOff(&over)
	}
	if end.Final || end.Failed {
		l.settle(&over)
		s.end = hold(over)
	}
	return append(dst, end)
}

// leastCall is less than any model takes. pi writes a shorter message if it is told to stop
// before it has asked its model.
const leastCall = 50 * Milliseconds

// result appends the end of a tool call.
func (d *piLogDecoder) result(s *piLogSession, dst []Event) []Event {
	l := &d.line
	if !s.running {
		return dst
	}
	c := l.tool()
	c.readResult(&jsonscan.Reader{B: l.content})
	if l.Failed {
		c.failedAs("", nil)
		c.brokenOff()
	}
	ev := Event{Kind: ToolEnd, Session: s.id, Time: l.Time, ID: l.ID, Tool: c.finish(), Length: l.Length}
	ev.inferIf(l.Length > 0) // rows of calls that ran at once are written together
	if l.began > 0 {
		ev.Time = min(l.began, l.Time)
	}
	return append(dst, ev)
}
