package agent

import (
	"bytes"
	"encoding/json"
	"hash/maphash"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A cursorSession is the state of a session that its lines depend on.
//
// Cursor repeats the deltas of a text as one whole text before a tool call, a
// question, a retry or the end. Most repetitions have a model call or lack a
// timestamp. A repetition before a question or a retry looks like a delta: it is
// recognized by its text, which equals all deltas since the last repetition, or,
// after at most one delta, by the line that follows. A whole text that begins
// differently is new: the deltas before it were repetitions.
type cursorSession struct {
	id        []byte
	oldID     []byte // the previous id, until the next event after a change
	justBegun bool   // nothing has come since its init line

	segment segment
	delta   held // that waits for the line that follows
	repeats bool // it may repeat the only delta before it

	retrying bool // a retry has started and not resumed
	attempt  int64
}

// A segment is the text since the last repetition.
type segment struct {
	n    int // deltas
	size int
	hash maphash.Hash
	head []byte // the first bytes
}

// maxHead is how much of a text is compared with a whole one. The rest may
// differ: captures are edited, and lose lines.
const maxHead = 64

func (s *segment) reset() {
	s.n, s.size, s.head = 0, 0, s.head[:0]
	s.hash.Reset()
}

func (s *segment) add(text []byte) {
	s.n++
	s.size += len(text)
	s.hash.Write(text)
	if n := maxHead - len(s.head); n > 0 {
		s.head = append(s.head, text[:min(n, len(text))]...)
	}
}

// begins reports whether a whole text begins as the deltas do.
func (s *segment) begins(text []byte) bool {
	head, text := bytes.TrimSpace(s.head), bytes.TrimSpace(text)
	n := min(len(head), len(text))
	return s.n > 0 && (n > 0 || len(text) == 0) && bytes.Equal(head[:n], text[:n])
}

func (s *segment) is(text []byte) bool {
	return s.n > 0 && len(text) == s.size && maphash.Bytes(s.hash.Seed(), text) == s.hash.Sum64()
}

func (s *cursorSession) begin(id []byte) {
	*s = cursorSession{id: bytes.Clone(id), justBegun: true} // current events refer to the old id
}

// name appends a SessionNamed event if the session's id has just changed.
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

// said handles a text with a timestamp and without a model call.
func (s *cursorSession) said(ev *Event, dst []Event) []Event {
	text := jsonscan.Unquote(ev.Text)
	dst = s.name(ev, dst)
	switch repeats := s.segment.is(text); {
	case s.segment.n == 0, s.segment.n == 1 && repeats:
		ev.Session = s.id
		s.delta, s.repeats = hold(*ev), repeats
		return dst
	case repeats:
		s.segment.reset()
		ev.Kind = TextEnd
	default:
		s.segment.add(text)
	}
	return append(dst, *ev)
}

// missingDelta appends the end of a whole text, unescaped, that no delta had, because the
// last deltas may have been lost.
func (s *cursorSession) missingDelta(whole *Event, text []byte, dst []Event) []Event {
	said, missing := text[:s.segment.size], text[s.segment.size:]
	if !s.segment.is(said) {
		return dst
	}
	quoted, _ := json.Marshal(string(missing)) // of a string, which never fails
	quoted = quoted[1 : len(quoted)-1]
	if left := jsonscan.UnquotedLen(whole.Text) - len(text); left > 0 && len(quoted) >= jsonscan.MinHead { // the text was shortened
		quoted = jsonscan.AppendGap(quoted, left, left)
	}
	ev := *whole
	ev.Kind, ev.Text, ev.Final = TextDelta, quoted, false
	return append(s.name(whole, dst), ev)
}

// release appends the event that was held back, now that the line that follows
// is known.
func (s *cursorSession) release(next *Event, dst []Event) []Event {
	if len(s.delta) == 0 {
		return dst
	}
	ev := &s.delta[0]
	repeated := next != nil && (next.Kind == ApprovalStart || next.Kind == Notice)
	switch {
	case !repeated:
		s.segment.add(jsonscan.Unquote(ev.Text))
	case s.repeats:
		s.segment.reset()
		ev.Kind = TextEnd
	default:
		ev.Kind = TextMessage // the only copy
	}
	return s.delta.take(dst)
}

// countRetry drops a resuming line if its starting line was counted. Attempts restart
// at 1 for each request.
func (s *cursorSession) countRetry(ev *Event, starts bool) {
	if ev.Notice != semconv.EventRetry {
		return
	}
	attempt := ev.Facts.number(semconv.Attempt)
	if !starts && s.retrying && attempt == s.attempt {
		ev.Notice = ""
	}
	s.retrying, s.attempt = starts, attempt
}
