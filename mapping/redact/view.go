package redact

import (
	"sort"
	"strings"
)

// A view is a text as a reader sees it: without colours, and with the characters
// that set names and values apart decoded from however they are written, such
// as \", \u003d, %3D or &quot;. The rules look at views, so none of them has to
// know about JSON in a string of JSON. Other escapes stay as they are.
type view struct {
	text    string
	escapes []escape // in order; none if the text is its own view
}

// An escape is what stands for one character of a view, or for none if it is
// a colour.
type escape struct {
	at     int   // index in the view
	raw    int   // where it is written in the text
	width  int32 // how long it is there
	kind   byte  // its first byte there
	colour bool
}

// A view is at most as long as its text.
func newView(raw string) *view {
	leads := leadsOf(raw)
	i := nextEscape(raw, 0, leads)
	if i < 0 {
		return &view{text: raw}
	}
	v := &view{}
	b := make([]byte, 0, len(raw))
	last := 0
	for i >= 0 {
		c, width, ok := readEscape(raw[i:])
		if ok {
			b = append(b, raw[last:i]...)
			v.escapes = append(v.escapes, escape{len(b), i, int32(width), raw[i], c == 0})
			if c != 0 {
				b = append(b, c)
			}
			last = i + width
		}
		i = nextEscape(raw, i+width, leads)
	}
	v.text = string(append(b, raw[last:]...))
	return v
}

// leadsOf returns the bytes that escapes begin with in a text.
func leadsOf(s string) string {
	leads := `\`
	if strings.IndexByte(s, '\x1b') >= 0 {
		leads += "\x1b"
	}
	if isPercentEncoded(s) {
		leads += "%"
	}
	if strings.Contains(s, "&#") || strings.Contains(s, "&quot;") || strings.Contains(s, "&amp;") || strings.Contains(s, "&lt;") {
		leads += "&"
	}
	return leads
}

// nextEscape returns where the next escape may begin, -1 if none does.
func nextEscape(s string, from int, leads string) int {
	var n int
	if len(leads) == 1 {
		n = strings.IndexByte(s[from:], leads[0])
	} else {
		n = strings.IndexAny(s[from:], leads)
	}
	if n < 0 {
		return -1
	}
	return from + n
}

// readEscape decodes the escape that s begins with; c is 0 for a colour. If it
// is none, width is how much of s to skip.
func readEscape(s string) (c byte, width int, ok bool) {
	switch s[0] {
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
	case 'n', '\n':
		if c == '\n' {
			c = ' ' // a command goes on in the next line
		} else {
			c = '\n'
		}
		return c, n + 1, true
	case 'r':
		return '\r', n + 1, true
	case 't':
		return '\t', n + 1, true
	case '"', '\'', '`', '/':
		return c, n + 1, true
	case 'u', 'x', '0', 'e':
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

// isPercentEncoded tells whether there is more than a percent sign in a text: a
// quote, a colon or an equals sign that is percent-encoded.
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

// isStructure tells whether a character can set names and values apart.
func isStructure(c byte) bool { return strings.IndexByte("\"'`=:&{}[],;?/@<>\n+", c) >= 0 }

// controlSequence returns how long the rest of a terminal's control sequence is
// that s begins with after its escape character, 0 if it is none.
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

// before returns how many escapes come before the character at i.
func (v *view) before(i int) int {
	return sort.Search(len(v.escapes), func(n int) bool {
		e := &v.escapes[n]
		return e.at > i || e.at == i && !e.colour
	})
}

// width returns how long the character at i is in the text.
func (v *view) width(i int) int {
	if n := v.before(i); n < len(v.escapes) && v.escapes[n].at == i {
		return int(v.escapes[n].width)
	}
	return 1
}

// start returns where in the text the character at i is written.
func (v *view) start(i int) int { return v.after(v.before(i), i) }

// end returns where in the text the characters before i end.
func (v *view) end(i int) int {
	n := sort.Search(len(v.escapes), func(n int) bool { return v.escapes[n].at >= i })
	return v.after(n, i)
}

// after returns where the character at i is written if the first n escapes come
// before it.
func (v *view) after(n, i int) int {
	if n == 0 {
		return i
	}
	e := &v.escapes[n-1]
	at := e.at
	if !e.colour {
		at++
	}
	return e.raw + int(e.width) + i - at
}

// percent tells whether the character at i is percent-encoded.
func (v *view) percent(i int) bool {
	n := v.before(i)
	return n < len(v.escapes) && v.escapes[n].at == i && v.escapes[n].kind == '%'
}

// closing returns where the string ends whose opening quote is at i, if it does
// within limit bytes: at the same quote written in the same way, or where the
// line or the string around it ends.
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
