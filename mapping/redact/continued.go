package redact

import "strings"

const (
	// shortestRest is how long the rest of a token must be to be told from a word.
	shortestRest = 8
	// longestFrame bounds the name before a string and what comes before the next
	// string of that name.
	longestFrame = 64
	longestStep  = 512
)

// rest returns the piece of a token that follows its first piece, which begins at
// start and ends at end. Between the two is what separates strings, arguments, lines
// or elements of HTML. A piece that is not random is none.
func (v *view) rest(start, end int) (p place, ok bool) {
	t := v.text
	for _, from := range [...]int{skipSeparator(t, end), v.sameMember(end), argument(t, start, end)} {
		to := from
		for to < len(t) && to-from < maxValue && isNameByte(t[to]) {
			to++
		}
		if from > end && to-from >= shortestRest && isRandom(strings.Trim(t[from:to], ".-_")) && (to == len(t) || strings.IndexByte("=/+@:", t[to]) < 0) {
			return place{from, to}, true
		}
	}
	return place{}, false
}

// skipSeparator returns where the next piece begins, 0 if what follows is no
// separator.
func skipSeparator(t string, i int) int {
	const longest = 48
	limit := min(len(t), i+longest)
	from, lines, quotes := i, false, 0
	if strings.HasPrefix(t[i:limit], "=\n") || strings.HasPrefix(t[i:limit], "=\r\n") { // quoted-printable
		i++
	}
	for i < limit {
		switch c := t[i]; {
		case c == '\n':
			lines = true
			i = skipGutter(t, i+1)
		case isQuote(c):
			quotes++
			i++
		case c == '<':
			n := inlineTag(t[i:limit])
			if n == 0 {
				return 0
			}
			i += n
			quotes++
		case c == ' ' || c == '\t' || c == '\r' || c == ',' && quotes > 0, quotes > 0 && strings.IndexByte("+.$@{}&|\\", c) >= 0:
			i++
		case quotes > 0 || lines || i > from+1 && t[from] == ' ' && t[from+1] == ' ':
			return i
		default:
			return 0
		}
	}
	return 0
}

// inlineTag returns the length of the tag that s begins with, if it does not end a
// word: </b>, <wbr>, <span class="x">.
func inlineTag(s string) int {
	n := strings.IndexByte(s, '>')
	if n < 0 {
		return 0
	}
	name, _, _ := strings.Cut(strings.Trim(s[1:n], "/"), " ")
	if !oneOf(name, []string{"wbr", "b", "i", "u", "em", "strong", "span", "font", "mark", "code"}) {
		return 0
	}
	return n + 1
}

// sameMember returns where the next string begins that has the same name as the
// string that ends at end: texts that came in pieces are printed like that,
// {"text": "a"}, {"text": "b"}.
func (v *view) sameMember(end int) int {
	const longest = 4 << 10
	t := v.text
	if end >= len(t) || t[end] != '"' {
		return 0
	}
	width := v.width(end)
	from := max(0, end-longest)
	open := end
	for {
		if open = from + strings.LastIndexByte(t[from:open], '"'); open < from {
			return 0
		}
		if v.width(open) == width {
			break
		}
	}
	name := open
	for name > 0 && open-name < longestFrame && strings.IndexByte("{,\n", t[name-1]) < 0 {
		name--
	}
	frame := t[name : open+1]
	if !strings.Contains(frame, ":") {
		return 0
	}
	next := end + 1
	n := strings.Index(t[next:min(len(t), next+longestStep)], frame)
	if n < 0 {
		return 0
	}
	return next + n + len(frame)
}

// argument returns where the next argument of printf '%s%s' a b begins.
func argument(t string, start, end int) int {
	before := t[max(0, start-longestFrame):start]
	if end+1 < len(t) && t[end] == ' ' && strings.Contains(before, "%s%s") && !strings.Contains(before[strings.LastIndex(before, "%s%s"):], "\n") {
		return end + 1
	}
	return 0
}
