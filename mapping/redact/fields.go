package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Names of the rules that are not in rules.txt.
const (
	ruleAssignment = "assignment"
	rulePrivateKey = "private-key"
	ruleCommand    = "command-password"
	ruleCall       = "call-argument"
	ruleFile       = "credentials-file"
)

const (
	maxName  = 64
	maxValue = 2 << 10

	// within is how far a value may be from its name.
	within = 256
)

// A field is the name of a secret in a text, whose value the ways look for.
type field struct {
	v          *view
	text       string
	name       string
	start, end int // of the name
	class      class
	many       bool // the name is a plural
	quoted     bool // the name is in quotes
	found      func(start, end int)
	*fieldCache
}

// A fieldCache is shared by the fields of a text.
type fieldCache struct {
	known  map[string]kind // names that were classified
	listed int             // the end of the last list: it is not searched again for the names in it
	plural bool            // the name of that list is a plural
}

// A kind is what a name says about its value.
type kind struct {
	class  class
	plural bool
}

// A value is what may be the secret.
type value struct {
	text       string
	start, end int
	quoted     bool
}

// assignments finds the values of names such as password.
func assignments(v *view, hits []place, found func(start, end int)) {
	done := 0
	cache := fieldCache{known: map[string]kind{}}
	for _, h := range hits {
		if h.start < done {
			continue
		}
		f := field{v: v, text: v.text, found: found, fieldCache: &cache}
		ok := f.readName(h)
		if done = f.end; ok {
			done = max(done, f.findValue())
		}
	}
}

// findValue finds the value, and returns how far it read.
func (f *field) findValue() (done int) {
	i := f.end
	for i < len(f.text) && (isQuote(f.text[i]) || f.text[i] == ']') {
		i++
	}
	first := byte('\n')
	if i = skipSpaces(f.text, i); i < len(f.text) {
		first = f.text[i]
	}
	for i := range ways {
		w := &ways[i]
		switch {
		case w.first != "" && strings.IndexByte(w.first, first) < 0:
		case w.read != nil:
			done = w.read(f)
		default:
			done = f.readAs(w)
		}
		if done > 0 {
			return done
		}
	}
	return 0
}

// readAs finds a value that is written in one way.
func (f *field) readAs(w *way) int {
	m := w.between().FindStringSubmatchIndex(f.text[f.end:min(len(f.text), f.end+within)])
	if m == nil {
		return 0
	}
	const longest = 24 // of what comes before
	if line := f.line(); w.before != nil && !w.before().MatchString(line[max(0, len(line)-longest):]) {
		return 0
	}
	sep := place{f.end + max(0, m[2]), f.end + max(0, m[3])}
	v := f.value(f.end+m[1], w.stops, sep)
	if v.end <= v.start || !w.secret(f, &v, sep) {
		return 0
	}
	f.found(v.start, v.end)
	if change, ok := strings.CutPrefix(f.text[min(len(f.text), v.end+1):], " -> "); ok && v.quoted { // a plan of terraform: "old" -> "new"
		if next := f.value(len(f.text)-len(change), "", sep); next.end > next.start {
			f.found(next.start, next.end)
			return next.end
		}
	}
	return v.end
}

// lead returns what comes before the name.
func (f *field) lead() string {
	const longest = 160
	return f.text[max(0, f.start-longest):f.start]
}

// value reads the value that begins at i, up to one of the stops if it is not in quotes.
func (f *field) value(i int, stops string, sep place) value {
	t := f.text
	for n := 0; i+1 < len(t) && n < 2 && strings.IndexByte("bfrN@$", t[i]) >= 0 && isQuote(t[i+1]); n++ {
		i++ // b"..", f"..", @"..", $'..'
	}
	if start, end, ok := f.v.literal(i); ok {
		if start > end || f.start > 0 && t[f.start-1] == t[i] && !f.quoted && f.v.width(i) <= f.v.width(f.start-1) {
			return value{} // "NAME=" + value, and not "NAME=\"value\""
		}
		return value{t[start:end], start, end, true}
	}
	if stops == "" {
		return value{}
	}
	limit := min(len(t), i+maxValue)
	for j := i; ; j++ {
		n := strings.IndexAny(t[j:limit], stops)
		if n < 0 {
			return value{t[i:limit], i, limit, false}
		}
		j += n
		if len(f.v.escapes) == 0 || !f.v.percent(j) || sep.end > sep.start && f.v.percent(sep.start) {
			return value{t[i:j], i, j, false}
		}
	}
}

// readName reads the name around a keyword.
func (f *field) readName(h place) bool {
	t := f.text
	f.start, f.end = h.start, h.end
	for f.start > 0 && h.start-f.start < maxName && isNameByte(t[f.start-1]) {
		f.start--
	}
	for f.end < len(t) && f.end-h.end < maxName && isNameByte(t[f.end]) {
		f.end++
	}
	tooLong := f.end < len(t) && isNameByte(t[f.end]) || h.start-f.start == maxName
	for f.end > h.end && (t[f.end-1] == '.' || t[f.end-1] == '-') {
		f.end--
	}
	f.name = t[f.start:f.end]
	if tooLong {
		return false
	}
	k, ok := f.known[f.name]
	if !ok {
		k.class, k.plural = classify(f.name)
		f.known[f.name] = k
	}
	f.class, f.many = k.class, k.plural
	f.quoted = f.end < len(t) && isQuote(t[f.end])
	if f.class == noSecret && oneOf(f.name, "pwd") && f.before() == ';' { // UID=sa;PWD=..
		f.class = password
	}
	return f.class != noSecret || f.widen()
}

// widen makes the words before a name a part of it: API key, mot de passe.
func (f *field) widen() bool {
	const longest = 24
	t := f.text
	name := strings.ToLower(f.name)
	one := strings.TrimSuffix(name, "s")
	for from := f.start; from > 1 && f.end-from < longest && t[from-1] == ' ' && isNameLetter(t[from-2]); {
		end := from - 1
		for from--; from > 0 && isNameLetter(t[from-1]); from-- {
		}
		before := strings.ToLower(t[from:end]) + "~"
		name, one = before+name, before+one
		for _, phrase := range [...]string{name, one} {
			if c := rulesTable().classes[phrase]; c != noSecret {
				f.class, f.many, f.start = c, phrase != name, from
				if i := f.end + 1; i+1 < len(t) && t[f.end] == ' ' && isDigit(t[i]) && t[i+1] == ':' { // Unseal Key 1: ..
					f.end = i + 1
				}
				return true
			}
		}
	}
	return false
}

// isNameLetter reports whether a byte is of a letter of any language.
func isNameLetter(c byte) bool { return isLetter(c) || c >= utf8.RuneSelf }

// before returns the byte before the name, ignoring spaces, dashes and export; 0
// if there is none.
func (f *field) before() byte {
	lead := strings.TrimRight(f.text[max(0, f.start-16):f.start], " \t-")
	lead = strings.TrimRight(strings.TrimSuffix(lead, "export"), " \t")
	if lead == "" || !f.quoted && f.v.isBorder(f.start-len(f.text[max(0, f.start-16):f.start])+len(lead)-1) {
		return 0
	}
	return lead[len(lead)-1]
}

// isFlag reports whether a name is an option: --db-password or -password.
func isFlag(name string) bool {
	option := strings.TrimLeft(name, "-")
	return option != name && option != "" && isLetter(option[0])
}

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
