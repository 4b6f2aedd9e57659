package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
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
	listed [3]int          // the ends of the last list and of the last ones in it: lists that are deeper are not searched
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
	before := f.before()
	for i := range ways {
		w := &ways[i]
		switch {
		case w.first != "" && strings.IndexByte(w.first, first) < 0 || w.after != "" && strings.IndexByte(w.after, before) < 0:
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
	lead, at := f.lead(), 0
	if w.before != nil {
		m := w.before().FindStringSubmatchIndex(lead)
		if m == nil {
			return 0
		}
		if len(m) > 2 {
			at = f.start - len(lead) + m[2]
		}
	}
	m := w.between().FindStringSubmatchIndex(f.text[f.end:min(len(f.text), f.end+within)])
	if m == nil {
		return 0
	}
	sep := place{f.end + max(0, m[2]), f.end + max(0, m[3])}
	v := f.value(cmp.Or(at, f.end+m[1]), w.stops, sep)
	if v.end <= v.start || !w.secret(f, &v, sep) {
		return 0
	}
	f.found(v.start, v.end)
	return max(v.end, f.end)
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

// membersStart is what comes between a name and a list or map: a bracket or, in YAML, the
// end of the line.
var membersStart = expr(closing + `[ \t]*(?:` + separator + `\s*[\[{(]|:[ \t]*(?:#[^\n]*)?\r?(\n))`)

// member is an item of a list, or the name and the value of a member of a map. A diff or a
// listing with line numbers may have a margin before it.
var member = expr("(?s)\\A\\s*(?:\\d{1,7}(?:→|[|:\t])|[+>|#-](?:[ \t]|- ))?(?:- |[\\s\\[({])*(?:([\\w.-]+|[\"'`][^\"'`]+[\"'`])(?:[ \t]*(?:=>|:)|[ \t]+=[ \t])[\\s\\[({]*)?([\"'`]?)(.*?)[\"'`]?[\\s\\])};,]*\\z")

// members finds the secrets in a list or map.
func (f *field) members() (done int) {
	t := f.text
	m := membersStart().FindStringSubmatchIndex(t[f.end:min(len(t), f.end+within)])
	if m == nil {
		return 0
	}
	from, block := f.end+m[1], m[4] >= 0
	depth := slices.IndexFunc(f.listed[:], func(end int) bool { return from >= end })
	if depth < 0 {
		return 0
	}
	end, delimiters := f.bracketEnd, ",\n"
	if block {
		end, delimiters = f.blockEnd, "\n"
	}
	last := end(from)
	for f.listed[depth] = last; from < last; {
		to := from
		for ; to < last && strings.IndexByte(delimiters, t[to]) < 0; to++ {
			if !block && isQuote(t[to]) {
				if to = f.v.closing(to, last-to); to < last && t[to] == '\n' {
					break // the string does not end in its line
				}
				if next := skipSpaces(t, min(len(t), to+1)); next > to+1 && next < last && isQuote(t[next]) { // ("a" "b")
					to++
					break
				}
			}
		}
		to = min(to, last)
		m := member().FindStringSubmatchIndex(t[from:to])
		start, stop := from+m[6], from+m[7]
		label, v, data := "", t[start:stop], false // data: of JSON or YAML, and not a variable
		if m[2] >= 0 {
			data = block || isQuote(t[from+m[2]])
			label = strings.Trim(t[from+m[2]:from+m[3]], "\"'`")
		}
		if f.isMember(label, v, data) && (block || m[5] > m[4] || isRandom(v) && t[from-1] != '\n') {
			for block && m[5] == m[4] && strings.IndexByte("[({", t[start-1]) >= 0 {
				start-- // it is a part of the value
			}
			if block && m[5] == m[4] {
				stop += len(strings.TrimRight(t[stop:to], " \t\r"))
			}
			f.found(start, stop)
			done = f.end // its members may have names of their own
		}
		from = to + 1
	}
	return done
}

const longestList = 4 << 10

// bracketEnd returns the end of the list in brackets of which the text from i on is the rest.
func (f *field) bracketEnd(i int) int {
	limit := min(len(f.text), i+longestList)
	for depth := 1; i < limit; i++ {
		switch f.text[i] {
		case '[', '{', '(':
			depth++
		case ']', '}', ')':
			if depth--; depth == 0 {
				return i
			}
		case '"', '\'', '`':
			i = f.v.closing(i, limit-i)
		}
	}
	return limit
}

// blockEnd returns the end of the lines from i on that belong to the name.
func (f *field) blockEnd(i int) (end int) {
	line := f.line()
	own := indent(line)
	for strings.HasPrefix(line[own:], "- ") {
		own += 2 + indent(line[own+2:])
	}
	end = i
	for line := range f.v.lines(i) {
		text := f.text[line.start:line.end]
		in := indent(text)
		if end == i && !lineOfYAML().MatchString(text) || strings.TrimSpace(text) != "" && (in < own || in == own && !strings.HasPrefix(text[in:], "- ")) || line.end > i+longestList {
			break
		}
		end = line.end
	}
	return end
}

// lineOfYAML is an item, a member, a single word or an empty line.
var lineOfYAML = expr("\\A[ \t]*(?:- |[\"'`]?[\\w./-]+[\"'`]?:(?:[ \t]|\\z)|[^ \t]*[ \t\r]*\\z)")

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// isMember reports whether the value of a member is secret. An item of a list has no label.
func (f *field) isMember(label, v string, data bool) bool {
	switch {
	case f.class == datum:
		return len(v) >= 4 && !placeholder(v)
	case strings.ContainsAny(v, " :") || !f.class.secret(v, quoted):
		return false
	case is("value-label", label) || classOf(label) != noSecret:
		return true
	case is("no-value", label) || !f.many && data:
		return false
	case f.class == password:
		return strings.ContainsAny(v, digits) && len(v) >= 6
	}
	return len(v) >= 8 && (isRandom(v) && (turnsOf(v) > 2 || len(v) >= 20) || f.class == secret && isStrong(v)) // tokens of a grammar have a digit at most
}

// column reads the column of a table whose header is the name.
func (f *field) column() (last int) {
	line := f.line()
	header := place{f.start - len(line), f.start + strings.IndexByte(f.text[f.start:min(len(f.text), f.start+within)], '\n')}
	if header.end < f.start || strings.ContainsAny(f.text[header.start:header.end], "\"'(){}[]:;=") {
		return 0
	}
	for n, delimiter := range delimiters {
		all := f.cells(header, delimiter())
		index := slices.IndexFunc(all, func(c place) bool { return f.text[c.start:c.end] == f.name && c.start <= f.start && f.end <= c.end })
		if index < 0 || len(all) < 2 || n > 0 && slices.ContainsFunc(all, func(c place) bool { return c.start == c.end }) { // except for |a|b|
			continue
		}
		rows := 0
		for line := range f.v.lines(header.end + 1) {
			row := f.cells(line, delimiter())
			if strings.Trim(f.text[line.start:line.end], "-+|=: \r") == "" {
				continue
			}
			if rows++; rows > 32 || len(row) != len(all) {
				break
			}
			v := value{text: f.text[row[index].start:row[index].end]}
			if classOf(v.text) != noSecret {
				break // another header
			}
			if f.looksSecret(&v, place{}) {
				f.found(row[index].start, row[index].end)
				last = row[index].end
			}
		}
		return last
	}
	return 0
}

// delimiters are what separates the cells of a table.
var delimiters = [...]expression{expr(`\|`), expr(`\t`), expr(`,`), expr(` {2,}`)}

// cells returns the cells of a row of a table, without the spaces and marks around them.
func (f *field) cells(row place, delimiter *regexp.Regexp) (all []place) {
	text := f.text[row.start:row.end]
	add := func(start, end int) {
		const around = " *`\"\r"
		end = start + len(strings.TrimRight(text[start:end], around))
		start = end - len(strings.TrimLeft(text[start:end], around))
		all = append(all, place{row.start + start, row.start + end})
	}
	at := 0
	for _, m := range delimiter.FindAllStringIndex(text, -1) {
		add(at, m[0])
		at = m[1]
	}
	add(at, len(text))
	return all
}
