package redact

import (
	"iter"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a text is read as a name and its value, in bytes.
const (
	maxName  = 64
	maxValue = 2 << 10

	// within is how far a value may be from its name.
	within = 256
)

// A view is a text as people read it: without terminal colors and invisible
// characters, with full-width characters as ASCII, and with quotes, line breaks,
// separators and letters decoded from the ways in which they are escaped: \", \u003d,
// %3D, &quot;. Rules look at views, so they need not know about JSON in strings of JSON.
type view struct {
	text    string
	escapes []escape // in order; none if the text is its own view
	json    bool     // the text is a JSON object or array, whose strings are texts of their own
}

// An escape is what a character of a view is written as, or what the view leaves out.
type escape struct {
	at      int   // index in the view
	raw     int   // where it is written in the text
	width   int32 // how long it is there
	kind    byte  // its first byte there
	omitted bool  // it has no character in the view
}

// next returns the index in the view after the escape.
func (e *escape) next() int {
	if e.omitted {
		return e.at
	}
	return e.at + 1
}

// mayEscape is the set of bytes that may begin an escape: also the first bytes of characters
// beyond ASCII that may be invisible, a space or full-width.
var mayEscape = setOfLetters("\\\x1b%&\xc2\xcd\xe1\xe2\xe3\xef\xf3")

func newView(raw string) *view {
	i := nextEscape(raw, 0)
	if i == len(raw) {
		return &view{text: raw}
	}
	v := &view{}
	var b strings.Builder
	b.Grow(len(raw))
	percent := isPercentEncoded(raw[i:])
	last := 0
	for i < len(raw) {
		c, width, ok := readEscape(raw[i:], percent)
		if ok {
			b.WriteString(raw[last:i])
			v.escapes = append(v.escapes, escape{b.Len(), i, int32(width), raw[i], c == 0})
			if c != 0 {
				b.WriteByte(c)
			}
			last = i + width
		}
		i = nextEscape(raw, i+width)
	}
	if len(v.escapes) == 0 {
		return &view{text: raw}
	}
	b.WriteString(raw[last:])
	v.text = b.String()
	return v
}

// nextEscape returns where the next escape may begin.
func nextEscape(s string, i int) int {
	for i < len(s) && !mayEscape[s[i]] {
		i++
	}
	return i
}

// readEscape decodes the escape that s begins with; c is 0 for what the view leaves out.
// If there is none, width is the number of bytes to skip. percent: the text is
// percent-encoded.
func readEscape(s string, percent bool) (c byte, width int, ok bool) {
	switch s[0] {
	case '\x1b':
		n := controlSequence(s[1:])
		return 0, 1 + n, n > 0
	case '%':
		if !percent || len(s) < 3 {
			return 0, 1, false
		}
		c, ok = hexByte(s[1:3])
		if !ok || c == '`' || !isStructure(c) && c != ' ' {
			return 0, 1, false
		}
		return c, 3, true
	case '&':
		for _, e := range entities {
			if strings.HasPrefix(s, e.name) {
				return e.char, len(e.name), true
			}
		}
		return 0, 1, false
	case '\\':
		return readBackslash(s)
	}
	r, width := utf8.DecodeRuneInString(s)
	c, ok = plainOf(r)
	return c, width, ok
}

// plainOf returns the character that a character beyond ASCII is shown as: a full-width
// one in ASCII, a space, or 0 for an invisible one.
func plainOf(r rune) (c byte, ok bool) {
	switch {
	case r >= 0xff01 && r <= 0xff5e:
		return byte(r - 0xff01 + '!'), true
	case r == 0xa0 || r == 0x3000 || r >= 0x2000 && r <= 0x200a:
		return ' ', true
	case strings.ContainsRune("“”„«»", r):
		return '"', true
	case r == 0x34f || r == 0x115f || r == 0x3164 || r >= 0xfe00 && r <= 0xfe0f: // joiners, fillers, variation selectors
		return 0, true
	}
	return 0, r >= 0x80 && r != utf8.RuneError && unicode.Is(unicode.Cf, r)
}

// readBackslash decodes the escape that one or more backslashes begin.
func readBackslash(s string) (c byte, width int, ok bool) {
	n := 1
	for n < len(s) && s[n] == '\\' {
		n++
	}
	if n == len(s) {
		return 0, n, false
	}
	switch c := s[n]; c {
	case '\n':
		return continued(s[n+1:]), n + 1, true
	case 'n':
		if isContinuation(n) {
			return continued(s[n+1:]), n + 1, true
		}
		return '\n', n + 1, true
	case 'r':
		return '\r', n + 1, true
	case 't':
		return '\t', n + 1, true
	case '"', '\'', '`', '/':
		return c, n + 1, true
	case 'u', 'x', '0', 'e':
		r, size := codePoint(s[n:])
		if r == '\x1b' {
			if m := controlSequence(s[n+size:]); m > 0 {
				return 0, n + size + m, true
			}
		}
		if r >= 0x80 {
			c, ok = plainOf(r)
			return c, n + size, ok
		}
		if isStructure(byte(r)) || (c == 'u' || c == 'x') && isWordByte(byte(r)) {
			return byte(r), n + size, true
		}
	}
	return 0, n, false
}

// continued returns what stands for a backslash at the end of a line: a shell goes
// on with the same word if rest begins without a space.
func continued(rest string) byte {
	if rest != "" && isWordByte(rest[0]) {
		return 0
	}
	return ' '
}

// isContinuation reports whether n backslashes before an n are a backslash and a
// line break, escaped as often as each other: 2 and 1 in JSON, 4 and 2 in JSON in a
// string of JSON.
func isContinuation(n int) bool { return n == 3 || n == 6 || n == 12 || n == 24 }

// codePoint reads u003d, x3d, 033 or e.
func codePoint(s string) (r rune, size int) {
	switch {
	case s[0] == 'e':
		return '\x1b', 1
	case strings.HasPrefix(s, "033"):
		return '\x1b', 3
	case s[0] == 'u' && len(s) >= 5:
		high, ok := hexByte(s[1:3])
		if low, ok2 := hexByte(s[3:5]); ok && ok2 {
			return rune(high)<<8 | rune(low), 5
		}
	case s[0] == 'x' && len(s) >= 3:
		c, _ := hexByte(s[1:3])
		return rune(c), 3
	}
	return 0, 0
}

var entities = []struct {
	name string
	char byte
}{
	{"&quot;", '"'}, {"&#34;", '"'}, {"&#x22;", '"'}, {"&apos;", '\''}, {"&#39;", '\''}, {"&#x27;", '\''}, {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'},
}

// isStructure reports whether a character can separate names and values.
func isStructure(c byte) bool { return strings.IndexByte("\"'`=:&{}[],;?/@<>\n+", c) >= 0 }

// isPercentEncoded reports whether a quote, a colon or an equals sign in a text is
// percent-encoded. In other texts a percent sign is nothing but that.
func isPercentEncoded(s string) bool {
	for {
		n := strings.IndexByte(s, '%')
		if n < 0 || n+3 > len(s) {
			return false
		}
		if s = s[n+1:]; s[0] == '3' && strings.IndexByte("ADad", s[1]) >= 0 || s[0] == '2' && s[1] == '2' {
			return true
		}
	}
}

// controlSequence returns the length of the terminal control sequence that s is
// the rest of, without its escape character; 0 if there is none.
func controlSequence(s string) int {
	const longest = 256
	if s == "" {
		return 0
	}
	s = s[:min(len(s), longest)]
	switch s[0] {
	case '[':
		for i := 1; i < len(s); i++ {
			if '@' <= s[i] && s[i] <= '~' {
				return i + 1
			}
			if s[i] < ' ' || '?' < s[i] {
				return 0
			}
		}
	case ']':
		if n := strings.IndexAny(s, "\a\x1b"); n > 0 {
			if s[n] == '\x1b' {
				return min(len(s), n+2)
			}
			return n + 1
		}
	}
	return 0
}

func hexByte(s string) (byte, bool) {
	var c byte
	for i := range 2 {
		switch d := s[i]; {
		case '0' <= d && d <= '9':
			c = c<<4 | (d - '0')
		case 'a' <= d|' ' && d|' ' <= 'f':
			c = c<<4 | (d | ' ' - 'a' + 10)
		default:
			return 0, false
		}
	}
	return c, true
}

// before returns the number of escapes before the character at i.
func (v *view) before(i int) int {
	return sort.Search(len(v.escapes), func(n int) bool {
		e := &v.escapes[n]
		return e.at > i || e.at == i && !e.omitted
	})
}

// escapeAt returns the escape of the character at i, nil if it is written as it is.
func (v *view) escapeAt(i int) *escape {
	if n := v.before(i); n < len(v.escapes) && v.escapes[n].at == i {
		return &v.escapes[n]
	}
	return nil
}

// width returns the length of the character at i in the text.
func (v *view) width(i int) int {
	if e := v.escapeAt(i); e != nil {
		return int(e.width)
	}
	return 1
}

// percent reports whether the character at i is percent-encoded.
func (v *view) percent(i int) bool {
	e := v.escapeAt(i)
	return e != nil && e.kind == '%'
}

// start returns the position in the text of the character at i.
func (v *view) start(i int) int { return v.after(v.before(i), i) }

// end returns the position in the text of the end of the character before i.
func (v *view) end(i int) int {
	n := sort.Search(len(v.escapes), func(n int) bool { return v.escapes[n].at >= i })
	return v.after(n, i)
}

// after returns the position in the text of the character at i, which comes after
// the first n escapes.
func (v *view) after(n, i int) int {
	if n == 0 {
		return i
	}
	e := &v.escapes[n-1]
	return e.raw + int(e.width) + i - e.next()
}

// closing returns the end of the string whose opening quote is at i, at most
// limit bytes away: the same quote, escaped in the same way, or the end of the
// line or of an outer string.
func (v *view) closing(i, limit int) int {
	q, w := v.text[i], v.width(i)
	end := min(len(v.text), i+1+limit)
	for j := i + 1; ; j++ {
		n := strings.IndexByte(v.text[j:end], q)
		if n < 0 {
			n = end - j
		}
		if line := strings.IndexByte(v.text[j:j+n], '\n'); line >= 0 {
			n = line
		}
		if j += n; j == end || v.width(j) <= w {
			return j
		}
	}
}

// isBorder reports whether the character at i ends a line, or begins or ends a string of
// JSON.
func (v *view) isBorder(i int) bool {
	c := v.text[i]
	return c == '\n' || c == '"' && v.json && v.width(i) == 1
}

// lines iterates over the lines from i on, or to the end of the string of JSON that i
// is in.
func (v *view) lines(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		for i < len(v.text) {
			end, limit := i, min(len(v.text), i+maxValue)
			for end < limit && v.text[end] != '\n' && !v.isBorder(end) {
				end++
			}
			if !yield(place{i, end}) || end < len(v.text) && v.text[end] == '"' {
				return
			}
			i = end + 1
		}
	}
}

// literal returns the string whose opening quote is at i, up to the quote or the end of
// the line that ends it.
func (v *view) literal(i int) (start, end int, ok bool) {
	t := v.text
	if i >= len(t) || !isQuote(t[i]) {
		return 0, 0, false
	}
	if i+2 < len(t) && t[i+1] == t[i] && t[i+2] == t[i] { // """..."""
		i += 2
	}
	return i + 1, v.closing(i, maxValue), true
}
