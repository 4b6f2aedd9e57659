package redact

import "strings"

// A gap is what stands between two pieces of a string: operators as in "a" + "b",
// nothing between quoted pieces of a shell word, or a line break, as in Python and
// C. Rules look at the joined string, because neither piece has to look like a
// secret.
type gap struct {
	place
	quote byte // of the first piece
}

// longestGap bounds what may come between two pieces, comments included.
const longestGap = 160

// joiners are operators that join strings. A longer one comes before its beginning.
var joiners = [...]string{".concat(", "++", "+", "..", ".", "||", "<>", "<<", "& _", "&", "~", "^"}

// mayJoin tells what a gap may go on with after its quote and spaces.
var mayJoin = setOfLetters(".+|<&~^,)\"'`bBrRuUfFL@$")

// A piece of a string does not end after these bytes, and a gap does not go on with
// other bytes than those after its first quote.
var (
	noEnd   = setOfLetters(" \t\r\n\"'`=:([{,;+|&<>")
	mayGoOn = setOfLetters(".+|<&~^,)\"'`@$/ \t\r\n" + alnum + "_")
)

// A quoteSearch finds the next quote in a text by three searches for one byte, which
// are several times faster than a look at each byte.
type quoteSearch struct {
	text string
	next [3]int // where the next double quote, single quote and backquote are
}

// from returns where the first quote at or after i is, the end of the text if there
// is none.
func (q *quoteSearch) from(i int) int {
	first := len(q.text)
	for n, c := range [...]byte{'"', '\'', '`'} {
		if q.next[n] < i {
			at := -1
			if i < len(q.text) {
				at = strings.IndexByte(q.text[i:], c)
			}
			if q.next[n] = i + at; at < 0 {
				q.next[n] = len(q.text)
			}
		}
		first = min(first, q.next[n])
	}
	return first
}

// joined returns a view without the gaps in strings.
func (v *view) joined() *view {
	gaps, closings := v.gaps()
	if len(gaps) == 0 {
		return v
	}
	out := &view{escapes: make([]escape, 0, len(v.escapes)+len(gaps)+len(closings))}
	b := make([]byte, 0, len(v.text))
	from, n := 0, 0 // what was copied of the text and of the escapes
	upTo := func(to int) {
		removed := from - len(b)
		for ; n < len(v.escapes) && (v.escapes[n].at < to || v.escapes[n].at == to && v.escapes[n].color); n++ {
			e := v.escapes[n]
			e.at -= removed
			out.escapes = append(out.escapes, e)
		}
		b = append(b, v.text[from:to]...)
		from = to
	}
	skipped := func(to int) {
		for ; n < len(v.escapes) && v.escapes[n].at < to; n++ {
		}
		from = to
	}
	for _, g := range gaps {
		for len(closings) > 0 && closings[0].start < g.start {
			upTo(closings[0].start)
			b = v.close(out, b, closings[0])
			skipped(closings[0].end)
			closings = closings[1:]
		}
		upTo(g.start)
		raw := v.start(g.start)
		out.escapes = append(out.escapes, escape{at: len(b), raw: raw, width: int32(v.end(g.end) - raw), color: true})
		skipped(g.end)
	}
	for _, c := range closings {
		upTo(c.start)
		b = v.close(out, b, c)
		skipped(c.end)
	}
	upTo(len(v.text))
	out.text = string(b)
	return out
}

// close writes the quote that ends the last piece as the quote that begins the
// first one.
func (v *view) close(out *view, b []byte, c gap) []byte {
	raw, last := v.start(c.start), v.end(c.end)-1
	if last > raw { // backslashes before it, of which the first quote may have fewer
		out.escapes = append(out.escapes, escape{at: len(b), raw: raw, width: int32(last - raw), color: true})
	}
	out.escapes = append(out.escapes, escape{at: len(b), raw: last, width: 1, kind: v.text[c.start]})
	return append(b, c.quote)
}

// gaps returns the gaps in a text, and the quotes that end a string whose pieces
// have different quotes.
func (v *view) gaps() (gaps, closings []gap) {
	t := v.text
	open := gap{} // the end of a piece with a different quote
	last := 0     // the last quote
	listed := -1  // the quote that begins the next string of a list
	next := quoteSearch{text: t}
	for i := next.from(1); i+1 < len(t); i = next.from(i + 1) {
		c := t[i]
		first := last
		last = i
		quote := c
		if open.end > 0 && i == open.start {
			quote = open.quote
		}
		end, comma := v.gap(i, first == listed || first > 0 && t[first-1] != ':' && t[first-1] != ',' && t[first-1] != '=')
		if comma && first != listed && !inJoinedList(t, first, i) {
			end = 0
		}
		if end == 0 {
			if quote != c {
				closings = append(closings, open)
			}
			continue
		}
		gaps = append(gaps, gap{place{i, end}, quote})
		open = gap{}
		if t[end-1] != quote {
			if n := v.closing(end-1, longestGap); n < len(t) && t[n] == t[end-1] {
				open = gap{place{n, n + 1}, quote}
			}
		}
		i = end - 1
		if last = i; comma {
			listed = i
		}
	}
	return gaps, closings
}

// gap returns the end of the gap that begins with the quote at i, 0 if the string
// ends there. mayList: the string may be in a list. comma: it is a gap only if the
// list is joined.
func (v *view) gap(i int, mayList bool) (end int, comma bool) {
	t := v.text
	if noEnd[t[i-1]] || !mayGoOn[t[i+1]] {
		return 0, false
	}
	limit := min(len(t), i+longestGap)
	j, lines := skipGap(t, i+1, limit)
	if j == limit {
		return 0, false
	}
	if !mayJoin[t[j]] {
		if isWordByte(t[j]) && j == i+1 && t[i] == '"' && endsWord(t, i) {
			return j, false
		}
		return 0, false
	}
	if t[j] == ',' && !mayList { // most strings in JSON
		return 0, false
	}
	joins := false
	if t[j] == ')' { // string("a") + "b"
		if k, _ := skipGap(t, j+1, limit); k < limit && t[k] == '+' {
			j = k
		}
	}
	n := joiner(t[j:limit])
	if n == 0 && t[j] == ',' {
		n, comma = 1, true
	}
	if n > 0 {
		joins = true
		j, _ = skipGap(t, j+n, limit)
	}
	if j+1 < limit && strings.IndexByte("bBrRuUfFL@$", t[j]) >= 0 && isQuote(t[j+1]) {
		j++
	}
	switch {
	case j+1 >= limit || !isQuote(t[j]) || t[i] == t[j] && v.width(i) != v.width(j):
		return 0, false
	case joins && strings.IndexByte(" \t\r\n\"'`),;:+", t[j+1]) < 0:
		return j + 1, comma
	case !joins && (lines || j <= i+2 && t[j-1] != ' ' || t[i-1] == '-' || t[i-1] == '_') && isWordByte(t[j+1]) && (t[j] == t[i] || !lines):
		return j + 1, comma
	}
	return 0, false
}

// joiner returns the length of the operator that s begins with, 0 if there is none.
func joiner(s string) int {
	for _, o := range joiners {
		if strings.HasPrefix(s, o) {
			return len(o)
		}
	}
	return 0
}

// endsWord reports whether the quote at i begins a piece of the value of a shell
// variable, a piece of which comes before it: TOKEN=abc"def".
func endsWord(t string, i int) bool {
	const shortest, longest = 4, 64
	from := i
	for from > 0 && i-from < longest && isNameByte(t[from-1]) {
		from--
	}
	return i-from >= shortest && from > 0 && t[from-1] == '='
}

// skipGap skips spaces, line breaks, comments, and what a diff or a listing puts
// before a line. lines tells whether it came to another line.
func skipGap(t string, i, limit int) (end int, lines bool) {
	for i < limit {
		switch c := t[i]; {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\n':
			lines = true
			i = min(limit, skipGutter(t, i+1))
		case strings.HasPrefix(t[i:limit], "/*"):
			n := strings.Index(t[i:limit], "*/")
			if n < 0 {
				return i, lines
			}
			i += n + 2
		case strings.HasPrefix(t[i:limit], "//"), c == '#' && i > 0 && t[i-1] == ' ':
			n := strings.IndexByte(t[i:limit], '\n')
			if n < 0 {
				return i, lines
			}
			i += n
		default:
			return i, lines
		}
	}
	return limit, lines
}

// skipGutter skips what a diff, a quotation or a listing with line numbers puts
// before a line that begins at i.
func skipGutter(t string, i int) int {
	from := skipSpaces(t, i)
	j := from
	for j < len(t) && j-from < 7 && isDigit(t[j]) {
		j++
	}
	if j > from {
		for _, mark := range [...]string{"→", "|", ":", "\t"} {
			if strings.HasPrefix(t[j:], mark) {
				return j + len(mark)
			}
		}
		return i
	}
	if j+1 < len(t) && strings.IndexByte("+->|", t[j]) >= 0 && (t[j+1] == ' ' || t[j+1] == '\t') {
		return j + 1
	}
	return i
}

// joinedLists are calls of functions that join strings without a separator.
var joinedLists = [...]string{`"".join([`, `''.join([`, `"".join((`, "concat(", "CONCAT(", "implode('', ["}

// inJoinedList reports whether the string between two quotes is the first of a list
// that a program joins: "".join(["a", "b"]), ["a", "b"].join(""), concat("a", "b").
func inJoinedList(t string, open, end int) bool {
	const longest = 512
	before := strings.TrimRight(t[max(0, open-32):open], " \n\t")
	list := t[end:min(len(t), end+longest)]
	switch {
	case strings.HasSuffix(before, "["):
		if n := strings.IndexByte(list, ']'); n >= 0 && hasPrefix(list[n:], `].join("")`, `].join('')`) {
			return true
		}
	case strings.HasSuffix(before, "Join([]string{"):
		n := strings.IndexByte(list, '}')
		return n >= 0 && strings.HasPrefix(list[n:], `}, "")`)
	}
	return hasSuffix(before, joinedLists[:]...)
}
