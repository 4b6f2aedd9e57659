package content

import (
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/redact"
)

// maxSegment is how much of a segment is kept, in bytes. What goes past that
// is cut.
const maxSegment = 256 << 10

// A Segment is a text that comes in pieces. A secret may be split over two of
// them, so they are kept until the text ends and then searched as one.
type Segment struct {
	buf  []byte
	from int  // where the current piece begins
	over bool // no more is kept
	lost int  // bytes cut from the current piece
}

// A Piece is the position of one piece of text in its Segment.
type Piece struct {
	start, end, lost int
}

// Add adds a text to the current piece. The text is escaped, as between the quotes
// of a JSON string.
func (s *Segment) Add(escaped []byte) {
	words := unescape(escaped)
	room := 0
	if !s.over {
		room = Prefix(words, maxSegment-len(s.buf))
	}
	s.buf = append(s.buf, words[:room]...)
	s.over = s.over || room < len(words)
	s.lost += len(words) - room
}

// Cut ends the current piece and returns where it lies.
func (s *Segment) Cut() Piece {
	p := Piece{s.from, len(s.buf), s.lost}
	s.from, s.lost = len(s.buf), 0
	return p
}

// Size returns the length of a piece, in bytes.
func (p Piece) Size() int { return p.end - p.start }

// A Resolved segment is one that has ended.
type Resolved struct {
	capture *Capture
	whole   string
	shown   int  // what lies past it may be the beginning of a secret
	goesOn  bool // what lies past it comes later, and so is not marked as cut
	secrets []finding
	marked  bool // a piece has the mark of what was cut
}

// Endings are the ends of the segments that came before. A secret that begins in one
// of them may go on in the next segment, whatever comes between: a model may call a
// tool in the middle of a word, and a sub-agent may speak meanwhile.
type Endings struct {
	byKind [2]string
	recent [3]string // of all kinds, the last first
}

const (
	// longestEnding is enough for a name and half of its value.
	longestEnding = 256
	// longestHead is how far into a segment such a secret is looked for.
	longestHead = 512
)

// add adds the end of a segment of a kind.
func (e *Endings) add(kind int, segment string) {
	text := segment
	if len(text) < longestEnding { // a secret may be in three pieces
		text = e.byKind[kind] + text
	}
	text = strings.Clone(text[suffix(text, longestEnding):])
	e.byKind[kind] = text
	copy(e.recent[1:], e.recent[:])
	e.recent[0] = text
}

// before finds the secrets that begin in an ending and go on in a segment of a kind.
func (e *Endings) before(c *Capture, kind int, segment string) (secrets []finding) {
	head := segment[:Prefix(segment, longestHead)]
	for _, ending := range e.recent {
		if ending == "" || ending == e.byKind[kind] || !goesOn(ending, head) {
			continue
		}
		for _, f := range c.redactor.Find(ending + head) {
			if f.Start < len(ending) && f.End > len(ending) {
				secrets = append(secrets, finding{Start: 0, End: f.End - len(ending), Rule: f.Rule})
			}
		}
	}
	return secrets
}

// goesOn reports whether the last word of a text may go on in another.
func goesOn(before, after string) bool {
	return after != "" && inWord(before[len(before)-1]) && inWord(after[0])
}

func inWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("_-+/=%#!", c) >= 0
}

// Resolve ends a segment of a kind. before are the endings of the segments that it
// follows; Resolve adds its own. The next piece begins another segment. more says
// that more text will come, so that the end may be the beginning of a secret.
func (c *Capture) Resolve(s *Segment, kind int, before *Endings, more bool) Resolved {
	ending := before.byKind[kind]
	var b strings.Builder
	b.Grow(len(ending) + len(s.buf))
	b.WriteString(ending)
	b.Write(s.buf)
	text, ahead := b.String(), len(ending)
	r := Resolved{capture: c, whole: text[ahead:]}
	r.shown = len(r.whole)
	switch {
	case s.over:
		r.shown = Prefix(r.whole, max(0, r.shown-margin))
	case more:
		r.goesOn = true
		r.shown -= c.redactor.MaybePrefix(r.whole)
	}
	r.secrets = before.before(c, kind, r.whole)
	for _, f := range c.redactor.Find(text) {
		if f.Start, f.End = max(0, f.Start-ahead), f.End-ahead; f.End > 0 {
			r.secrets = append(r.secrets, f)
		}
	}
	slices.SortStableFunc(r.secrets, func(a, b finding) int { return a.Start - b.Start })
	r.secrets = redact.Merge(r.secrets)
	switch {
	case s.over:
		*before = Endings{}
	case r.whole != "":
		before.add(kind, r.whole)
	}
	*s = Segment{buf: s.buf[:0]}
	return r
}

// Piece returns the text of a piece, and how many bytes were cut from it.
func (r *Resolved) Piece(p Piece) (text string, lost int) {
	end := max(p.start, min(p.end, r.shown))
	full := without(r.whole, r.secrets, p.start, end)
	before := p.lost + p.end - end
	cut := before > 0 && !r.goesOn
	if full == "" && r.marked {
		return "", before
	}
	r.marked = r.marked || cut
	text, lost = truncated(full, r.capture.max, cut)
	return text, before + lost
}

// Text returns the whole text, truncated to the size of an attribute.
func (r *Resolved) Text() string {
	n := Prefix(r.whole, min(r.shown, r.capture.max))
	shown := without(r.whole, r.secrets, 0, n)
	if n < r.shown || n < len(r.whole) && !r.goesOn {
		shown += Truncated
	}
	return shown
}

// Speech collects the text of several segments, for a message.
type Speech struct {
	parts []spoken
	size  int
	lost  int
	over  bool // the last part was cut
	ended bool // the last part was a whole text
}

type spoken struct {
	kind string // of the part, text or reasoning
	text []byte
}

// Clone returns a copy of s that can be added to independently.
func (s Speech) Clone() Speech {
	s.parts = slices.Clone(s.parts)
	for i := range s.parts {
		s.parts[i].text = slices.Clip(s.parts[i].text)
	}
	return s
}

// EndText says that the text of the last segment has ended: the next one is another part.
func (s *Speech) EndText() { s.ended = true }

// Add adds a segment's text. Neighbours of one kind become one part, unless a text has ended
// between them.
func (s *Speech) Add(c *Capture, kind string, r *Resolved) {
	text := r.Text()
	if room := c.max + margin - s.size; len(text) > room {
		n := Prefix(text, max(0, room))
		s.lost += len(text) - n
		text, s.over = text[:n], true
	}
	s.lost += len(r.whole) - min(len(r.whole), r.shown, c.max)
	if text == "" {
		return
	}
	s.size += len(text)
	if n := len(s.parts); n == 0 || s.parts[n-1].kind != kind || s.ended {
		s.parts = append(s.parts, spoken{kind: kind})
	}
	s.ended = false
	last := &s.parts[len(s.parts)-1]
	last.text = append(last.text, text...)
}

// Parts returns the parts of a message, the last text among them, and how many bytes were
// cut. It searches each part again, because the whole may contain a secret that none of its
// segments did.
func (s *Speech) Parts(c *Capture) (parts []Value, last string, lost int) {
	lost = s.lost
	for i, p := range s.parts {
		text := string(p.text)
		shown := len(text)
		cut := s.over && i == len(s.parts)-1
		if cut { // the end may be the beginning of a secret
			shown = Prefix(text, max(0, shown-margin))
		}
		lost += len(text) - shown
		text = without(text, c.redactor.Find(text), 0, shown)
		if cut {
			text += Truncated
		}
		if p.kind == "text" {
			last = text
		}
		parts = append(parts, TextPart(p.kind, text))
	}
	return parts, last, lost
}
