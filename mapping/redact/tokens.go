package redact

import (
	"slices"
	"strings"
)

// tokenRules returns the rules for all tokens, one for each name.
func tokenRules(tokens []token) (rules []rule) {
	byRule := map[string][]token{}
	for _, t := range tokens {
		if byRule[t.rule] == nil {
			rules = append(rules, rule{name: t.rule})
		}
		byRule[t.rule] = append(byRule[t.rule], t)
	}
	for i := range rules {
		r := &rules[i]
		forms := byRule[r.name]
		for _, k := range forms {
			if p := strings.ToLower(k.prefix); !slices.Contains(r.keywords, p) {
				r.keywords = append(r.keywords, p)
			}
		}
		r.accepts = func(text string, h place) bool {
			return slices.ContainsFunc(forms, func(k token) bool { return k.begins(text, h.start) })
		}
		r.find = func(v *view, hits []place, found func(start, end int)) {
			done := 0
			for _, h := range hits {
				for _, k := range forms {
					if h.start < done {
						break
					}
					if end := k.end(v.text, h.start); end > 0 {
						found(h.start, end)
						done = end
						if p, ok := restOf(v.text, end); ok {
							found(p.start, p.end)
						}
					}
				}
			}
		}
	}
	return rules
}

// longestToken bounds how far a token is read. It is far more than any vendor's
// tokens need.
const longestToken = 16 << 10

// begins reports whether a token may begin at start.
func (k *token) begins(text string, start int) bool {
	last := start + len(k.prefix) + k.min - 1
	const shortest = 4 // of prefixes that a text in base64 seldom has
	if len(k.prefix) < shortest && start > 1 && (text[start-1] == '-' || text[start-1] == '+') && isWordByte(text[start-2]) {
		return false
	}
	return last < len(text) && strings.HasPrefix(text[start:], k.prefix) && k.letters[text[last]] &&
		(start == 0 || !isWordByte(text[start-1]) || !isWordByte(k.prefix[0]))
}

// end returns where the token ends that begins at start, 0 if none does.
func (k *token) end(text string, start int) int {
	if !k.begins(text, start) {
		return 0
	}
	from := start + len(k.prefix)
	end := from + k.letters.prefix(text[from:min(len(text), from+longestToken)])
	for end > from && strings.IndexByte(".-%~/+", text[end-1]) >= 0 {
		end--
	}
	rest := text[from:end]
	if len(rest) < k.min || placeholder(rest) || !looksIssued(rest) {
		return 0
	}
	return wordEnd(text, end)
}

// looksIssued reports whether what follows a prefix is random. In sk-spinner-container
// it is not.
func looksIssued(rest string) bool {
	m := makeupOf(rest)
	if m.digits == 0 {
		return m.upper > 2 && m.letters-m.upper > 2 && entropy(rest) > 3
	}
	return entropy(rest) > 2.5 && (m.letters > 0 || len(rest) >= 16) && (m.joiners == 0 || m.letters == 0 || turnsOf(rest) >= 3)
}

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
