package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// A template is a delta line but for its text and its timestamp. Agents write
// deltas by the hundred thousand, and each is an earlier one with two other
// values: to compare the rest is five times as fast as to read it.
type template struct {
	line        []byte
	event       Event // of that line, pointing into it
	text, stamp place // in line; the stamp follows the text
}

// A place is where a value stands in a line.
type place struct{ start, end int }

// templates are of the delta lines that a stream alternates between: text and
// thinking, of two sessions.
type templates struct {
	list [4]template
	n    int // in use
	next int // to be replaced
	last int // matched
	ev   Event
}

// add makes room for the template of a line.
func (ts *templates) add(line []byte, text, stamp place) *template {
	t := &ts.list[ts.next]
	ts.last = ts.next
	ts.next = (ts.next + 1) % len(ts.list)
	ts.n = min(ts.n+1, len(ts.list))
	*t = template{line: append(t.line[:0], line...), text: text, stamp: stamp}
	return t
}

// read returns the event of a line that fits a template, nil if none does.
func (ts *templates) read(line []byte) *Event {
	for i := range ts.n {
		n := (ts.last + i) % ts.n
		if ts.list[n].read(line, &ts.ev) {
			ts.last = n
			return &ts.ev
		}
	}
	return nil
}

func (t *template) read(line []byte, ev *Event) bool {
	if !bytes.HasPrefix(line, t.line[:t.text.start]) {
		return false
	}
	r := jsonscan.Reader{B: line, I: t.text.start - 1}
	text := r.Quoted()
	if r.Bad {
		return false
	}
	between := t.line[t.text.end:t.stamp.start]
	if !bytes.HasPrefix(line[r.I-1:], between) {
		return false
	}
	digits := line[r.I-1+len(between):]
	ms := int64(0)
	for len(digits) > 0 && '0' <= digits[0] && digits[0] <= '9' && ms < maxMillis {
		ms, digits = 10*ms+int64(digits[0]-'0'), digits[1:]
	}
	if ms == 0 || ms >= maxMillis || !bytes.Equal(digits, t.line[t.stamp.end:]) {
		return false
	}
	*ev = t.event
	ev.Text, ev.Bytes, ev.Time = text, jsonscan.UnquotedLen(text), Instant(ms)*Milliseconds
	return true
}
