package agent

import (
	"reflect"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// learn makes a template of a delta or tool line.
func (d *cursorDecoder) learn(text []byte) {
	l := d.line
	switch l.Kind {
	case TextDelta, ThinkingDelta:
		if l.texts != 1 || len(l.arguments)+len(l.outcome) > 0 {
			return
		}
	case ToolStart, ToolEnd:
		// Several values of a failure or of an MCP call are read together.
		if l.texts > 0 || l.tool.MCP || l.tool.ErrorType != "" || l.awaited.known || !plausible(l.Kind, l.startedAt, l.completedAt) {
			return
		}
	default:
		return
	}
	if l.unfit || l.Usage != nil || !d.templates.worthwhile(text) {
		return
	}
	t := d.templates.add(text)
	noted := &d.noted
	noted.noting = true
	noted.read(&jsonscan.Reader{B: t.line}) // so that the event points into the template's own copy
	t.set(&noted.Event, noted.Kind, noted.holes...)
	t.startedAt, t.completedAt = noted.startedAt, noted.completedAt

	// A value that is stated twice may be in a hole and in a literal that overrides it.
	varied := t.varied()
	noted.noting = false
	if !noted.read(&jsonscan.Reader{B: varied}) || !t.read(varied) || !completeTool(t) ||
		t.startedAt != noted.startedAt || t.completedAt != noted.completedAt || !sameEvent(t.events[0], noted.Event) {
		t.drop()
	}
}

// sameEvent reports whether two events state the same.
func sameEvent(a, b Event) bool {
	for _, ev := range []*Event{&a, &b} {
		normalize(&ev.Facts)
		if ev.Tool != nil {
			tool := *ev.Tool
			normalize(&tool.ArgumentFacts)
			normalize(&tool.OutcomeFacts)
			ev.Tool = &tool
		}
	}
	return reflect.DeepEqual(a, b)
}

// normalize makes an empty list nil, for [reflect.DeepEqual].
func normalize(f *[]Fact) {
	if len(*f) == 0 {
		*f = nil
	}
}

// fromTemplate returns the events of a line that fits t. Most lines need no other event
// before theirs: for them, it returns the template's own event, without a copy.
func (d *cursorDecoder) fromTemplate(t *template, arrival Instant, dst []Event) []Event {
	ev := &t.events[0]
	ev.Arrival = arrival
	if ev.Tool != nil {
		d.continued = nil
		return d.toolFromTemplate(t, dst)
	}
	if t == d.continued { // the line before fitted the same template, so both have one session
		ev.Session = nil
	}
	if s := d.session(ev); s.continues(ev, t.plain) {
		d.continued = t
		return t.events[:]
	}
	d.continued, ev.Session = nil, t.session
	return d.text(ev, dst)
}

func (d *cursorDecoder) toolFromTemplate(t *template, dst []Event) []Event {
	ev := &t.events[0]
	s := d.session(ev)
	if s.held || s.oldID != nil {
		d.line = &d.first
		d.line.startedAt, d.line.completedAt, d.line.awaited = t.startedAt, t.completedAt, awaited{}
		return d.text(ev, dst)
	}
	s.justBegun = false
	s.correct(ev, t.startedAt, t.completedAt)
	return t.events[:]
}

// completeTool adds to a template's event what follows from several values of the line,
// as finishTool does for a line that is parsed. It returns false if the times of the call
// are not plausible: then its line states other facts than the template's.
func completeTool(t *template) bool {
	ev := &t.events[0]
	if ev.Tool == nil {
		return true
	}
	if !plausible(ev.Kind, t.startedAt, t.completedAt) {
		return false
	}
	ev.Start, ev.StartPending, ev.GoesOn = 0, false, goesOn(ev.ModelCallID)
	if took, ok := callTook(t.startedAt, t.completedAt); ok && ev.Kind == ToolEnd {
		ev.Length = took
		(*facts)(&t.tool.OutcomeFacts).int(semconv.ToolDuration, int64(took/Milliseconds))
	}
	return true
}

// plausible reports whether the times of a call make sense, if the line states its end.
func plausible(kind Kind, startedAt, completedAt Instant) bool {
	_, ok := callTook(startedAt, completedAt)
	return ok || kind != ToolEnd || completedAt == 0
}

// callTook returns how long a call took, if its times are plausible.
func callTook(startedAt, completedAt Instant) (took Instant, ok bool) {
	took = completedAt - startedAt
	return took, startedAt != 0 && 0 <= took && took <= maxCall
}

// note adds a hole for a value, which r has just read. key is the key of the fact that
// holds the value, "" if there is none.
func (l *cursorLine) note(r *jsonscan.Reader, kind holeKind, value []byte, in facts, key string) {
	if !l.noting || kind == literal {
		return
	}
	at := place{r.I - len(value), r.I}
	if kind < stampHole {
		at.start, at.end = at.start-1, at.end-1
	} else {
		if value[0] == '"' {
			at.start, at.end = at.start+1, at.end-1
		}
		if _, size := jsonscan.Digits(r.B[at.start:at.end]); size == 0 || size < at.end-at.start {
			return
		}
	}
	l.holes = append(l.holes, hole{at, kind, in.index(key)})
}

// noteRange notes where the arguments or the result of a call start and end. kind is
// argumentsStart or resultStart.
func (l *cursorLine) noteRange(start, end int, kind holeKind, in facts, key string) {
	if l.noting {
		l.holes = append(l.holes, hole{place{start, start}, kind, 0}, hole{place{end, end}, kind + 1, in.index(key)})
	}
}

// skip skips a value that the event does not depend on.
func (l *cursorLine) skip(r *jsonscan.Reader) {
	if !l.noting {
		r.Skip()
		return
	}
	switch value := r.Raw(); {
	case len(value) > 1 && value[0] == '"':
		l.note(r, ignoredString, value[1:len(value)-1], nil, "")
	case len(value) > 0:
		l.note(r, ignoredNumber, value, nil, "")
	}
}

// millis reads an instant in milliseconds.
func (l *cursorLine) millis(r *jsonscan.Reader, kind holeKind) Instant {
	r.Peek()
	start := r.I
	t := millis(r)
	if t != 0 {
		l.note(r, kind, r.B[start:r.I], nil, "")
	}
	return t
}
