package agent

import (
	"bytes"
	"slices"

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
//
// Deltas may lack timestamps, as in the documentation. Of two texts without one that follow one
// another, not both can be repetitions: then all such texts of the run are deltas.
type cursorSession struct {
	segment segment
	halves  struct{ text, thinking half }
	delta   held // that waits for the line that follows
	repeats bool // it may repeat the only delta before it
	text    held // without a timestamp, that is a delta if another one follows
	streams bool // texts without a timestamp are deltas

	retry int64 // the attempt of a retry that has started and not resumed
}

// A segment is the text since the last repetition, unescaped: some programs that edit a
// capture escape a text and its repetition differently.
type segment struct {
	deltas int
	size   int
	head   []byte // the first maxSegment bytes
}

// maxSegment is how much of a text is compared with a repetition.
const maxSegment = 4 << 10

// maxBeginning is how much of a whole text has to be the same as its deltas. The rest may
// differ: captures are edited, and lose lines.
const maxBeginning = 64

func (s *segment) reset() { s.deltas, s.size, s.head = 0, 0, s.head[:0] }

func (s *segment) add(text []byte) {
	s.deltas++
	s.size += jsonscan.UnquotedLen(text)
	words := beginning(text)
	s.head = append(s.head, words[:min(len(words), maxSegment-len(s.head))]...)
}

// beginning returns at least the first maxSegment bytes of a text, unescaped.
func beginning(text []byte) []byte {
	if n := maxSegment * len(`\u0000`); len(text) > n {
		text = text[:jsonscan.WholeEscapes(text, n)]
	}
	return jsonscan.Unquote(text)
}

// begins reports whether a whole text begins as the deltas do.
func (s *segment) begins(text []byte) bool {
	words := beginning(text)
	n := min(len(s.head), len(words), maxBeginning)
	return s.deltas > 0 && (n > 0 || len(text) == 0) && bytes.Equal(s.head[:n], words[:n])
}

// missing returns the end of a whole text that no delta had, because the last deltas were
// lost.
func (s *segment) missing(text []byte) []byte {
	if jsonscan.UnquotedLen(text) > s.size && bytes.HasPrefix(beginning(text), s.head) {
		return text[jsonscan.UnquotedIndex(text, s.size):]
	}
	return nil
}

func (s *segment) is(text []byte) bool {
	return s.deltas > 0 && jsonscan.UnquotedLen(text) == s.size && bytes.HasPrefix(beginning(text), s.head)
}

// A half is the first half of a character whose other half begins the next delta: Cursor
// cuts a text between the two escapes of a surrogate pair.
type half []byte

// join moves a half from the end of a delta to the beginning of the next one.
func (h *half) join(text []byte) []byte {
	if len(*h) > 0 && jsonscan.IsPair(slices.Concat(*h, text[:min(len(text), jsonscan.HalfSize)])) {
		text = slices.Concat(*h, text)
	}
	whole := jsonscan.WithoutHalf(text)
	*h = append((*h)[:0], text[len(whole):]...)
	return whole
}

// said handles a text with a timestamp and without a model call.
func (s *cursorSession) said(ev *Event, dst []Event) []Event {
	switch repeats := s.segment.is(ev.Text); {
	case s.segment.deltas == 0, s.segment.deltas == 1 && repeats:
		s.delta, s.repeats = hold(*ev), repeats
		return dst
	case repeats:
		s.segment.reset()
		ev.Kind = TextEnd
	default:
		s.segment.add(ev.Text)
	}
	return append(dst, *ev)
}

// release appends the event that was held back, now that the line that follows
// is known.
func (s *cursorSession) release(next *Event, dst []Event) []Event {
	if len(s.text) > 0 {
		if s.streams = next != nil && next.Kind == TextMessage && next.Final; s.streams {
			s.text[0].Kind, s.text[0].Final = TextDelta, false
			s.segment.add(s.text[0].Text)
		}
		dst = s.text.take(dst)
	}
	if len(s.delta) == 0 {
		return dst
	}
	ev := &s.delta[0]
	repeated := next != nil && (next.Kind == ApprovalStart || next.Kind == Notice)
	switch {
	case !repeated:
		s.segment.add(ev.Text)
	case s.repeats:
		s.segment.reset()
		ev.Kind = TextEnd
	default:
		ev.Kind = TextMessage // the only copy
	}
	return s.delta.take(dst)
}

// countRetry drops a line that says that a retry resumes, if the line that says that it
// starts was counted.
func (s *cursorSession) countRetry(ev *Event, starts bool) {
	if ev.Notice != semconv.EventRetry {
		return
	}
	attempt := ev.Facts.number(semconv.Attempt)
	if starts {
		s.retry = attempt
		return
	}
	if attempt == s.retry {
		ev.Notice = ""
	}
	s.retry = 0
}
