package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// blockStart is what comes between a name and the lines below it: in YAML, a scalar
// with | or >, a list or a map.
var blockStart = expr(closing + `[ \t]*:[ \t]*([|>][-+\d]*)?[ \t]*(?:#[^\n]*)?\r?\n`)

// block reads the lines below a name.
func (f *field) block() int {
	m := blockStart().FindStringSubmatchIndex(f.text[f.end:min(len(f.text), f.end+within)])
	if m == nil {
		return 0
	}
	scalar := m[2] >= 0
	own := f.indentation()
	first, last := 0, 0 // of the lines that are secret
	n := 0
	for line := range f.v.lines(f.end + m[1]) {
		in := indent(f.text[line.start:line.end])
		item := strings.TrimSpace(f.text[line.start:line.end])
		if item == "" {
			continue
		}
		isItem := strings.HasPrefix(item, "- ")
		if n++; n > 64 || in < own || in == own && (scalar || !isItem) {
			break
		}
		from, to := line.start+in, line.start+in+len(item)
		if !scalar {
			if n == 1 && !isItem && !f.isMember(item) && !f.isItem(item) {
				return 0
			}
			if f.item(from, to) {
				last = to
			}
			continue
		}
		if !f.isLine(item) {
			break
		}
		if first == 0 {
			first = from
		}
		last = to
	}
	switch {
	case last == 0:
		return 0
	case scalar:
		f.found(first, last)
		return last
	}
	return f.end // its members have names of their own
}

// indentation returns the indentation of the name's line.
func (f *field) indentation() int {
	line := f.line()
	in := indent(line)
	for strings.HasPrefix(line[in:], "- ") {
		in += 2 + indent(line[in+2:])
	}
	return in
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// isLine reports whether a line of a block scalar may be a part of a secret.
func (f *field) isLine(line string) bool {
	if strings.Contains(line, " ") { // a pass phrase, but not a sentence
		return f.class == password && strings.ContainsAny(line, digits) && !strings.HasSuffix(line, ".") && !placeholder(line)
	}
	return f.class.secret(line, conf) || strings.ContainsAny(line, digits) && f.class.secret(line, quoted)
}

// isItem reports whether a value in a list is a secret.
func (f *field) isItem(v string) bool {
	if len(v) >= 2 && isQuote(v[0]) && v[len(v)-1] == v[0] {
		v = v[1 : len(v)-1]
	}
	if f.class == datum {
		return len(v) >= 4 && !placeholder(v)
	}
	if strings.ContainsAny(v, " :") || !f.class.secret(v, quoted) {
		return false
	}
	if f.class == password {
		return strings.ContainsAny(v, digits) && len(v) >= 6
	}
	return len(v) >= 8 && (isRandom(v) && (turnsOf(v) > 2 || len(v) >= 20) || f.class == secret && isStrong(v)) // tokens of a grammar have a digit at most
}

// isMember reports whether a line is a member of a map.
func (f *field) isMember(item string) bool {
	name, _, ok := strings.Cut(item, ":")
	return ok && f.many && isIdentifier(strings.Trim(strings.ReplaceAll(name, "-", "_"), `"'`))
}

// item finds the secret in a line that is a value, - value or name: value.
func (f *field) item(from, to int) bool {
	t := f.text
	if strings.HasPrefix(t[from:to], "- ") {
		from += 2 + indent(t[from+2:to])
	}
	if f.isMember(t[from:to]) {
		from = skipSpaces(t, from+strings.IndexByte(t[from:to], ':')+1)
	}
	if from >= to || !f.isItem(t[from:to]) {
		return false
	}
	if isQuote(t[from]) {
		from, to = from+1, to-1
	}
	f.found(from, to)
	return true
}

// listStart is what comes between a name and a list or map in brackets.
var listStart = expr(closing + `[ \t]*` + separator + `\s*[\[{(]`)

// list reads a list or a map in brackets.
func (f *field) list() int {
	const longest = 4 << 10
	t := f.text
	m := listStart().FindStringSubmatchIndex(t[f.end:min(len(t), f.end+within)])
	if m == nil || t[f.end+m[2]] == '!' {
		return 0
	}
	i := f.end + m[1] - 1
	if i < f.listed && (f.plural || !f.many) {
		return 0 // in another list
	}
	depth, done := 0, 0
	label := "" // of the member
	for limit := min(len(t), i+longest); i < limit; i++ {
		switch c := t[i]; {
		case c == '[' || c == '{' || c == '(':
			depth++
		case c == ']' || c == '}' || c == ')':
			if depth--; depth == 0 {
				limit = i
			}
		case c == ',' || c == '\n':
			label = ""
		case f.many && isWordByte(c) && strings.IndexByte("[, ", t[i-1]) >= 0: // [a, b] of YAML
			end := i
			for end < limit && (isNameByte(t[end]) || strings.IndexByte("+/=", t[end]) >= 0) {
				end++
			}
			if v := t[i:end]; end < limit && (t[end] == ',' || t[end] == ']') && isRandom(v) && f.isItem(v) {
				f.found(i, end)
				done = end
			}
			i = end - 1
		case isQuote(c):
			start, end, _ := f.v.literal(i)
			next := skipAll(t, min(len(t), end+1))
			if next < len(t) && (t[next] == ':' || strings.HasPrefix(t[next:], "=>")) {
				label = t[start:end]
			} else if f.inList(label, t[start:max(start, end)]) {
				f.found(start, end)
				done = end
			}
			i = max(i, end)
		}
	}
	f.listed, f.plural = i, f.many
	return min(done, f.end) // its members may have names of their own
}

// inList reports whether a value in brackets is a secret.
func (f *field) inList(label, v string) bool {
	switch {
	case f.class == datum:
		return f.isItem(v)
	case is("value-label", label) || oneOf(label, "secret", "password", "token", "key", "current", "previous"):
		return f.class.secret(v, quoted)
	case is("no-value", label):
		return false
	}
	return (f.many || label == "") && f.isItem(v)
}

// labels returns an expression for one of the words of a list of rules.txt.
func labels(name string) string { return `(?:` + strings.Join(list(name), "|") + `)` }

var (
	// nameLabel is what comes before a name that is itself a value.
	nameLabel = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:<` + labels("name-label") + `>|\b` + labels("name-label") + "[\"'`]*(?:[ \\t]*[:=][ \\t]*[\"'`]*|[ \\t]+[\"'`]+))[\\w./-]*$")
	})

	// pairPart is what an object or element has around its values: a brace; its end, or a
	// tag that ends it; the label of a value; the label of a name.
	pairPart = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)([{}])|</` + labels("name-label") + `>|(/>|</\w+|\n[ \t]*- )|\b(` + labels("value-label") + ")\\b[\"'`]*[ \\t]*[:=>]|\\b(" + labels("name-label") + ")\\b[\"'`]*[:=>]")
	})
)

// pair reads the value of a name that is itself a value, after it or before it.
func (f *field) pair() int {
	const longest = 80
	t := f.text
	lead := t[max(0, f.start-longest):f.start]
	if strings.IndexByte("\"'`>:=/.", f.before()) < 0 {
		return 0
	}
	line := strings.LastIndexByte(lead, '\n') + 1
	label := nameLabel().FindStringIndex(lead[line:])
	if label == nil {
		return 0
	}
	depth := 0
	after := t[f.end:min(len(t), f.end+within)]
	for i := 0; i < len(after); { // one match at a time: the first ones often end the object
		m := pairPart().FindStringSubmatchIndex(after[i:])
		if m == nil {
			break
		}
		at := i + m[0]
		part := after[at : i+m[1]]
		i += m[1]
		if part == "{" {
			depth++
		}
		if part == "}" {
			depth--
		}
		if depth < 0 || m[4] >= 0 || m[8] >= 0 && at > 3 && !strings.HasSuffix(part, ">") {
			break // the end, or another name
		}
		if m[6] >= 0 {
			if end := f.labelled(f.end + i); end > 0 {
				return end
			}
		}
	}
	last := 0 // the end of the label of the value before the name
	before := lead[:line+label[0]]
	before = before[strings.LastIndexAny(before, "{}")+1:] // in the same object
	above := before[:strings.LastIndexByte(before, '\n')+1]
	if i := strings.LastIndexByte(strings.TrimSuffix(above, "\n"), '\n'); i >= 0 { // in this line or the one above
		before = before[i:]
	}
	for _, m := range pairPart().FindAllStringSubmatchIndex(before, -1) {
		switch {
		case m[6] >= 0:
			last = m[1]
		case before[m[0]] == '\n': // another item
			last = 0
		}
	}
	if last > 0 {
		f.labelled(f.start - len(lead) + line + label[0] - len(before) + last)
	}
	return 0
}

// labelled reads the value behind a label that ends at i.
func (f *field) labelled(i int) int {
	if f.text[i-1] == '>' {
		return f.tagged(i)
	}
	v := f.value(skipSpaces(f.text, i), valueStops, place{})
	if v.end <= v.start || strings.EqualFold(v.text, f.name) {
		return 0
	}
	if v.quoted && f.class.secret(v.text, quoted) || !v.quoted && strings.ContainsAny(v.text, digits) && f.class.secret(v.text, conf) {
		f.found(v.start, v.end)
		return v.end
	}
	return 0
}

// tagged reads the value between two tags.
func (f *field) tagged(i int) int {
	i = skipAll(f.text, i)
	v := f.value(i, "<\n", place{})
	if v.quoted || v.end <= v.start || !strings.HasPrefix(f.text[v.end:], "</") || !f.inTag(&v) {
		return 0
	}
	f.found(v.start, v.end)
	return v.end
}

// column reads the column of a table whose header is the name.
func (f *field) column() int {
	t := f.text
	if i := skipSpaces(t, f.end); i < len(t) && i < f.end+2 && strings.IndexByte("|\t\r\n,*`", t[i]) < 0 {
		return 0
	}
	to := strings.IndexByte(t[f.start:min(len(t), f.start+within)], '\n')
	if to < 0 {
		return 0
	}
	to += f.start
	before := f.line()
	header := before + t[f.start:to]
	if strings.ContainsAny(header, "\"'(){}[]:;=") {
		return 0
	}
	for n, delimiter := range cells {
		all := delimiter().Split(header, -1)
		if n > 0 && slices.Contains(all, "") { // except for |a|b|
			continue
		}
		index := len(delimiter().Split(before, -1)) - 1
		if len(all) > 1 && index < len(all) && strings.Trim(all[index], " *`\r") == f.name {
			return f.below(to+1, delimiter, index, len(all))
		}
	}
	return 0
}

// cells are the delimiters of the cells of a table.
var cells = [...]expression{expr(`\|`), expr(`\t`), expr(`,`), expr(` {2,}`)}

// below finds the secrets in a column of the rows that begin at i.
func (f *field) below(i int, delimiter expression, index, width int) (last int) {
	rows := 0
	for line := range f.v.lines(i) {
		row := strings.TrimSuffix(f.text[line.start:line.end], "\r")
		if strings.Trim(row, "-+|=: ") == "" && row != "" {
			continue
		}
		all := delimiter().Split(row, -1)
		if rows++; rows > 32 || len(all) != width {
			return last
		}
		v := value{text: strings.Trim(all[index], " *`\"")}
		if classOf(v.text) != noSecret {
			return last // another header
		}
		if v.text == "" || !f.looksSecret(&v, place{}) {
			continue
		}
		before := 0 // the cell, in the row
		for n, m := range delimiter().FindAllStringIndex(row, index) {
			if n == index-1 {
				before = m[1]
			}
		}
		at := line.start + before + strings.Index(row[before:], v.text)
		f.found(at, at+len(v.text))
		last = at + len(v.text)
	}
	return last
}
