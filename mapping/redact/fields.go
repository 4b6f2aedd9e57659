package redact

import (
	"strings"
	"unicode/utf8"
)

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
	if f.class == noSecret || f.class == random {
		return f.widen() || f.class != noSecret && (hasRun(t[f.end:min(len(t), f.end+within/2)]) || f.start > 0 && isQuote(t[f.start-1]) && hasRun(t[max(0, f.start-within/2):f.start]))
	}
	return true
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
