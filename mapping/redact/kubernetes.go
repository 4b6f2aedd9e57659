package redact

import "strings"

// kubernetesSecrets finds the data of a Secret.
func kubernetesSecrets(v *view, hits []place, found func(start, end int)) {
	const reach = 16 << 10
	t, done := v.text, 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		from, to := max(done, h.start-reach), min(len(t), h.end+reach)
		if n := strings.LastIndex(t[from:max(from, h.start)], "\n---"); n >= 0 {
			from += n
		}
		if n := strings.Index(t[h.end:to], "\n---"); n >= 0 {
			to = h.end + n
		}
		for _, label := range []string{"data", "stringData"} {
			for i := from; i < to; {
				n := strings.Index(t[i:to], label)
				if n < 0 {
					break
				}
				at := i + n
				i = at + len(label)
				f := field{v: v, text: t, start: at, end: i, found: found}
				if at == 0 || !isWordByte(t[at-1]) {
					f.data(to)
				}
			}
		}
		done = max(done, to)
	}
}

// data reports all values of a map as secrets, whatever their names.
func (f *field) data(to int) {
	t := f.text
	i := f.end
	for i < to && isQuote(t[i]) {
		i++
	}
	if i = skipSpaces(t, i); i >= to || t[i] != ':' {
		return
	}
	if i = skipAll(t, i+1); i < to && t[i] == '{' {
		for i < to && t[i] != '}' {
			if !isQuote(t[i]) {
				i++
				continue
			}
			start, end, _ := f.v.literal(i)
			next := skipSpaces(t, min(len(t), end+1))
			if next >= len(t) || t[next] != ':' {
				f.datum(start, end)
			}
			i = max(i, end) + 1
		}
		return
	}
	own := f.indentation()
	for line := range f.v.lines(strings.LastIndexByte(t[:i], '\n') + 1) {
		text := t[line.start:line.end]
		if strings.TrimSpace(text) == "" {
			continue
		}
		if line.start >= to || indent(text) <= own {
			return
		}
		if n := strings.Index(text, ": "); n >= 0 && strings.IndexByte("#-", strings.TrimSpace(text)[0]) < 0 {
			start := line.start + n + 2
			for start < line.end && isQuote(t[start]) {
				start++
			}
			f.datum(start, line.start+len(strings.TrimRight(text, " \"'\r")))
		}
	}
}

func (f *field) datum(start, end int) {
	if end-start >= 4 && !placeholder(f.text[start:end]) && strings.IndexByte("|>", f.text[start]) < 0 {
		f.found(start, end)
	}
}
