package agent

import (
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// learn makes a template of a delta or tool line.
func (d *cursorDecoder) learn(text []byte) {
	l := d.line
	switch l.Kind {
	case TextDelta, ThinkingDelta:
		if l.texts != 1 {
			return
		}
	case ToolStart, ToolEnd:
		_, timed := callTook(l.startedAt, l.completedAt)
		switch {
		case l.texts > 0, l.unfit, l.Usage != nil, l.tool.MCP, l.tool.ErrorType != "", l.awaited.known,
			l.Kind == ToolEnd && l.completedAt != 0 && !timed, !d.templates.worthwhile(text):
			return
		}
	default:
		return
	}
	t := d.templates.add(text)
	d.noted.noting = true
	d.noted.read(&jsonscan.Reader{B: t.line}) // so that the event points into the template's own copy
	t.set(&d.noted.Event, d.noted.Kind, d.noted.holes...)
	t.ranFrom, t.ranTo = d.noted.startedAt, d.noted.completedAt
}

// plausible reports whether the times of a call are: if not, its line has other facts
// than the line of the template.
func plausible(t *template) bool {
	_, ok := callTook(t.ranFrom, t.ranTo)
	return ok || t.kind != ToolEnd || t.ranTo == 0
}

// fromTemplate returns the events of a line that fits t. Most lines change nothing but
// the state of a call or a text: their event is returned without a copy.
func (d *cursorDecoder) fromTemplate(t *template, arrival Instant, dst []Event) []Event {
	ev := &t.events[0]
	ev.Arrival = arrival
	if t.kind == ToolStart || t.kind == ToolEnd {
		d.continued = nil
		return d.toolFromTemplate(t, dst)
	}
	if t == d.continued { // so its session is that of the line before
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
	d.templates.unfitted = 0
	ev := &t.events[0]
	ev.Start, ev.StartPending, ev.GoesOn = 0, false, goesOn(ev.ModelCallID)
	if took, ok := callTook(t.ranFrom, t.ranTo); ok && ev.Kind == ToolEnd {
		ev.Length = took
		(*facts)(&t.tool.OutcomeFacts).int(semconv.ToolDuration, int64(took/Milliseconds))
	}
	s := d.session(ev)
	if s.held || s.oldID != nil {
		d.line = &d.first
		d.line.startedAt, d.line.completedAt, d.line.awaited = t.ranFrom, t.ranTo, awaited{}
		return d.text(ev, dst)
	}
	s.justBegun = false
	s.correct(ev, t.ranFrom, t.ranTo)
	return t.events[:]
}

// note records where the value is that r read last: in lines that fit the template, it
// may differ. If the value is in a fact, key is the fact's.
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

// noteRange records where the arguments or the result of a call start and end.
func (l *cursorLine) noteRange(start, end int, kind holeKind, in facts, key string) {
	if l.noting {
		l.holes = append(l.holes, hole{place{start, start}, kind, 0}, hole{place{end, end}, kind + 1, in.index(key)})
	}
}

// skip skips a value without a meaning.
func (l *cursorLine) skip(r *jsonscan.Reader) {
	if !l.noting {
		r.Skip()
		return
	}
	switch value := r.Raw(); {
	case len(value) > 1 && value[0] == '"':
		l.note(r, idHole, value[1:len(value)-1], nil, "")
	case len(value) > 0:
		l.note(r, countHole, value, nil, "")
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

func (f facts) index(key string) int {
	return slices.IndexFunc(f, func(fact Fact) bool { return fact.Key == key })
}
