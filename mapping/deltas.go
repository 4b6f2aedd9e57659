package mapping

import (
	"time"

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

// endPending adds the event for the pending deltas.
func (l *eventLog) endPending(r *run) {
	if p := &l.pending; p.count > 0 {
		l.add(r, p.kind, p.kind.event(r.stream.opts.Deltas), p.at, p.bytes, p.count)
		p.bytes, p.count = 0, 0
	}
}

// add adds an event for a text.
func (l *eventLog) add(r *run, kind textKind, name string, at instant, bytes, count int) {
	e := textEvent{name: name, at: at, kind: kind, index: l.index, bytes: bytes, count: count}
	l.index += count
	switch {
	case r.stream.capture.Full():
		e.piece, e.open = l.segments[kind].Cut(), true
		l.texts = append(l.texts, e)
		l.size += 96 + e.piece.Size()
		r.eventBytes += 96 + e.piece.Size()
	case r.stream.opts.Deltas != DeltasOff:
		before := len(l.at.wire)
		e.encode(r.stream, &l.at)
		r.eventBytes += len(l.at.wire) - before
	}
}

// count returns the number of events of the current span, and their size in bytes.
func (l *eventLog) count() (events, bytes int) {
	return l.at.n + len(l.texts) + min(l.pending.count, 1), len(l.at.wire) + l.size
}

// makeRoom continues the events in a new span if the current one is full. It
// returns the time of the next event, which is not before the span's start.
func (l *eventLog) makeRoom(r *run, inv *invocation, t *turn, at instant) instant {
	events, bytes := l.count()
	if events < r.stream.opts.MaxSpanEvents && bytes < maxSpanBytes {
		return max(at, l.start)
	}
	l.endPending(r)
	next := r.clock.after(max(l.start, l.last), max(at, l.last+quantum))
	l.endSpan(r, inv, t, next)
	l.start = next
	return next
}

// endSpan ends the current span. The turn's own span stays open until the turn
// ends.
func (l *eventLog) endSpan(r *run, inv *invocation, t *turn, at instant) {
	s := &span{ref: spanRef{chat, t.n}} // stands for the turn's own
	if !l.inChild {
		l.inChild, l.own = true, l.at
	} else {
		r.counts.deltaSpans++
		s = r.newSpan(spanRef{deltas, r.counts.deltaSpans}, s.ref, inv, "")
		s.start, s.end, s.events = l.start, at, l.at
		s.attributes.int(semconv.TurnNumber, int64(t.n))
		s.attributes.strIfSet(semconv.ResponseID, r.stream.names.id(t.response.id))
	}
	s.texts = l.texts
	l.waiting = append(l.waiting, s)
	l.held += len(l.texts)
	l.at, l.texts, l.size = encodedEvents{}, nil, 0
	l.resolveSome(r)
}

// finish ends the events with the turn.
func (l *eventLog) finish(r *run, inv *invocation, t *turn) {
	l.endPending(r)
	if l.inChild || r.stream.capture.Full() {
		if events, _ := l.count(); events > 0 {
			l.endSpan(r, inv, t, t.end)
		}
	} else {
		l.own = l.at
	}
	l.resolve(r, thinkingText)
	l.resolve(r, answerText)
}

// maxWaiting is how many events may wait for a text to end.
const maxWaiting = 16 << 10

// resolveSome sends the spans whose texts are complete. If too many events wait,
// the current texts are cut off.
func (l *eventLog) resolveSome(r *run) {
	if l.held >= maxWaiting {
		for kind := range l.segments {
			l.segments[kind].Close()
			l.resolve(r, textKind(kind))
			l.segments[kind].Close() // until the text ends: the rest of a secret may follow
		}
	}
	l.send(r)
}

// resolve ends a text and gives its events their pieces of it.
func (l *eventLog) resolve(r *run, kind textKind) {
	c := r.stream.capture
	if !c.Full() {
		return
	}
	resolved := c.Resolve(&l.segments[kind], int(kind), &r.endings, r.stream.copy)
	give := func(texts []textEvent) (lost int) {
		for i := range texts {
			e := &texts[i]
			if e.kind == kind && e.open {
				var cut int
				e.open = false
				e.text, cut = resolved.Piece(e.piece)
				lost += cut
			}
		}
		return lost
	}
	for _, s := range l.waiting {
		s.content.Lost += give(s.texts)
	}
	l.lost += give(l.texts)
	l.speech.Add(c, kind.part(), &resolved)
	l.send(r)
}

// send emits the spans whose texts are complete. The turn's own events stay with
// the turn.
func (l *eventLog) send(r *run) {
	for len(l.waiting) > 0 && l.waiting[0].resolved() {
		s := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.held -= len(s.texts)
		if r.stream.opts.Deltas != DeltasOff {
			for i := range s.texts {
				s.texts[i].encode(r.stream, &s.events)
			}
		}
		s.texts = nil
		if s.ref.operation == chat {
			l.lost += s.content.Lost
			l.own.wire = append(l.own.wire, s.events.wire...)
			l.own.n += s.events.n
			continue
		}
		r.emit(s)
	}
}

func (s *span) resolved() bool {
	for i := range s.texts {
		if s.texts[i].open {
			return false
		}
	}
	return true
}
