package agent

import (
	"bytes"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// A template is a delta or tool line without the values that differ from line to line.
// Agents write hundreds of thousands of lines that differ only in these values, and
// comparing the rest is five times as fast as parsing it.
type template struct {
	line     []byte
	holes    []hole
	events   [1]Event // of the line read last; an array, so that Decode can return a slice of it
	kind     Kind     // of the template's own line: a decoder may change the event's
	session  []byte   // likewise
	plain    bool     // its text has no escapes
	tool     Tool     // of the event
	unquoted []byte   // ids that were escaped

	// When the tool ran, by the clock of what ran it.
	ranFrom, ranTo Instant
}

// A hole is a value that differs from line to line, or a place between values.
type hole struct {
	place
	kind holeKind
	fact int // the index of the fact that tells the value
}

type holeKind uint8

const (
	literal holeKind = iota // no hole

	// Strings, between their quotes.
	textHole      // the delta
	idHole        // has no meaning
	callHole      // the id of the call
	modelCallHole // the id of the model call
	argumentHole  // a fact of the arguments
	sizeHole      // its length is a fact of the outcome

	// Numbers.
	stampHole   // milliseconds
	ranFromHole // milliseconds
	ranToHole   // milliseconds
	numberHole  // a fact of the outcome
	countHole   // has no meaning

	// Places.
	argumentsStart
	argumentsEnd // the length of the arguments is one of their facts
	resultStart
	resultEnd // the length of the result is a fact of the outcome
)

// A place is where a value stands in a line.
type place struct{ start, end int }

// templates holds templates of the lines that a stream alternates between: text and
// thinking of two sessions, and the starts and ends of calls of a few tools.
type templates struct {
	list     [8]template
	n        int // in use
	next     int // to be replaced
	last     int // matched
	unfitted int // tool lines since one fitted a template
}

// maxTemplate is the length of the longest tool line of which a template is made.
const maxTemplate = 2 << 10

// worthwhile reports whether a template should be made of a tool line. If all of them
// differ, templates cost more than they save.
func (ts *templates) worthwhile(line []byte) bool {
	ts.unfitted++
	return len(line) <= maxTemplate && (ts.unfitted < 32 || ts.unfitted%32 == 0)
}

// add makes room for the template of a line.
func (ts *templates) add(line []byte) *template {
	t := &ts.list[ts.next]
	ts.last = ts.next
	ts.next = (ts.next + 1) % len(ts.list)
	ts.n = min(ts.n+1, len(ts.list))
	*t = template{line: append(t.line[:0], line...), holes: t.holes[:0], tool: t.tool, unquoted: t.unquoted}
	return t
}

// set sets what the template's line says. The event's fields point into that line.
func (t *template) set(ev *Event, kind Kind, holes ...hole) {
	t.events[0], t.kind, t.session = *ev, kind, bytes.Clone(ev.Session)
	t.events[0].Facts = slices.Clone(ev.Facts)
	if ev.Tool != nil {
		arguments, outcome := t.tool.ArgumentFacts[:0], t.tool.OutcomeFacts[:0]
		t.tool = *ev.Tool
		t.tool.ArgumentFacts = append(arguments, ev.Tool.ArgumentFacts...)
		t.tool.OutcomeFacts = append(outcome, ev.Tool.OutcomeFacts...)
		t.events[0].Tool = &t.tool
	}
	t.holes = append(t.holes, holes...)
	slices.SortStableFunc(t.holes, func(a, b hole) int { return a.start - b.start })
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
	ev := &t.events[0]
	r := jsonscan.Reader{B: line}
	from, start := 0, 0
	t.unquoted = t.unquoted[:0]
	for i := range t.holes {
		h := &t.holes[i]
		between := t.line[from:h.start]
		if !bytes.HasPrefix(line[r.I:], between) {
			return false
		}
		r.I += len(between)
		from = h.end
		switch {
		case h.kind < stampHole:
			r.I--
			value := r.Quoted()
			if r.Bad {
				return false
			}
			r.I--
			switch h.kind {
			case textHole:
				ev.Text, ev.Bytes, t.plain = value, length(value, r.Plain), r.Plain
			case callHole:
				ev.ID = t.unquote(value, r.Plain)
			case modelCallHole:
				ev.ModelCallID = t.unquote(value, r.Plain)
			case argumentHole:
				if len(value) == 0 { // there is no such fact
					return false
				}
				t.tool.ArgumentFacts[h.fact].Text = value
			case sizeHole:
				t.tool.OutcomeFacts[h.fact].Int = int64(length(value, r.Plain))
			}
		case h.kind < argumentsStart:
			n, size := jsonscan.Digits(line[r.I:])
			if size == 0 || h.kind < numberHole && (n == 0 || n >= maxMillis) {
				return false
			}
			r.I += size
			switch h.kind {
			case stampHole:
				ev.Time = Instant(n) * Milliseconds
			case ranFromHole:
				t.ranFrom = Instant(n) * Milliseconds
			case ranToHole:
				t.ranTo = Instant(n) * Milliseconds
			case numberHole:
				t.tool.OutcomeFacts[h.fact].Int = n
			}
		case h.kind == argumentsEnd:
			t.tool.Arguments = line[start:r.I]
			t.tool.ArgumentFacts[h.fact].Int = int64(jsonscan.Len(t.tool.Arguments))
		case h.kind == resultEnd:
			t.tool.Result = line[start:r.I]
			t.tool.OutcomeFacts[h.fact].Int = int64(jsonscan.Len(t.tool.Result))
		default:
			start = r.I
		}
	}
	if !bytes.Equal(line[r.I:], t.line[from:]) {
		return false
	}
	ev.Kind, ev.Session = t.kind, t.session // the decoder may have changed them
	return true
}

// length returns the length of a string without its escapes. plain says that it has
// none.
func length(s []byte, plain bool) int {
	if plain {
		return len(s)
	}
	return jsonscan.UnquotedLen(s)
}

// unquote returns an id without its escapes. plain says that it has none.
func (t *template) unquote(id []byte, plain bool) []byte {
	if plain || bytes.IndexByte(id, '\\') < 0 {
		return id
	}
	from := len(t.unquoted)
	t.unquoted = jsonscan.AppendUnquoted(t.unquoted, id)
	return t.unquoted[from:len(t.unquoted):len(t.unquoted)]
}
