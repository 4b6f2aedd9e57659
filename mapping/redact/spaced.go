package redact

import (
	"slices"
	"strings"
)

// called reads setPassword("..").
func (f *field) called() int {
	t := f.text
	i := f.end
	if i >= len(t) || t[i] != '(' {
		return 0
	}
	i = skipSpaces(t, i+1)
	for i+1 < len(t) && (t[i] == 'b' || t[i] == '@') && isQuote(t[i+1]) {
		i++
	}
	start, end, ok := f.literal(i)
	if !ok || end+1 >= len(t) || isQuote(t[end]) && strings.IndexByte("),", t[end+1]) < 0 {
		return 0
	}
	v := t[start:end]
	if f.class == password && isStrong(v) && !strings.Contains(v, ":") || isRandom(v) && len(v) >= 16 {
		f.found(start, end)
		return end
	}
	return 0
}

// fallback reads env.PASSWORD || "..".
func (f *field) fallback() int {
	t := f.text
	i := f.after
	if i < len(t) && t[i] == ')' {
		i++
	}
	if f.quoted && isQuote(t[i-1]) { // "apiKey" or "oauth2"
		return 0
	}
	i = skipSpaces(t, i)
	rest := t[i:]
	for _, or := range []string{"||", "??", "?:", "or "} {
		after, ok := strings.CutPrefix(rest, or)
		if !ok {
			continue
		}
		if start, end, ok := f.literal(skipSpaces(t, len(t)-len(after))); ok && end > start {
			if v := t[start:end]; f.class.secret(v, quoted) && strings.ContainsAny(v, "0123456789") && !isEnv(v) {
				f.found(start, end)
				return end
			}
		}
	}
	return 0
}

// directives are the words after which a space separates name and value.
var directives = []string{"#define", "# define", "env", "arg", "setenv", "setx", "set", "config set", "config --set", "export"}

// directive reads ENV API_TOKEN .., requirepass .. and machine x login y password ..
func (f *field) directive() int {
	t := f.text
	i := skipSpaces(t, f.after)
	if next := skipAll(t, i); next > i && strings.HasPrefix(f.name, "--") && strings.HasPrefix(t[next:], "- ") { // arguments in YAML
		i = next + 2
	} else if i == f.after || i >= len(t) || t[i] == '=' || t[i] == ':' {
		return 0
	}
	lead := t[max(0, f.start-160):f.start]
	if !mayHoldDigits(t[i:min(len(t), i+maxName)]) && !strings.Contains(lead, "machine ") && !strings.Contains(lead, "default") {
		return 0
	}
	line := lead[strings.LastIndexByte(lead, '\n')+1:]
	word := strings.ToLower(strings.TrimSpace(line))
	if n := strings.Index(word, " -"); strings.HasPrefix(word, "set ") && n == 3 && len(word) < 10 { // set -gx
		word = "set"
	}
	known := false
	for _, d := range directives {
		known = known || strings.HasSuffix(word, d) && (len(word) == len(d) || strings.IndexByte(" \"'", word[len(word)-len(d)-1]) >= 0)
	}
	login := strings.Contains(lead, "login ") || oneOf(firstWord(word), []string{"username", "user", "enable", "default", "machine"})
	if i+1 < len(t) && t[i] == '@' {
		i++
	}
	start, end, ok := f.literal(i)
	if ok && !known && end+1 < len(t) && strings.IndexByte(")]\n;'", t[end+1]) >= 0 && f.stands(t[start:end]) { // (setq password "..")
		f.found(start, end)
		return end
	}
	if !known && !login && word != "" && strings.Trim(word, "- ") != "" {
		return 0
	}
	if !ok {
		start, end = i, i
		for end < len(t) && end-start < maxValue && strings.IndexByte(" \t\r\n\"'`<>", t[end]) < 0 {
			end++
		}
	}
	v := t[start:end]
	switch {
	case ok && known:
		ok = f.class.secret(v, quoted)
	case known && strings.Contains(word, "define"):
		ok = isRandom(v)
	case known:
		ok = f.class.secret(v, env) && strings.ContainsAny(v, "0123456789")
	case login && strings.Contains(lead, "login ") && strings.Contains(lead, "machine ") && f.class == password:
		rest, _, _ := strings.Cut(t[end:min(len(t), end+within)], "\n")
		next := firstWord(strings.Trim(rest, "\"' \r"))
		ok = f.class.secret(v, env) && (next == "" || oneOf(next, []string{"machine", "default", "login", "account", "macdef", "port"}))
	default: // nothing but a name and its value
		rest, _, _ := strings.Cut(t[end:min(len(t), end+16)], "\n")
		ok = (strings.Trim(rest, "\"'`)\r ") == "" || login && f.class == password) && (f.class == password && isStrong(v) || login && f.class == secret && isStrong(v) || isRandom(v) && len(v) >= 16)
	}
	if !ok {
		return 0
	}
	f.found(start, end)
	return end
}

// mayHoldDigits reports whether the first word of s has digits or is quoted.
func mayHoldDigits(s string) bool {
	if s != "" && (isQuote(s[0]) || s[0] == '@') {
		return true
	}
	for i := range len(s) {
		if isDigit(s[i]) {
			return true
		}
		if strings.IndexByte(" \t\r\n\"'`<>", s[i]) >= 0 {
			return false
		}
	}
	return true
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// cell reads a table row or a marked-up line: | password | .. |,
// **Password:** .., <td>Password</td><td>..</td>.
func (f *field) cell() int {
	t := f.text
	i, apart := f.after, false
	limit := min(len(t), i+64)
	from := i
	for i < limit {
		c := t[i]
		switch {
		case c == '|' || c == '\t':
			apart = true
		case c == ' ':
			if i+1 < limit && t[i+1] == ' ' {
				apart = true
			}
		case c == ':' || c == '*' || c == '`' || c == '\r':
			apart = apart || c == '*' || c == ':' && i > from
		case c == '\n' && t[i-1] == '>':
		case c == '<':
			n := strings.IndexByte(t[i:limit], '>')
			if n < 0 || n > 24 || n < 2 || !isLetter(t[i+1]) && t[i+1] != '/' {
				return 0
			}
			apart = apart || t[i+1] == '/' || i > from && t[i-1] == ' '
			i += n
		default:
			limit = i
			continue
		}
		i++
	}
	if !apart || i == from || i >= len(t) {
		return f.column()
	}
	end := i
	for end < len(t) && end-i < maxValue && strings.IndexByte(" \t\r\n\"'`<>|", t[end]) < 0 {
		end++
	}
	gap := strings.Trim(t[from:i], " ") == ""
	if v := strings.TrimRight(t[i:end], "*"); f.stands(v) && (!gap || f.alone(end)) {
		f.found(i, i+len(v))
		return end
	}
	return f.column()
}

// stands reports whether a word in the place of a value looks like a secret.
func (f *field) stands(v string) bool {
	if len(v) < 32 && !strings.ContainsAny(v, digits) {
		return false
	}
	return (f.class == password || strings.EqualFold(f.name, "pass")) && isStrong(v) || len(v) >= 12 && isRandom(v)
}

// ends reports whether nothing follows in the line but punctuation.
func (f *field) ends(i int) bool {
	rest, _, _ := strings.Cut(f.text[i:min(len(f.text), i+8)], "\n")
	return strings.Trim(rest, " .,;)\r\"'`") == ""
}

// alone reports whether the name begins its line and nothing follows the value.
func (f *field) alone(end int) bool {
	lead := f.text[max(0, f.start-16):f.start]
	rest := f.text[end:min(len(f.text), end+16)]
	return strings.TrimSpace(lead[strings.LastIndexByte(lead, '\n')+1:]) == "" && (rest == "" || strings.TrimLeft(rest, " \t\r")[:1] == "\n")
}

// column reads the column of a table whose header is the name.
func (f *field) column() int {
	t := f.text
	if i := skipSpaces(t, f.after); i < len(t) && i < f.after+2 && strings.IndexByte("|\t\r\n,*`", t[i]) < 0 {
		return 0
	}
	from := strings.LastIndexByte(t[max(0, f.start-within):f.start], '\n') + 1 + max(0, f.start-within)
	to := f.start + min(within, len(t)-f.start)
	n := strings.IndexByte(t[f.start:to], '\n')
	if n < 0 {
		return 0
	}
	to = f.start + n
	header := t[from:to]
	for _, delimiter := range []string{"|", "\t", ",", "  "} {
		if !strings.Contains(header, delimiter) {
			continue
		}
		index := strings.Count(header[:f.start-from], delimiter)
		if delimiter == "  " {
			index = len(fields(header[:f.start-from]))
		}
		cells := cut(header, delimiter)
		if len(cells) < 2 || index >= len(cells) || strings.Trim(cells[index].text, " *`") != f.name || strings.ContainsAny(header, "\"'(){}[]:;=") {
			continue
		}
		if (delimiter == "," || delimiter == "\t") && slices.ContainsFunc(cells, func(c cellText) bool { return c.text == "" }) {
			continue
		}
		return f.below(to+1, delimiter, index, len(cells))
	}
	return 0
}

// below finds the secrets in a column of the rows that begin at i.
func (f *field) below(i int, delimiter string, index, width int) (last int) {
	rows := 0
	for line := range f.lines(i) {
		row := strings.TrimSuffix(f.text[line.start:line.end], "\r")
		if strings.Trim(row, "-+|=: ") == "" && row != "" {
			continue
		}
		cells := cut(row, delimiter)
		if delimiter == "  " && len(cells) != width {
			cells = cut(row, " ")
		}
		if rows++; rows > 32 || len(cells) != width {
			return last
		}
		c := cells[index]
		v := strings.Trim(c.text, " *`\"")
		if classOf(v) != noSecret {
			return last // another header
		}
		if v == "" || !f.stands(v) {
			continue
		}
		at := line.start + c.start + strings.Index(c.text, v)
		f.found(at, at+len(v))
		last = at + len(v)
	}
	return last
}

type cellText struct {
	text  string
	start int
}

// cut splits a row into cells.
func cut(row, delimiter string) []cellText {
	if delimiter == "  " {
		return fields(row)
	}
	var cells []cellText
	start := 0
	for part := range strings.SplitSeq(row, delimiter) {
		cells = append(cells, cellText{part, start})
		start += len(part) + len(delimiter)
	}
	return cells
}

// fields splits a row at two or more spaces.
func fields(row string) []cellText {
	var cells []cellText
	for i := 0; i < len(row); {
		for i < len(row) && row[i] == ' ' {
			i++
		}
		n := strings.Index(row[i:]+"  ", "  ")
		if i < len(row) {
			cells = append(cells, cellText{row[i:min(len(row), i+n)], i})
		}
		i += n
	}
	return cells
}

// told reads sentences: the password for bob is ..
func (f *field) told() int {
	t := f.text
	i := f.after
	limit := min(len(t), i+64)
	verb := false
	if i == len(t) || t[i] != ' ' || strings.EqualFold(f.name, "pass") || f.start > 0 && t[f.start-1] == '/' { // what is passed to whom, /etc/passwd
		return 0
	}
	for words := 0; words < 6 && i < limit; words++ {
		j := skipSpaces(t, i)
		if j == i && words > 0 || j >= limit {
			return 0
		}
		end := j
		for end < limit && isLetter(t[end]) {
			end++
		}
		word := t[j:end]
		if end < limit && t[end] == ':' && word != "" {
			verb, i = true, end+1
			break
		}
		if word == "is" || word == "to" || word == "was" {
			verb = true
		} else if word == "" || end < limit && t[end] != ' ' {
			i = j
			break
		}
		i = end
	}
	i = skipSpaces(t, i)
	for i < len(t) && (isQuote(t[i]) || t[i] == '*') {
		i++
	}
	end := i
	for end < len(t) && end-i < maxValue && strings.IndexByte(" \t\r\n\"'`<>()", t[end]) < 0 {
		end++
	}
	v := strings.TrimRight(t[i:end], ".,;:*")
	last := f.class == password && f.text[f.after:i] == " " && len(v) >= 8 && f.ends(i+len(v))
	if (verb || last) && f.stands(v) || len(v) >= 20 && isRandom(v) {
		f.found(i, i+len(v))
		return i + len(v)
	}
	return 0
}
