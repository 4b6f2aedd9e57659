package mapping

import (
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

const (
	// maxSpanBytes is how many bytes of events a span may have before they
	// continue in another: backends break on big spans.
	maxSpanBytes = 512 << 10

	// maxTraceBytes is how many bytes of events a trace may send before
	// neighbouring deltas are merged: Tempo drops what goes past 5 MB a trace.
	maxTraceBytes = 3 << 20

	// mergeWithin is how long a merged event may last.
	mergeWithin = instant(time.Second)
)

// A turnEvents collects the events of a turn. Those that do not fit into the
// turn's own span go to child spans.
type turnEvents struct {
	own       eventGroup   // of the turn's span
	children  []eventGroup // of child spans that were not emitted, the last one unfinished
	lastEvent instant      // the last event

	index   int // of the next event
	pending struct {
		kind         textKind
		at           instant
		bytes, count int
	}

	segments [2]content.Segment
	speech   content.Speech
}

// An eventGroup is the events of one span.
type eventGroup struct {
	start, end moment // of a child span, which has no end while events are added
	events     []event
	size       int // of them, in bytes
	lost       int // bytes cut from texts
}

// current returns the events of the current span.
func (l *turnEvents) current() *eventGroup {
	if n := len(l.children); n > 0 {
		return &l.children[n-1]
	}
	return &l.own
}

func (g *eventGroup) add(r *run, e event) {
	g.events = append(g.events, e)
	g.size += e.size()
	r.eventBytes += e.size()
}

// endPending adds the event for the pending deltas.
func (l *turnEvents) endPending(r *run) {
	if p := &l.pending; p.count > 0 {
		l.addText(r, p.kind, p.kind.event(r.stream.opts.Deltas), p.at, p.bytes, p.count)
		p.bytes, p.count = 0, 0
	}
}

// addText adds an event for a text.
func (l *turnEvents) addText(r *run, kind textKind, name string, at instant, bytes, count int) {
	part := textPart{kind: kind, index: l.index, bytes: bytes, count: count}
	l.index += count
	if r.stream.opts.Deltas == DeltasOff {
		return
	}
	if r.stream.capture.Full() {
		part.piece, part.open = l.segments[kind].Cut(), true
	}
	l.current().add(r, event{name: name, at: at, textPart: part})
}

// makeRoom continues the events in a new span if the current one is full. It
// returns the time of the next event, which is not before the span's start.
func (l *turnEvents) makeRoom(r *run, t *turn, at moment) moment {
	g, opts := l.current(), &r.stream.opts
	if opts.Deltas == DeltasOff || len(g.events)+min(l.pending.count, 1) < opts.MaxSpanEvents && g.size < maxSpanBytes {
		return at.notBefore(g.start.at)
	}
	l.endPending(r)
	g.end = r.clock.after(g.start, at.notBefore(l.lastEvent+quantum))
	l.children = append(l.children, eventGroup{start: g.end})
	l.emit(r, t)
	return l.current().start
}

// finish ends the events with the turn.
func (l *turnEvents) finish(r *run, t *turn) {
	l.endPending(r)
	l.current().end = t.end
	l.resolve(r, t, thinkingText)
	l.resolve(r, t, answerText)
	l.emit(r, t)
}

// resolve ends a text and gives its events their pieces of it.
func (l *turnEvents) resolve(r *run, t *turn, kind textKind) {
	c := r.stream.capture
	if !c.Full() {
		return
	}
	more := r.stream.copy && t.state != calledTool && t.state != answered // else a snapshot says what the span will
	resolved := c.Resolve(&l.segments[kind], int(kind), &r.endings, more)
	l.own.resolve(kind, &resolved)
	for i := range l.children {
		l.children[i].resolve(kind, &resolved)
	}
	l.speech.Add(c, textNames[kind].part, &resolved)
	l.emit(r, t)
}

func (g *eventGroup) resolve(kind textKind, resolved *content.Resolved) {
	for i := range g.events {
		if e := &g.events[i]; e.open && e.kind == kind {
			var lost int
			e.open = false
			e.text, lost = resolved.Piece(e.piece)
			g.lost += lost
		}
	}
}

// emit emits the child spans that have ended, up to the first that waits for a text.
func (l *turnEvents) emit(r *run, t *turn) {
	for len(l.children) > 0 {
		g := l.children[0]
		if g.end.isZero() || slices.ContainsFunc(g.events, func(e event) bool { return e.open }) {
			return
		}
		l.children = l.children[1:]
		r.counts.deltaSpans++
		s := r.newSpan(spanRef{deltas, r.counts.deltaSpans}, spanRef{chat, t.n}, t.inv, "")
		s.start, s.end, s.events, s.content.Lost = g.start, g.end, g.events, g.lost
		s.attributes.int(semconv.TurnNumber, int64(t.n))
		s.attributes.strIfSet(semconv.ResponseID, r.stream.names.id(t.response.id))
		r.emit(s)
	}
}

// endBy moves what is later than an instant to it.
func (l *turnEvents) endBy(at instant) {
	l.lastEvent, l.pending.at = min(l.lastEvent, at), min(l.pending.at, at)
	l.own.endBy(at)
	for i := range l.children {
		l.children[i].endBy(at)
	}
}

func (g *eventGroup) endBy(at instant) {
	g.start, g.end = g.start.notAfter(at), g.end.notAfter(at)
	for i := range g.events {
		g.events[i].at = min(g.events[i].at, at)
	}
}
