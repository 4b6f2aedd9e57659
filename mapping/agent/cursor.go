package agent

import (
	"bytes"
	"maps"
	"slices"
)

// cursor is Cursor's CLI, run with --output-format stream-json. Its lines are known
// from recordings and builds of 2025 and 2026; the documentation is out of date.
var cursor = Agent{
	Flag:     "cursor",
	Name:     "cursor-agent",
	Commands: []string{"cursor-agent", "agent"},
	Provider: "cursor", // Cursor serves all its models itself
	objects:  func() objectDecoder { return &cursorDecoder{sessions: map[string]*cursorSession{}} },
	prefix:   "stdout:",
	last:     []string{"timestamp_ms", "session_id", "model_call_id", "completedAtMs", "startedAtMs"},
	Proof: shapes(
		"type=system subtype=init apiKeySource permissionMode !uuid !tools !claude_code_version",
		"type=tool_call subtype call_id tool_call",
		"type=thinking subtype=delta|completed session_id timestamp_ms",
		"type=interaction_query subtype query_type",
		"type=assistant message.role model_call_id",
		"type=result subtype is_error duration_api_ms request_id session_id !uuid",
	),
	ends:  endings{"result": {"is_error": failedIf, "subtype": subtype, "error": failedWith}},
	Lines: shapes("model_call_id", "type=assistant|user message session_id", "type=tool_call subtype call_id", "type=thinking subtype session_id", "type=result subtype is_error duration_ms"),
}

// A cursorDecoder decodes one stream, in which the lines of several sessions may
// alternate.
type cursorDecoder struct {
	lineOf[cursorLine, *cursorLine]
	sessions map[string]*cursorSession
	current  []byte // the id of the session of the line before
	begun    bool   // nothing has come since the init line of that session
}

func (d *cursorDecoder) Flush(_ int, dst []Event) []Event {
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) { // sorted, so that the spans come in the same order each time
		dst = d.sessions[id].release(nil, dst)
	}
	return dst
}

// events appends the line's event after the event that the session held back, and
// distinguishes deltas from repeated texts.
func (d *cursorDecoder) events(dst []Event) []Event {
	d.line.classify()
	ev := &d.line.Event
	if len(ev.Session) > 0 && !bytes.Equal(ev.Session, d.current) {
		id := bytes.Clone(ev.Session)
		if d.begun && d.sessions[string(id)] == nil && !belongsElsewhere[ev.Kind] {
			dst = append(dst, Event{Kind: SessionNamed, Session: d.current, ID: id, Arrival: ev.Arrival})
			remember(d.sessions, id, d.sessions[string(d.current)])
		}
		d.current, d.begun = id, false
	}
	s := recall(d.sessions, d.current)            // a line without an id belongs to the session of the line before
	if ev.Kind == Unknown || ev.Kind == Ignored { // it does not end or continue a text
		return append(dst, *ev)
	}
	d.begun = ev.Kind == RunStart
	dst = s.release(ev, dst)
	switch ev.Kind {
	case RunStart:
		s.segment.reset()
		s.streams = false
	case ThinkingDelta:
		ev.Text = s.halves.thinking.join(ev.Text)
	case TextDelta:
		ev.Session = d.current
		ev.Text = s.halves.text.join(ev.Text)
		return s.said(ev, dst)
	case TextMessage:
		switch {
		case ev.Final && s.streams:
			ev.Kind, ev.Final = TextDelta, false
			ev.Text = s.halves.text.join(ev.Text)
			return s.said(ev, dst)
		case ev.Final && s.segment.deltas == 0:
			s.text = hold(*ev)
			return dst
		}
		if s.segment.begins(ev.Text) {
			if missing := s.segment.missing(ev.Text); missing != nil {
				delta := *ev
				delta.Kind, delta.Text, delta.Final = TextDelta, missing, false
				dst = append(dst, delta)
			}
			ev.Kind = TextEnd
		}
		s.segment.reset()
	case Notice:
		s.countRetry(ev, string(d.line.subtype) == "starting")
	case RunEnd:
		delete(d.sessions, string(d.current))
	}
	dst = append(dst, *ev)
	if ev.Kind == ToolEnd {
		dst = d.line.appendAwaited(dst)
	}
	if d.line.unknown {
		dst = append(dst, Event{Kind: Unknown, Session: ev.Session})
	}
	return dst
}

// Events of the kinds in belongsElsewhere, with another session id than the init line
// before them, belong to another session. Any other event renames the session: builds of
// 2025 had another id in the init line than in all other lines.
var belongsElsewhere = map[Kind]bool{RunStart: true, RunEnd: true, TaskEnd: true, Unknown: true, Ignored: true}
