package agent

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// A template is a delta or tool line with holes: the places where another line may have
// another value. Agents write hundreds of thousands of lines that differ only there, and
// comparing the rest is five times as fast as parsing it.
type template struct {
	line     []byte
	holes    []hole
	events   [1]Event // of the line read last; an array, so that Decode can return a slice of it
	kind     Kind     // of the event, and its session: a decoder may change those in events[0]
	session  []byte
	plain    bool   // the text has no escapes
	tool     Tool   // of the event
	unquoted []byte // ids that were escaped

	startedAt, completedAt Instant // of a tool, by the clock of the tool runner
}

// A hole is a value that may differ, or an empty place that marks where the arguments or
// the result of a call start or end.
type hole struct {
	place
	kind holeKind
	fact int // the index in ArgumentFacts or OutcomeFacts of the fact that holds the value; -1 if there is none
}

// A place is where a value stands in a line.
type place struct{ start, end int }

type holeKind uint8

// The kinds of holes: strings, then numbers, of which the instants are first, then
// places. The code depends on this order.
const (
	literal holeKind = iota // no hole: the value must be equal

	textHole      // the delta; like all strings, between its quotes
	ignoredString // the event does not depend on it
	callHole      // the id of the call
	modelCallHole // the id of the model call
	argumentHole  // the text of a fact about the arguments
	sizeHole      // its length is a fact about the outcome

	stampHole // in milliseconds, like startedHole and completedHole
	startedHole
	completedHole
	numberHole    // a fact about the outcome
	ignoredNumber // the event does not depend on it

	argumentsStart
	argumentsEnd // the length of the arguments is a fact about them
	resultStart
	resultEnd // the length of the result is a fact about the outcome
)

// templates holds templates of the lines that a stream alternates between: text and
// thinking of two sessions, and the starts and ends of calls of a few tools.
type templates struct {
	list   [8]template
	next   int // to be replaced
	last   int // matched
	passed int // lines that did not become templates because the stream was short
	debt   int // what new templates have cost, less what lines that fitted have saved, in such lines
	misses int // lines that did not become templates because of the debt
}

const (
	// maxTemplate is the length of the longest line that may be a template, or is
	// compared with one. Templates refer to the lines that fitted them last.
	maxTemplate = 4 << 10

	// shortStream is how many lines that could be templates come before one becomes a
	// template: in a short stream it would not pay.
	shortStream = 64

	// templateCost is how many lines that fit a template save what it costs to make it.
	templateCost = 32

	// maxDebt is the debt at which only one line in missesPerTry becomes a template.
	maxDebt      = 32 * templateCost
	missesPerTry = 256
)

// worthwhile reports whether a line that fits no template should become one. If all
// lines differed, making templates of them would only take time.
func (ts *templates) worthwhile(line []byte) bool {
	if len(line) > maxTemplate {
		return false
	}
	if ts.passed < shortStream {
		ts.passed++
		return false
	}
	if ts.debt >= maxDebt {
		ts.misses++
		return ts.misses%missesPerTry == 0
	}
	ts.debt += templateCost
	return true
}

// add returns the template of a line, without its holes and its event.
func (ts *templates) add(line []byte) *template {
	t := &ts.list[ts.next]
	ts.last = ts.next
	ts.next = (ts.next + 1) % len(ts.list)
	*t = template{line: append(t.line[:0], line...), holes: t.holes[:0], tool: t.tool, unquoted: t.unquoted}
	return t
}

// set stores the event of t.line, into which the event's fields point, and the holes.
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

// drop makes sure that no line fits the template.
func (t *template) drop() { t.holes = t.holes[:0] }

// varied returns a line that fits the template and has another value in each hole.
func (t *template) varied() (line []byte) {
	from := 0
	for _, h := range t.holes {
		line = append(line, t.line[from:h.start]...)
		from = h.end
		switch value := t.line[h.start:h.end]; {
		case h.kind < stampHole:
			line = append(append(line, "varied "...), value...)
		case h.kind < argumentsStart:
			n, _ := jsonscan.Digits(value)
			line = strconv.AppendInt(line, n+1_000_003, 10)
		}
	}
	return append(line, t.line[from:]...)
}

// read returns the template that a line fits, nil if there is none. The template's
// event is then that of the line.
func (ts *templates) read(line []byte) *template {
	if len(line) > maxTemplate {
		return nil
	}
	for i := range ts.list {
		i = (ts.last + i) % len(ts.list) // most lines fit the one that the line before fitted
		if ts.list[i].read(line) {
			ts.last, ts.debt = i, max(ts.debt-1, 0)
			return &ts.list[i]
		}
	}
	return nil
}

// read reports whether a line fits the template, and if so makes the event that of the
// line.
func (t *template) read(line []byte) bool {
	if len(t.holes) == 0 { // no template was made, or it was dropped
		return false
	}
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
				ev.ID = unquoteID(&t.unquoted, value, r.Plain)
			case modelCallHole:
				ev.ModelCallID = unquoteID(&t.unquoted, value, r.Plain)
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
			case startedHole:
				t.startedAt = Instant(n) * Milliseconds
			case completedHole:
				t.completedAt = Instant(n) * Milliseconds
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

// length returns the length of a string once unescaped. plain says that s has no
// escapes.
func length(s []byte, plain bool) int {
	if plain {
		return len(s)
	}
	return jsonscan.UnquotedLen(s)
}
