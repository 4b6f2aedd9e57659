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
	line  []byte
	event Event // of that line, pointing into it
	kind  Kind  // of that event
	holes []hole
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

// read returns the event of a line that fits a template, nil if none does. It is
// valid until the next call.
func (ts *templates) read(line []byte) *Event {
	if ts.n > 0 && ts.list[ts.last].read(line) {
		return &ts.list[ts.last].event
	}
	for i := range ts.n {
		if i != ts.last && ts.list[i].read(line) {
			ts.last = i
			return &ts.list[i].event
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
			text = value
		}
		rest = rest[r.I-1:]
	}
	if !bytes.Equal(rest, t.line[from:]) {
		return false
	}
	t.event.Kind = t.kind // the decoder may have changed it
	t.event.Text, t.event.Bytes, t.event.Time = text, jsonscan.UnquotedLen(text), stamp
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
