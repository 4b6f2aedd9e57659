package mapping

import (
	"time"

	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// If texts are captured, the events of a turn contain them. A secret may be split
// over two events, so a text is searched as a whole once it has ended. Spans that
// fill up earlier wait for that.

// maxWaiting is how many events may wait for a text to end.
const maxWaiting = 16 << 10

// A textEvent is an event for a text: for one delta, several, or all of it.
type textEvent struct {
	name  string
	at    instant
	kind  textKind
	index int
	bytes int
	count int

	piece content.Piece
	open  bool   // the text has not ended
	text  string // once the text has ended
}

// encode adds the event.
func (e *textEvent) encode(m *Mapper, to *encodedEvents) {
	m.roomForEvents(to)
	if e.text == "" && e.count == 1 {
		to.delta(e.name, e.at, e.index, e.bytes)
		return
	}
	size := sizeInt(semconv.DeltaIndex, e.index) + sizeInt(semconv.DeltaBytes, e.bytes)
	if e.count > 1 {
		size += sizeInt(semconv.DeltaCount, e.count)
	}
	a := &m.event
	a.wire = a.wire[:0]
	if e.text != "" {
		a.str(semconv.DeltaText, e.text)
	}
	b := to.begin(e.name, e.at, size+len(a.wire))
	b = appendInt(b, semconv.DeltaIndex, e.index)
	b = appendInt(b, semconv.DeltaBytes, e.bytes)
	if e.count > 1 {
		b = appendInt(b, semconv.DeltaCount, e.count)
	}
	to.wire = append(b, a.wire...)
}

func shiftTexts(texts []textEvent, f func(instant) instant) {
	for i := range texts {
		texts[i].at = f(texts[i].at)
	}
}

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
	c := r.m.capture
	if !c.Full() {
		return
	}
	resolved := c.Resolve(&l.segments[kind], int(kind), &r.endings, r.m.ghost)
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
		if r.m.opts.Deltas != DeltasOff {
			for i := range s.texts {
				s.texts[i].encode(r.m, &s.events)
			}
		}
		r.m.reuseTexts(s)
		if s.ref.operation == chat {
			l.lost += s.content.Lost
			if l.own.n == 0 && cap(s.events.wire) <= 2*len(s.events.wire) {
				l.own = s.events // and its buffer, which is not too large to wait in
				continue
			}
			l.own.wire = append(l.own.wire, s.events.wire...)
			l.own.n += s.events.n
			l.own.last = s.events.last
			r.m.reuseEvents(&s.events)
			continue
		}
		r.emit(s)
	}
}

// reuseTexts takes back the room for the events of a span that were encoded.
func (m *Mapper) reuseTexts(s *span) {
	const most = 1 << 10
	if !m.ghost && 0 < cap(s.texts) && cap(s.texts) <= most {
		clear(s.texts)
		m.spareTexts = s.texts[:0]
	}
	s.texts = nil
}

func (s *span) resolved() bool {
	for i := range s.texts {
		if s.texts[i].open {
			return false
		}
	}
	return true
}

// capture adds the text of a turn as a message.
func (l *eventLog) capture(c *content.Capture, s *span, t *turn) {
	s.content.Lost += l.lost
	parts, lost := l.speech.Parts(c)
	parts = append(parts, t.callPart...)
	if len(parts) > 0 {
		m := content.Messages(content.Message("assistant", parts, t.finishReason())).Clone()
		c.JSON(&s.content, semconv.OutputMessages, &m, lost)
	}
}

func formatTime(t instant) string {
	return time.Unix(0, int64(t)).UTC().Format("2006-01-02T15:04:05.000Z")
}
