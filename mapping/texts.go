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
	a := &m.event
	a.wire = a.wire[:0]
	a.int(semconv.DeltaIndex, int64(e.index))
	a.int(semconv.DeltaBytes, int64(e.bytes))
	if e.count > 1 {
		a.int(semconv.DeltaCount, int64(e.count))
	}
	a.strIfSet(semconv.DeltaText, e.text)
	to.add(e.name, e.at, a.wire)
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
