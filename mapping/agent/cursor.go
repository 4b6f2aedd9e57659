package agent

import (
	"bytes"
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// cursor is Cursor's CLI, run with --output-format stream-json. Its lines are known
// from recordings and builds of 2025 and 2026; the documentation is out of date.
var cursor = Agent{
	Flag:     "cursor",
	Name:     "cursor-agent",
	Provider: "cursor", // Cursor serves all its models itself
	New:      func() Decoder { return &cursorDecoder{sessions: map[string]*cursorSession{}} },
	IsProof: func(m *Marks) bool {
		switch {
		case m.Type == "tool_call" && m.Subtype != "", m.Type == "thinking" && m.has("session_id"), m.has("model_call_id"), m.Type == "interaction_query":
			return true
		case m.Type == "result":
			return m.has("request_id") && m.has("session_id") && !m.has("uuid")
		case m.Type == "system" && m.Subtype == "init":
			return m.has("apiKeySource") && m.has("permissionMode") && !m.has("uuid") && !m.has("tools")
		}
		return false
	},
}

// A cursorDecoder decodes one stream, in which the lines of several sessions may
// alternate.
type cursorDecoder struct {
	reader    jsonscan.Reader
	first     cursorLine  // the first object of a line
	line      *cursorLine // the object at hand
	templates templates
	sessions  map[string]*cursorSession
	current   *cursorSession // of the line before
	continued *template      // the template of the line before, if that line only continued a text
	noted     cursorLine     // the line that became a template last
}

// Decode implements [Decoder].
func (d *cursorDecoder) Decode(line Line, dst []Event) []Event {
	if line.Tail == nil {
		if t := d.templates.read(line.Text); t != nil && completeTool(t) {
			return d.fromTemplate(t, line.Arrival, dst)
		}
	}
	d.continued = nil
	text := line.Text
	if len(text) > 0 && text[0] != '{' {
		// Old wrappers prefix lines with the name of the stream they came from.
		text = bytes.TrimPrefix(trimLine(text), []byte("stdout:"))
	}
	r := &d.reader
	*r = jsonscan.Reader{B: text}
	if r.End() {
		return dst // a blank line
	}
	d.line = &d.first
	for objects := 0; ; objects++ { // a line may hold several
		if objects > 0 {
			d.line = new(cursorLine) // the events before point into theirs
		}
		ok := d.line.read(r)
		if line.Tail != nil {
			d.line.salvage(line.Tail)
			ok = true
		}
		if !ok || len(d.line.typ) == 0 {
			return append(dst, Event{Kind: Malformed})
		}
		d.line.Arrival = line.Arrival
		if objects == 0 && r.End() && len(text) == len(line.Text) {
			d.learn(line.Text)
		}
		dst = d.text(&d.line.Event, dst)
		if r.End() || line.Tail != nil {
			return dst
		}
	}
}

// Flush implements [Decoder].
func (d *cursorDecoder) Flush(dst []Event) []Event {
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) { // sorted, so that the spans come in the same order each time
		dst = d.sessions[id].release(nil, dst)
	}
	return dst
}

// text appends an event after the event that the session held back, and
// distinguishes deltas from repeated texts.
func (d *cursorDecoder) text(ev *Event, dst []Event) []Event {
	s := d.session(ev)
	if ev.Kind == Unknown || ev.Kind == Ignored { // it does not end or continue a text
		return append(dst, *ev)
	}
	if s.held {
		dst = s.release(ev, dst)
	}
	switch ev.Kind {
	case RunStart:
		s.begin(ev.Session)
	case TextDelta:
		return s.delta(ev, dst)
	case TextMessage:
		if text := jsonscan.Unquote(ev.Text); s.segment.begins(text) {
			if len(text) > s.segment.size {
				dst = s.missingDelta(ev, dst)
			}
			ev.Kind = TextEnd
		}
		s.segment.reset()
	case ToolStart, ToolEnd:
		s.correct(ev, d.line.startedAt, d.line.completedAt)
	case Notice:
		s.countRetry(ev, string(d.line.subtype) == "starting")
	case RunEnd:
		dst = append(s.name(ev, dst), *ev)
		delete(d.sessions, string(s.id))
		if d.current == s {
			d.current = nil
		}
		return dst
	}
	dst = append(s.name(ev, dst), *ev)
	if ev.Kind == ToolEnd {
		dst = d.line.appendAwaited(dst)
	}
	return dst
}

// session returns the state of an event's session.
func (d *cursorDecoder) session(ev *Event) *cursorSession {
	if s := d.current; s != nil && (len(ev.Session) == 0 || bytes.Equal(ev.Session, s.id)) {
		return s
	}
	s := d.sessions[string(ev.Session)]
	switch {
	case s != nil:
	case d.current != nil && d.current.justBegun && !belongsElsewhere[ev.Kind]:
		// Builds of 2025 had another id in the init line than in all others.
		s = d.current
		s.oldID = s.id
		s.id = bytes.Clone(ev.Session)
		d.sessions[string(s.id)] = s
	default:
		if len(d.sessions) >= maxSessions {
			clear(d.sessions) // their runs were cut short: only the detection of repeated texts is lost
		}
		s = &cursorSession{id: bytes.Clone(ev.Session)}
		d.sessions[string(s.id)] = s
	}
	d.current = s
	return s
}

// Events of the kinds in belongsElsewhere, with another session id than the init line
// before them, belong to another session. In builds of 2025, any other event with
// another id renames the session.
var belongsElsewhere = map[Kind]bool{RunStart: true, RunEnd: true, TaskEnd: true, Unknown: true}

// maxSessions is how many sessions a decoder tracks at once.
const maxSessions = 4096
