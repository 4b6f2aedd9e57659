package agent

import (
	"hash/maphash"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// A cursorSession is what has to be remembered of a session to read its lines:
//
// Cursor repeats the deltas of a text as a whole when a tool call, a question,
// a retry or the end follows. Most of these repetitions carry a model call or
// no stamp. One before a question or a retry looks like a delta. It is told by
// its text, which is that of all deltas since the last repetition; or, where
// there was no delta or one, by the line that follows.
//
// The runner of tools has a clock of its own, which differs from that of the
// stamps by an amount that is constant within a run. The line that starts a
// call may be printed late.
type cursorSession struct {
	id        []byte
	oldID     []byte // until the next event, if the id has just changed
	justBegun bool   // nothing came since its init line

	said    said
	held    bool // the delta in heldEvent waits for the line that follows
	repeats bool // and may repeat the only delta before
	delayed Event
	text    []byte // of delayed

	printed Instant // the last stamp
	offsets []Instant
}

// said is the text since the last repetition.
type said struct {
	n    int // deltas
	size int
	hash maphash.Hash
}

func (s *said) reset() {
	s.n, s.size = 0, 0
	s.hash.Reset()
}

func (s *said) add(text []byte) {
	s.n++
	s.size += len(text)
	s.hash.Write(text)
}

func (s *said) is(text []byte) bool {
	return s.n > 0 && len(text) == s.size && maphash.Bytes(s.hash.Seed(), text) == s.hash.Sum64()
}

func (s *cursorSession) begin(id []byte) {
	*s = cursorSession{id: append(s.id[:0], id...), justBegun: true, offsets: s.offsets[:0]}
}

// name appends an event that says so if the session's id has just changed.
func (s *cursorSession) name(ev *Event, dst []Event) []Event {
	if ev.Kind != RunStart {
		s.justBegun = false
	}
	if s.oldID == nil {
		return dst
	}
	named := Event{Kind: SessionNamed, Session: s.oldID, ID: s.id, Arrival: ev.Arrival}
	s.oldID = nil
	return append(dst, named)
}

// delta takes a text that is stamped and of no model call.
func (s *cursorSession) delta(ev *Event, dst []Event) []Event {
	text := jsonscan.Unquote(ev.Text)
	dst = s.name(ev, dst)
	s.printed = max(s.printed, ev.Time)
	switch repeats := s.said.is(text); {
	case s.said.n == 0, s.said.n == 1 && repeats:
		s.held, s.repeats = true, repeats
		s.text = append(s.text[:0], ev.Text...)
		s.delayed = *ev
		s.delayed.Session, s.delayed.Text = s.id, s.text
		return dst
	case repeats:
		s.said.reset()
		ev.Kind = TextEnd
	default:
		s.said.add(text)
	}
	return append(dst, *ev)
}

// release appends the event that was held back, now that the line that follows
// is known.
func (s *cursorSession) release(next *Event, dst []Event) []Event {
	if !s.held {
		return dst
	}
	s.held = false
	ev := &s.delayed
	repeated := next != nil && (next.Kind == ApprovalStart || next.Kind == Notice)
	switch {
	case !repeated:
		s.said.add(jsonscan.Unquote(ev.Text))
	case s.repeats:
		s.said.reset()
		ev.Kind = TextEnd
	default:
		ev.Kind = TextMessage // the only copy
	}
	return append(dst, *ev)
}

// maxOffsets is how many calls the offset of a run is the median of.
const maxOffsets = 31

// correct tells when a call began, if its line was printed late.
func (s *cursorSession) correct(ev *Event, l *cursorLine) {
	if ev.Kind == ToolEnd && l.completedAt != 0 && ev.Time != 0 {
		if len(s.offsets) == maxOffsets {
			s.offsets = slices.Delete(s.offsets, 0, 1)
		}
		s.offsets = append(s.offsets, l.completedAt-ev.Time)
	}
	if l.startedAt == 0 {
		return
	}
	if len(s.offsets) == 0 {
		ev.StartPending = ev.Kind == ToolStart
		return
	}
	var scratch [maxOffsets]Instant
	sorted := append(scratch[:0], s.offsets...)
	slices.Sort(sorted)
	ev.Start = l.startedAt - sorted[len(sorted)/2]
}
