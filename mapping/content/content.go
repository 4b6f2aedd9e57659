// Package content captures prompts, texts, arguments and results, as far as a
// content level allows. It redacts secrets, and truncates long values so that JSON
// stays valid.
package content

import (
	"fmt"
	"unicode/utf8"

	"github.com/spantee/spantee/mapping/redact"
)

// Level says how much content is captured.
type Level string

// The levels.
const (
	None    Level = "none"    // names, sizes, counts and times
	Details Level = "details" // and paths, commands, patterns, URLs
	Full    Level = "full"    // and prompts, answers, arguments, results
)

// A Capture captures content from a stream: with secrets redacted, and truncated to
// the size of an attribute. A nil Capture captures nothing. A Capture is not safe for
// concurrent use.
type Capture struct {
	texts    bool // texts too, not only details
	max      int
	redactor *redact.Redactor
	harmless map[string]string // names of members, as written, in which there is no secret
}

// New returns a Capture for attributes of at most maxBytes, nil for [None].
func New(level Level, maxBytes int, redactor *redact.Redactor) (*Capture, error) {
	switch level {
	case "", None:
		return nil, nil
	case Details, Full:
	default:
		return nil, fmt.Errorf("invalid content level %q (want none, details or full)", level)
	}
	return &Capture{texts: level == Full, max: maxBytes, redactor: redactor, harmless: map[string]string{}}, nil
}

// Full reports whether texts are captured, and not only details.
func (c *Capture) Full() bool { return c != nil && c.texts }

// An Attribute is a captured attribute of a span.
type Attribute struct{ Key, Text string }

// Attributes are what was captured for one span.
type Attributes struct {
	List []Attribute
	Lost int // bytes that were truncated
}

// Add adds a text, from which lost bytes were cut. It replaces an earlier text of
// the same key.
func (a *Attributes) Add(key, text string, lost int) {
	if text == "" {
		return
	}
	a.Lost += lost
	for i := range a.List {
		if a.List[i].Key == key {
			a.List[i].Text = text
			return
		}
	}
	a.List = append(a.List, Attribute{key, text})
}

// Merge adds the attributes of others.
func (a *Attributes) Merge(others Attributes) {
	for _, o := range others.List {
		a.Add(o.Key, o.Text, 0)
	}
	a.Lost += others.Lost
}

// Text captures a text from between the quotes of a JSON string.
func (c *Capture) Text(to *Attributes, key string, escaped []byte) {
	if c == nil {
		return
	}
	s, lost := c.String(escaped)
	to.Add(key, s, lost)
}

// String returns a text from between the quotes of a JSON string, and how many
// bytes were cut from it.
func (c *Capture) String(escaped []byte) (s string, lost int) {
	return c.Next(escaped, new(Endings))
}

// Next is like String for a text that follows others. before has the ends of the earlier
// texts; Next adds the end of this one.
func (c *Capture) Next(escaped []byte, before *Endings) (s string, lost int) {
	if c == nil || len(escaped) == 0 {
		return "", 0
	}
	vr := valueReader{Capture: c, room: c.max + margin}
	n := vr.take(escaped)
	whole := unescape(escaped[:n])
	ending := before.byKind[0]
	before.add(0, whole)
	shown := len(whole)
	if n < len(escaped) {
		shown = Prefix(whole, max(0, shown-margin))
		vr.lost += len(whole) - shown
	}
	text := ending + whole
	s = without(text, c.redactor.Find(text), len(ending), len(ending)+shown)
	s, lost = truncated(s, c.max, n < len(escaped))
	return s, vr.lost + lost
}

// maxTail is how much of the end of a text is kept.
const maxTail = 2 << 10

// Tail captures the end of a text.
func (c *Capture) Tail(to *Attributes, key, s string) {
	if c == nil || s == "" {
		return
	}
	s = valid(s)
	longest := min(c.max, maxTail)
	whole := s
	s = without(s, c.redactor.Find(s), suffix(s, longest), len(s)) // redacted: the secrets are replaced by marks
	if len(whole) <= longest && len(s) <= longest {
		to.Add(key, s, 0)
		return
	}
	to.Add(key, Truncated+s[suffix(s, longest-len(Truncated)):], 0)
}

// suffix returns where the last n bytes of s begin, rounded up to a whole rune.
func suffix(s string, n int) int {
	from := max(0, len(s)-n)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return from
}

// JSON captures a value as JSON. If it is longer than the maximum size of an attribute,
// v becomes a cut copy.
func (c *Capture) JSON(to *Attributes, key string, v *Value, lost int) {
	b := v.append(nil)
	if len(b) > c.max {
		var cut int
		*v, cut = v.cut(c.max)
		lost += cut
		if cut > 0 && v.kind >= array && len(v.items) == 0 && !v.open {
			to.Lost += lost // not even a part of it fits
			return
		}
		b = v.append(b[:0])
	}
	to.Add(key, string(b), lost)
}

// Raw captures JSON as an agent wrote it.
func (c *Capture) Raw(to *Attributes, key string, raw []byte) {
	if c.Full() && len(raw) > 0 {
		v, lost := c.Value(raw)
		c.JSON(to, key, &v, lost)
	}
}
