package redact

import (
	"sort"
	"strings"
)

// A view is a text without colors, and with quotes, line breaks and separators
// decoded from the ways in which they are escaped: \", \u003d, %3D, &quot;. Rules
// look at views, so they need not know about JSON in strings of JSON. Other
// escapes stay as they are.
type view struct {
	text    string
	escapes []escape // in order; none if the text is its own view
	from    int      // where it begins in the view that it is a piece of, whose escapes it has
	last    int      // how many escapes were before a character that was asked for
}

// An escape is the encoding of one character of a view, or a color, which has
// none.
type escape struct {
	at    int   // index in the view
	raw   int   // where it is written in the text
	width int32 // how long it is there
	kind  byte  // its first byte there
	color bool
}

// after returns the index in the view behind the escape. A color has no character
// there.
func (e *escape) after() int {
	if e.color {
		return e.at
	}
	return e.at + 1
}

// newView returns the view of a text.
func newView(raw string) *view { return newViewOf(raw, bytesOf(raw), new([]escape)) }

// newViewOf is newView for a text of which it is known which bytes it has. The view
// has its escapes in the room, unless they are many.
func newViewOf(raw string, has byteSet, room *[]escape) *view {
	leads := leadsOf(raw, has)
	i := -1
	if leads != 0 {
		i = nextEscape(raw, 0, leads)
	}
	if i < 0 {
		v := &view{text: raw}
		if has&quotes == 0 {
			return v
		}
		return v.joined()
	}
	const most = 4 << 10
	v := &view{escapes: (*room)[:0]}
	if n := strings.Count(raw, `\`); n > cap(v.escapes) { // there are few others
		v.escapes = make([]escape, 0, n)
	}
	var b strings.Builder
	b.Grow(len(raw))
	last := 0
	for i >= 0 {
		c, width, ok := readEscape(raw[i:])
		if ok {
			b.WriteString(raw[last:i])
			v.escapes = append(v.escapes, escape{b.Len(), i, int32(width), raw[i], c == 0})
			if c != 0 {
				b.WriteByte(c)
			}
			last = i + width
		}
		i = nextEscape(raw, i+width, leads)
	}
	b.WriteString(raw[last:])
	v.text = b.String()
	if cap(v.escapes) <= most {
		*room = v.escapes
	}
	return v.joined()
}

// readEscape decodes the escape that s begins with; c is 0 for what has no width,
// such as a color. If there is none, width is the number of bytes to skip.
func readEscape(s string) (c byte, width int, ok bool) {
	switch s[0] {
	case invisible[0][0], invisible[1][0], invisible[5][0]:
		for _, i := range invisible {
			if strings.HasPrefix(s, i) {
				return 0, len(i), true
			}
		}
		return 0, 1, false
	case '\x1b':
		n := controlSequence(s[1:])
		return 0, 1 + n, n > 0
	case '%':
		if len(s) < 3 {
			return 0, 1, false
		}
		c, ok = hexByte(s[1:3])
		if !ok || !isStructure(c) && c != ' ' {
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
	}
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
		if c == 'u' && len(s) >= n+5 && oneOf(s[n:n+5], invisibleEscapes) {
			return 0, n + 5, true
		}
		c, size := codePoint(s[n:])
		if c == '\x1b' {
			if m := controlSequence(s[n+size:]); m > 0 {
				return 0, n + size + m, true
			}
		}
		if isStructure(c) {
			return c, n + size, true
		}
	}
	return 0, n, false
}

// invisibleEscapes are the same, escaped.
var invisibleEscapes = []string{"u00ad", "u200b", "u200c", "u200d", "u2060", "ufeff"}

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
func codePoint(s string) (c byte, size int) {
	switch {
	case s[0] == 'e':
		return '\x1b', 1
	case strings.HasPrefix(s, "033"):
		return '\x1b', 3
	case strings.HasPrefix(s, "u00") && len(s) >= 5:
		c, _ = hexByte(s[3:5])
		return c, 5
	case s[0] == 'x' && len(s) >= 3:
		c, _ = hexByte(s[1:3])
		return c, 3
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

// before returns the number of escapes before the character at i. Readers go forward,
// so it looks behind its last answer first.
func (v *view) before(i int) int {
	const steps = 4
	i += v.from
	behind := func(n int) bool {
		e := &v.escapes[n]
		return e.at > i || e.at == i && !e.color
	}
	if n := v.last; n == 0 || !behind(n-1) {
		for end := min(len(v.escapes), n+steps); n < end; n++ {
			if behind(n) {
				v.last = n
				return n
			}
		}
	}
	v.last = sort.Search(len(v.escapes), behind)
	return v.last
}

// width returns the length of the character at i in the text.
func (v *view) width(i int) int {
	if n := v.before(i); n < len(v.escapes) && v.escapes[n].at == i+v.from {
		return int(v.escapes[n].width)
	}
	return 1
}

// start returns the position in the text of the character at i.
func (v *view) start(i int) int { return v.after(v.before(i), i+v.from) }

// end returns the position in the text of the end of the character before i.
func (v *view) end(i int) int {
	i += v.from
	n := sort.Search(len(v.escapes), func(n int) bool { return v.escapes[n].at >= i })
	return v.after(n, i)
}

// piece returns the view of a piece of the text.
func (v *view) piece(start, end int) *view {
	from, to := v.index(start), v.index(end)
	return &view{text: v.text[from:max(from, to)], escapes: v.escapes, from: from, last: v.last}
}

// index returns where the character at i in the text is in the view, or what comes
// after it if it is a part of an escape.
func (v *view) index(i int) int {
	n := sort.Search(len(v.escapes), func(n int) bool { return v.escapes[n].raw >= i })
	if n == 0 {
		return i
	}
	e := &v.escapes[n-1]
	return e.after() + max(0, i-e.raw-int(e.width))
}

// after returns the position in the text of the character at i, which comes after
// the first n escapes.
func (v *view) after(n, i int) int {
	if n == 0 {
		return i
	}
	e := &v.escapes[n-1]
	return e.raw + int(e.width) + i - e.after()
}

// percent reports whether the character at i is percent-encoded.
func (v *view) percent(i int) bool {
	n := v.before(i)
	return n < len(v.escapes) && v.escapes[n].at == i+v.from && v.escapes[n].kind == '%'
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
