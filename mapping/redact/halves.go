package redact

import "strings"

// restOf returns the second half of a token whose first half ends at end: a random word
// in the next string, argument, line or inline element of HTML, or in the next string
// with the same name.
func restOf(t string, end int) (p place, ok bool) {
	const shortest = 8 // which tells it from a word
	for _, from := range [...]int{end + len(halfSeparator().FindString(t[end:min(len(t), end+longestSeparator)])), sameMember(t, end)} {
		to := from
		for to < len(t) && to-from < maxValue && isNameByte(t[to]) {
			to++
		}
		if from > end && to-from >= shortest && isRandom(strings.Trim(t[from:to], ".-_")) && (to == len(t) || strings.IndexByte("=/+@:", t[to]) < 0) {
			return place{from, to}, true
		}
	}
	return place{}, false
}

const longestSeparator = 48

// halfSeparator is what comes between the halves of a token: the end of a line and the
// margin of the next one, the end of a string, of an argument or of an element of HTML.
var halfSeparator = expr("\\A(?:=\r?\n|[ \t\r]*(?:" + nextLine + "|[\"'`]|  |" + inlineTag + "))(?:" + nextLine + "|[-\"'`+.,$@{}&|\\\\ \t\r]|" + inlineTag + ")*")

const (
	// nextLine is a line break and what a diff, a quotation or a listing with line
	// numbers puts before a line.
	nextLine = `\n(?:[ \t]*(?:\d{1,7}(?:→|[|:\t])|[+>|-][ \t]))?`

	// inlineTag is a tag that does not end a word.
	inlineTag = `</?(?:wbr|b|i|u|em|strong|span|font|mark|code)(?: [^<>\n]*)?/?>`
)

// sameMember returns where the next string begins that has the same name as the
// string that ends at end, 0 if there is none. Texts that came in pieces are printed like
// that: {"text": "a"}, {"text": "b"}.
func sameMember(t string, end int) int {
	const longest, longestName, longestStep = 4 << 10, 64, 512
	if end >= len(t) || t[end] != '"' {
		return 0
	}
	from := max(0, end-longest)
	open := from + strings.LastIndexByte(t[from:end], '"') + 1
	name := max(from, open-longestName)
	name += strings.LastIndexAny(t[name:open], "{,\n") + 1
	member := t[name:open]
	n := strings.Index(t[end+1:min(len(t), end+longestStep)], member)
	if n < 0 || !strings.Contains(member, ":") {
		return 0
	}
	return end + 1 + n + len(member)
}
