package mapping

import (
	"strings"
)

// With full content the events of a turn have texts. A secret may be split over
// two of them, so the texts of a segment, which a flush or the end of a block
// of thinking ends, are kept until then and looked at as one. Spans that are
// full before wait for it.

// speech is what a model says, or thinks.
type speech int

const (
	thinkingSpeech speech = iota
	textSpeech
)

func (of speech) event() string {
	if of == textSpeech {
		return eventTextDelta
	}
	return eventThinkingDelta
}

// part is the type of the message part that it is.
func (of speech) part() string {
	if of == textSpeech {
		return "text"
	}
	return "reasoning"
}

const (
	// maxSegment is how much of a segment is kept, in bytes. What goes past
	// that is cut.
	maxSegment = 256 << 10

	// maxWaiting is how many events the spans may have that wait for one.
	maxWaiting = 16 << 10
)

// A segment is what is kept of the text at hand.
type segment struct {
	buf  []byte
	from int  // where the pending event's text begins
	over bool // no more is kept
	lost int  // bytes that the pending event has not got
}

// A saying is an event with its text.
type saying struct {
	name  string
	at    instant
	of    speech
	index int
	bytes int
	count int

	start, end int // in its segment
	open       bool
	text       string // once that is resolved
	lost       int
}

func shiftSpeech(said []saying, f func(instant) instant) {
	for i := range said {
		said[i].at = f(said[i].at)
	}
}

// say keeps the text of the pending event.
func (t *turn) say(of speech, escaped []byte) {
	s := &t.segments[of]
	words := strings.ToValidUTF8(string(unquote(escaped)), "\uFFFD")
	room := 0
	if !s.over {
		room = runes(words, maxSegment-len(s.buf))
	}
	s.buf = append(s.buf, words[:room]...)
	s.over = s.over || room < len(words)
	s.lost += len(words) - room
}

func (t *turn) addSaying(name string, at instant, bytes, count int) {
	of := textSpeech
	if name == eventThinkingDelta || name == eventThinkingMessage {
		of = thinkingSpeech
	}
	s := &t.segments[of]
	t.speech = append(t.speech, saying{
		name: name, at: at, of: of, index: t.index, bytes: bytes, count: count,
		start: s.from, end: len(s.buf), open: true, lost: s.lost,
	})
	t.size += 96 + len(s.buf) - s.from
	s.from, s.lost = len(s.buf), 0
}

func (t *turn) resolveAll(r *run) {
	t.resolve(r, thinkingSpeech)
	t.resolve(r, textSpeech)
}

// wait keeps a span until it has all of its texts.
func (t *turn) wait(r *run, f finished) {
	t.waiting = append(t.waiting, f)
	if t.held += len(f.speech); t.held < maxWaiting {
		t.sendSpoken(r)
		return
	}
	for i := range t.segments {
		t.segments[i].over = true
	}
	t.resolveAll(r)
	for i := range t.segments {
		t.segments[i].over = true // until they end: the rest of a secret may follow
	}
}

// resolve ends a segment and gives its events their texts.
func (t *turn) resolve(r *run, of speech) {
	c := r.m.capture
	if !c.full() {
		return
	}
	s := &t.segments[of]
	whole := string(s.buf)
	shown := len(whole)
	if s.over {
		shown = runes(whole, max(0, shown-margin))
	}
	secrets := c.redactor.Find(whole)
	give := func(said []saying) {
		for i := range said {
			e := &said[i]
			if e.of != of || !e.open {
				continue
			}
			e.open = false
			end := max(e.start, min(e.end, shown))
			e.lost += e.end - end
			full := without(whole, secrets, e.start, end)
			e.text = full[:runes(full, c.max)]
			e.lost += len(full) - len(e.text)
		}
	}
	for i := range t.waiting {
		give(t.waiting[i].speech)
	}
	give(t.speech)
	*s = segment{buf: s.buf[:0]}
	t.sendSpoken(r)
}

// sendSpoken sends the spans that have all of their texts.
func (t *turn) sendSpoken(r *run) {
	for len(t.waiting) > 0 && t.waiting[0].spoken() {
		f := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.held -= len(f.speech)
		f.content = f.content.and(r.m.capture.output(&f, t.call))
		r.emit(f)
	}
}

func (f *finished) spoken() bool {
	for _, s := range f.speech {
		if s.open {
			return false
		}
	}
	return true
}

// output adds what was said in a span as a message.
func (c *capture) output(f *finished, call []value) (to captured) {
	var parts []value
	var b strings.Builder
	for i, s := range f.speech {
		b.WriteString(s.text)
		to.lost += s.lost
		if i+1 == len(f.speech) || f.speech[i+1].of != s.of {
			if said := b.String(); said != "" { // as a whole it may have what none of its texts had
				said = without(said, c.redactor.Find(said), 0, len(said))
				parts = append(parts, textPart(s.of.part(), said))
			}
			b.Reset()
		}
	}
	if f.reason == "tool_call" {
		parts = append(parts, call...)
	}
	if len(parts) > 0 {
		m := messages(message("assistant", parts, f.reason)).clone()
		c.json(&to, keyOutputMessages, &m, 0)
	}
	return to
}
