package redact

import "strings"

// block reads what is written in the lines below its name: a YAML block scalar,
// a list, a map, or a value.
func (f *field) block() int {
	t := f.text
	i := skipSpaces(t, f.after)
	if i >= len(t) || t[i] != ':' {
		return 0
	}
	i = skipSpaces(t, i+1)
	scalar := i < len(t) && (t[i] == '|' || t[i] == '>')
	if scalar {
		for i++; i < len(t) && strings.IndexByte("+-123456789", t[i]) >= 0; i++ {
		}
		if i = skipSpaces(t, i); i < len(t) && t[i] == '#' {
			i = lineEnd(t, i)
		}
	}
	if i < len(t) && t[i] == '\r' {
		i++
	}
	if i >= len(t) || t[i] != '\n' {
		return 0
	}
	own := f.indentation()
	first, last := 0, 0 // of the lines that are secret
	n := 0
	for line := range f.lines(i + 1) {
		in := indent(t[line.start:line.end])
		item := strings.TrimSpace(t[line.start:line.end])
		if item == "" {
			continue
		}
		isItem := strings.HasPrefix(item, "- ")
		if n++; n > 64 || in < own || in == own && (scalar || !isItem) {
			break
		}
		from, to := line.start+in, line.start+in+len(item)
		if !scalar {
			if n == 1 && !isItem && !f.mapped(item) && !f.isItem(item) {
				return 0
			}
			if f.member(from, to) {
				last = max(last, to)
			}
			continue
		}
		if !f.isLine(item) {
			if first > 0 || n == 1 {
				break
			}
			return 0
		}
		if first == 0 {
			first = from
		}
		last = to
	}
	if last == 0 {
		return 0
	}
	if scalar {
		f.found(first, last)
		return last
	}
	return f.after // its members have names of their own
}

// lines iterates over the lines from i on.
func (f *field) lines(i int) func(func(place) bool) {
	return func(yield func(place) bool) {
		for i < len(f.text) {
			end := i + min(len(f.text)-i, maxValue)
			if n := strings.IndexByte(f.text[i:end], '\n'); n >= 0 {
				end = i + n
			}
			if !yield(place{i, end}) {
				return
			}
			i = end + 1
		}
	}
}

// indentation returns the indentation of the name's line.
func (f *field) indentation() int {
	from := max(0, f.start-maxName)
	if n := strings.LastIndexByte(f.text[from:f.start], '\n'); n >= 0 {
		from += n + 1
	}
	line := f.text[from:f.start]
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
		return f.class == password && strings.ContainsAny(line, "0123456789") && !strings.HasSuffix(line, ".") && !placeholder(line)
	}
	return f.class.secret(line, conf) || strings.ContainsAny(line, "0123456789") && f.class.secret(line, quoted)
}

// isItem reports whether a value in a list or below its name is a secret.
func (f *field) isItem(v string) bool {
	if len(v) >= 2 && isQuote(v[0]) && v[len(v)-1] == v[0] {
		v = v[1 : len(v)-1]
	}
	if strings.ContainsAny(v, " :") || !f.class.secret(v, quoted) {
		return false
	}
	if f.class == password {
		return strings.ContainsAny(v, "0123456789") && len(v) >= 6
	}
	return len(v) >= 8 && (isRandom(v) && (turnsOf(v) > 2 || len(v) >= 20) || f.class == secret && isStrong(v)) // tokens of a grammar have a digit at most
}

// mapped reports whether a line is a member of a map.
func (f *field) mapped(item string) bool {
	name, _, ok := strings.Cut(item, ":")
	return ok && f.many && isIdentifier(strings.Trim(strings.ReplaceAll(name, "-", "_"), `"'`))
}

// member finds the secret in a line that is a value, - value or name: value.
func (f *field) member(from, to int) bool {
	t := f.text
	if strings.HasPrefix(t[from:to], "- ") {
		from += 2 + indent(t[from+2:to])
	}
	if f.mapped(t[from:to]) {
		from += strings.IndexByte(t[from:to], ':') + 1
		from = skipSpaces(t, from)
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

// list reads a list or a map in brackets, or a comma-separated list.
func (f *field) list() int {
	t := f.text
	i := skipSpaces(t, f.after)
	n := separator(t[i:], false)
	if n == 0 || t[i] == '>' || t[i] == '!' {
		return 0
	}
	i = skipAll(t, i+n)
	if i >= len(t) || strings.IndexByte("[{(", t[i]) < 0 {
		return f.row(i)
	}
	if i < f.listed && (f.plural || !f.many) {
		return 0 // in another list
	}
	const longest = 4 << 10
	limit := min(len(t), i+longest)
	defer func() { f.listed, f.plural = i, f.many }()
	depth, done := 0, 0
	label := "" // of the member
	for ; i < limit; i++ {
		switch c := t[i]; {
		case c == '[' || c == '{' || c == '(':
			depth++
		case c == ']' || c == '}' || c == ')':
			if depth--; depth == 0 {
				return f.inside(done)
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
			start, end, _ := f.literal(i)
			next := skipAll(t, min(len(t), end+1))
			if next < len(t) && (t[next] == ':' || strings.HasPrefix(t[next:], "=>")) {
				label = t[start:end]
			} else if f.inList(label, t[start:end]) {
				f.found(start, end)
				done = end
			}
			i = max(i, end)
			if end < len(t) && t[end] == '\n' {
				return f.inside(done)
			}
		}
	}
	return f.inside(done)
}

// inside returns where to continue after a list: within it, because its members
// may have names of their own.
func (f *field) inside(done int) int { return min(done, f.after) }

// inList reports whether a value in brackets is a secret.
func (f *field) inList(label, v string) bool {
	switch label = strings.ToLower(label); label {
	case "value", "default", "result", "secret", "password", "token", "key", "val", "current", "previous":
		return f.class.secret(v, quoted)
	case "type", "name", "id", "description", "user", "username", "email", "label", "placeholder", "pattern", "path", "format", "url", "uri",
		"integrity", "checksum", "shasum", "sha256", "sha512", "digest", "hash", "version", "resolved":
		return false
	}
	return (f.many || label == "") && f.isItem(v)
}

// row reads TOKENS=a,b.
func (f *field) row(i int) int {
	t := f.text
	if !f.many || i != f.after+1 || !isEnv(f.name) {
		return 0
	}
	end := i
	for end < len(t) && end-i < maxValue && (isNameByte(t[end]) || t[end] == ',' || t[end] == '/' || t[end] == '+' || t[end] == '=') {
		end++
	}
	for v := range strings.SplitSeq(t[i:end], ",") {
		if !f.isItem(v) {
			return 0
		}
	}
	f.found(i, end)
	return end
}

func skipAll(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r') {
		i++
	}
	return i
}
