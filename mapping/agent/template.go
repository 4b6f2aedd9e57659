package agent

import (
	"bytes"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// A template is a delta line except for its text and its timestamp or id. Agents
// write hundreds of thousands of deltas that differ only in these two values, and
// comparing the rest is five times as fast as parsing it.
type template struct {
	line    []byte
	events  [1]Event // of the line read last, pointing into line; an array, so that Decode can return a slice of it
	kind    Kind     // of the template's own line: a decoder may change the event's
	session []byte   // likewise
	plain   bool     // its text has no escapes
	holes   []hole
}

// A hole is a value that differs from line to line.
type hole struct {
	place
	kind holeKind
}

type holeKind uint8

const (
	textHole  holeKind = iota // the delta, between its quotes
	stampHole                 // a number of milliseconds
	idHole                    // a string without a meaning, between its quotes
)

// A place is where a value stands in a line.
type place struct{ start, end int }

// templates holds templates of the delta lines that a stream alternates between:
// text and thinking, of two sessions.
type templates struct {
	list [4]template
	n    int // in use
	next int // to be replaced
	last int // matched
}

// add makes room for the template of a line.
func (ts *templates) add(line []byte, holes ...hole) *template {
	t := &ts.list[ts.next]
	ts.last = ts.next
	ts.next = (ts.next + 1) % len(ts.list)
	ts.n = min(ts.n+1, len(ts.list))
	slices.SortFunc(holes, func(a, b hole) int { return a.start - b.start })
	*t = template{line: append(t.line[:0], line...), holes: append(t.holes[:0], holes...)}
	return t
}

// set sets the event of the template's line. Event fields point into it.
func (t *template) set(ev Event, kind Kind) {
	t.events[0], t.kind, t.session = ev, kind, ev.Session
}

// read returns the template that a line fits, nil if there is none. The template's
// event is then that of the line.
func (ts *templates) read(line []byte) *template {
	if ts.n > 0 && ts.list[ts.last].read(line) {
		return &ts.list[ts.last]
	}
	for i := range ts.n {
		if i != ts.last && ts.list[i].read(line) {
			ts.last = i
			return &ts.list[i]
		}
	}
	return nil
}

func (t *template) read(line []byte) bool {
	var text []byte
	var stamp Instant
	rest, from := line, 0
	for _, h := range t.holes {
		between := t.line[from:h.start]
		if !bytes.HasPrefix(rest, between) {
			return false
		}
		from = h.end
		if h.kind == stampHole {
			if stamp, rest = leadingMillis(rest[len(between):]); stamp == 0 {
				return false
			}
			continue
		}
		r := jsonscan.Reader{B: rest, I: len(between) - 1}
		value := r.Quoted()
		if r.Bad {
			return false
		}
		if h.kind == textHole {
			text, t.plain = value, r.Plain
		}
		rest = rest[r.I-1:]
	}
	if !bytes.Equal(rest, t.line[from:]) {
		return false
	}
	ev := &t.events[0]
	ev.Kind, ev.Session = t.kind, t.session // the decoder may have changed them
	ev.Text, ev.Bytes, ev.Time = text, len(text), stamp
	if !t.plain {
		ev.Bytes = jsonscan.UnquotedLen(text)
	}
	return true
}

// leadingMillis reads the milliseconds that s begins with. t is 0 if they are not a
// valid instant.
func leadingMillis(s []byte) (t Instant, rest []byte) {
	ms, size := jsonscan.Digits(s)
	if ms >= maxMillis {
		return 0, s
	}
	return Instant(ms) * Milliseconds, s[size:]
}
