package redact

import "strings"

// The labels of a pair's name and value when the name is itself a value:
// {"name": "DB_PASSWORD", "value": ".."}.
var (
	nameLabels  = []string{"name", "key", "variable", "parameterkey", "parametername", "optionname", "param", "id", "output", "secretname", "type"}
	valueLabels = []string{"value", "val", "content", "parametervalue", "default", "string", "result", "text", "data"}
)

// within is how far apart a pair's name and value may be.
const within = 256

// apart reads the value that belongs to a name that is itself a value.
func (f *field) apart() int {
	from, ok := f.labelled()
	if !ok {
		return 0
	}
	if end := f.valueAfter(); end > 0 {
		return end
	}
	f.valueBefore(from)
	return 0
}

// labelled reports whether a label such as name comes before the name, and where.
func (f *field) labelled() (from int, ok bool) {
	t := f.text
	i := f.start
	for i > 0 && f.start-i < maxName && (isNameByte(t[i-1]) || t[i-1] == '/') { // the path of a parameter
		i--
	}
	tagged := i > 0 && t[i-1] == '>'
	if tagged {
		i--
	} else {
		for i > 0 && isQuote(t[i-1]) {
			i--
		}
		at := i
		for i > 0 && (t[i-1] == ' ' || t[i-1] == '\t') {
			i--
		}
		if i > 0 && (t[i-1] == ':' || t[i-1] == '=') {
			i--
			for i > 0 && t[i-1] == ' ' {
				i--
			}
		} else if i == at || at == f.start { // variable "password" {
			return 0, false
		}
		for i > 0 && isQuote(t[i-1]) {
			i--
		}
	}
	end := i
	for i > 0 && end-i < 16 && isLetter(t[i-1]) {
		i--
	}
	return i, oneOf(t[i:end], nameLabels) && (!tagged || i > 0 && t[i-1] == '<')
}

// valueAfter reads the value that follows a name.
func (f *field) valueAfter() int {
	t := f.text
	limit := min(len(t), f.after+within)
	depth := 0
	for i := f.after; i < limit; i++ {
		switch c := t[i]; {
		case c == '}' && depth == 0, c == '>' && t[i-1] == '/', c == '\n' && strings.HasPrefix(strings.TrimLeft(t[i+1:limit], " \t"), "- "):
			return 0
		case c == '<' && strings.HasPrefix(t[i:limit], "</"):
			end := i + len("</")
			for end < limit && isLetter(t[end]) {
				end++
			}
			if !oneOf(t[i+2:end], nameLabels) {
				return 0 // the pair ends
			}
			i = end - 1
		case c == '{':
			depth++
		case c == '}':
			depth--
		case isLetter(c) && (i == 0 || !isWordByte(t[i-1])):
			end := i
			for end < limit && isLetter(t[end]) {
				end++
			}
			word := t[i:end]
			sep := end
			for sep < limit && isQuote(t[sep]) {
				sep++
			}
			if i > f.after+3 && sep < limit && (t[sep] == ':' || t[sep] == '=') && oneOf(word, nameLabels) {
				return 0 // the next name
			}
			if oneOf(word, valueLabels) {
				if done := f.pairValue(end); done > 0 {
					return done
				}
			}
			i = end - 1
		case c == '>' && i > 0 && t[i-1] != '/' && i == f.after: // <entry key="password">..
			if done := f.until(i+1, '<'); done > 0 {
				return done
			}
		}
	}
	return 0
}

// valueBefore reads the value that precedes a name.
func (f *field) valueBefore(to int) {
	t := f.text
	from := max(0, to-within/2)
	if before, ok := strings.CutSuffix(strings.TrimRight(t[from:to], " \t\r\n<"), "</value>"); ok {
		if n := strings.LastIndex(before, "<value>"); n >= 0 {
			f.until(from+n+len("<value>"), '<')
		}
		return
	}
	if n := strings.LastIndexAny(t[from:to], "{}<"); n >= 0 {
		from += n + 1
	}
	if n := strings.LastIndexByte(t[from:to], '\n'); n >= 0 { // at most one line above
		from += strings.LastIndexByte(t[from:from+n], '\n') + 1
	}
	n := max(strings.LastIndex(t[from:to], "val"), strings.LastIndex(t[from:to], "Val"))
	if n < 0 || n > 0 && isLetter(t[from+n-1]) || strings.Contains(t[from+n:to], "\n- ") {
		return
	}
	i := from + n
	for i < to && isLetter(t[i]) {
		i++
	}
	if oneOf(t[from+n:i], valueLabels) {
		f.pairValue(i)
	}
}

// pairValue reads the value after a label that ends at i.
func (f *field) pairValue(i int) int {
	t := f.text
	for i < len(t) && isQuote(t[i]) {
		i++
	}
	if i < len(t) && t[i] == '>' {
		return f.until(i+1, '<')
	}
	i = skipSpaces(t, i)
	n := separator(t[min(i, len(t)):], false)
	if n == 0 || t[i] == '!' {
		return 0
	}
	i = skipSpaces(t, i+n)
	if start, end, ok := f.literal(i); ok {
		if f.class.secret(t[start:end], quoted) && !strings.EqualFold(t[start:end], f.name) {
			f.found(start, end)
			return end
		}
		return 0
	}
	end := i
	for end < len(t) && end-i < maxValue && strings.IndexByte(" \t\r\n\"'`,<>{}[]", t[end]) < 0 {
		end++
	}
	if v := t[i:end]; strings.ContainsAny(v, "0123456789") && f.class.secret(v, conf) {
		f.found(i, end)
		return end
	}
	return 0
}

// until reads a value that ends at a byte in its line.
func (f *field) until(i int, stop byte) int {
	t := f.text
	i = skipAll(t, i)
	n := strings.IndexByte(t[i:min(len(t), i+maxValue)], stop)
	if n <= 0 || stop == '<' && !strings.HasPrefix(t[i+n:], "</") {
		return 0
	}
	if v := t[i : i+n]; !strings.ContainsAny(v, "\n>") && !containsAny(v, "[^", "(?") && f.class.secret(v, env) && (f.class == password || isRandom(v)) && !strings.EqualFold(v, f.name) {
		f.found(i, i+n)
		return i + n
	}
	return 0
}

// element reads <password>..</password>.
func (f *field) element() int {
	t := f.text
	i := f.start
	if i > 0 && t[i-1] == ':' { // a namespace
		for i--; i > 0 && isWordByte(t[i-1]); i-- {
		}
	}
	if i == 0 || t[i-1] != '<' {
		return 0
	}
	rest := t[f.end:min(len(t), f.end+within)]
	n := strings.IndexAny(rest, "<>\n")
	if n < 0 || rest[n] != '>' || n > 0 && (rest[n-1] == '/' || rest[0] != ' ') {
		return 0
	}
	i = f.end + n + 1
	i += len("<![CDATA[") * btoi(strings.HasPrefix(t[i:], "<![CDATA["))
	end := f.until(i, '<')
	if end == 0 {
		end = f.until(i, ']')
	}
	return end
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// oneOf reports whether a word is in a list, ignoring case.
func oneOf(s string, all []string) bool {
	for _, a := range all {
		if len(s) == len(a) && strings.EqualFold(s, a) {
			return true
		}
	}
	return false
}
