package redact

import "strings"

const ruleFile = "credentials-file"

// fileRules find secrets that are recognized by their place in a file.
var fileRules = []rule{
	{name: ruleFile, keywords: []string{":5432:", ":5433:", ":6432:", ":*:"}, find: pgpass},
	{name: ruleFile, keywords: []string{`"kty"`, `'kty'`}, find: jwk},
	{name: ruleFile, keywords: []string{"kind: secret", `"kind":"secret"`, `"kind": "secret"`}, find: kubernetesSecret},
	{name: rulePrivateKey, keywords: []string{"private-lines:"}, find: putty},
	{name: ruleURL, keywords: []string{"@tcp(", "@unix(", ":thin:", "@//", "@/"}, find: dataSource},
	{name: ruleFile, keywords: []string{"psk "}, find: ipsec},
	{name: ruleCookie, keywords: []string{"\ttrue\t", "\tfalse\t"}, find: cookieFile},
}

// pgpass finds the password in host:port:database:user:password.
func pgpass(v *view, hits []place, found func(start, end int)) {
	done := 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		line := lineAround(v.text, h.start)
		done = line.end
		parts := strings.SplitN(v.text[line.start:line.end], ":", 5)
		if len(parts) == 5 && !strings.ContainsAny(v.text[line.start:line.end], " \t\"'()") && (isDigits(parts[1]) || parts[1] == "*") &&
			len(parts[4]) >= 4 && !isDigits(parts[4]) && !isDigits(parts[3]) && !placeholder(parts[4]) && !strings.HasPrefix(parts[4], "/") {
			found(line.end-len(parts[4]), line.end)
		}
	}
}

// lineAround returns the line that i is in, at most 512 bytes each way.
func lineAround(t string, i int) place {
	const reach = 512
	from, to := max(0, i-reach), min(len(t), i+reach)
	if n := strings.LastIndexByte(t[from:i], '\n'); n >= 0 {
		from += n + 1
	}
	if n := strings.IndexByte(t[i:to], '\n'); n >= 0 {
		to = i + n
	}
	for to > i && strings.IndexByte("\r\"'` ", t[to-1]) >= 0 {
		to--
	}
	for from < i && strings.IndexByte(" \t\"'`", t[from]) >= 0 {
		from++
	}
	if n := strings.LastIndexByte(t[from:i], '"'); n >= 0 { // the last line of a string of JSON
		from += n + 1
	}
	if n := strings.IndexByte(t[i:to], '"'); n >= 0 {
		to = i + n
	}
	return place{from, to}
}

// jwkSecrets are the secret members of a JSON Web Key (RFC 7518).
var jwkSecrets = []string{"d", "p", "q", "dp", "dq", "qi", "k"}

// jwk finds the secret members of an object that has a member "kty".
func jwk(v *view, hits []place, found func(start, end int)) {
	const reach = 4 << 10
	t, done := v.text, 0
	f := field{v: v, text: t}
	for _, h := range hits {
		from := max(done, h.start-reach)
		from += strings.LastIndexByte(t[from:max(from, h.start)], '{') + 1
		to := min(len(t), h.end+reach)
		if n := strings.IndexByte(t[h.end:to], '}'); n >= 0 {
			to = h.end + n
		}
		for i := from; i < to; i++ {
			if !isQuote(t[i]) {
				continue
			}
			start, end, _ := f.literal(i)
			i = max(i, end)
			if start > end || !oneOf(t[start:end], jwkSecrets) {
				continue
			}
			k := skipSpaces(t, end+1)
			if k >= len(t) || t[k] != ':' {
				continue
			}
			if k = skipSpaces(t, k+1); k >= len(t) || !isQuote(t[k]) {
				continue
			}
			if start, end, _ = f.literal(k); end-start >= 16 && strings.Trim(t[start:end], word+"=") == "" {
				found(start, end)
			}
			i = max(i, end)
		}
		done = max(done, to)
	}
}

// kubernetesSecret finds the data of a Secret.
func kubernetesSecret(v *view, hits []place, found func(start, end int)) {
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
				f := field{v: v, text: t, start: at, end: i, after: i, found: found}
				if at == 0 || !isWordByte(t[at-1]) {
					f.data(to)
				}
			}
		}
		done = max(done, to)
	}
}

// data finds all values of a map, whatever their names.
func (f *field) data(to int) {
	t := f.text
	i := f.after
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
			start, end, _ := f.literal(i)
			next := skipSpaces(t, min(len(t), end+1))
			if next >= len(t) || t[next] != ':' {
				f.datum(start, end)
			}
			i = max(i, end) + 1
		}
		return
	}
	own := f.indentation()
	for line := range f.lines(strings.LastIndexByte(t[:i], '\n') + 1) {
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

// putty finds the lines of a private key in PuTTY's format.
func putty(v *view, hits []place, found func(start, end int)) {
	for _, h := range hits {
		f := field{text: v.text}
		start, end := 0, 0
		for line := range f.lines(lineEnd(v.text, h.end) + 1) {
			text := strings.TrimRight(v.text[line.start:line.end], "\r")
			if !isBase64(text) || line.start-h.end > maxKey {
				break
			}
			if start == 0 {
				start = line.start
			}
			end = line.start + len(text)
		}
		if end > start {
			found(start, end)
		}
	}
}

// dataSource finds the password in user:password@tcp(host)/db and
// scott/password@//host.
func dataSource(v *view, hits []place, found func(start, end int)) {
	t := v.text
	for _, h := range hits {
		i := h.start
		if t[i] == ':' { // jdbc:oracle:thin:scott/..
			end := h.end + strings.IndexAny(t[h.end:min(len(t), h.end+within)]+"@", "@ \n\"'")
			if _, pass, ok := strings.Cut(t[h.end:min(len(t), end)], "/"); ok && len(pass) >= 4 && !placeholder(pass) {
				found(end-len(pass), end)
			}
			continue
		}
		if i == 0 || strings.IndexByte("/ @\n", t[i-1]) >= 0 {
			continue
		}
		start := i
		for start > 0 && i-start < 96 && strings.IndexByte(" \t\n\"'`=<>(", t[start-1]) < 0 {
			start--
		}
		sep := strings.IndexAny(t[start:i], ":/")
		if sep <= 0 || t[h.start:h.end] == "@/" && (h.end >= len(t) || !isLetter(t[h.end])) {
			continue
		}
		if user, pass := t[start:start+sep], t[start+sep+1:i]; isIdentifier(user) && !strings.Contains(pass, "/") && isStrong(pass) {
			found(i-len(pass), i)
		}
	}
}

// cookieFile finds the values in a cookie file of curl or wget: seven fields,
// separated by tabs.
func cookieFile(v *view, hits []place, found func(start, end int)) {
	done := 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		line := lineAround(v.text, h.start)
		done = line.end
		fields := strings.Split(v.text[line.start:line.end], "\t")
		if value := fields[len(fields)-1]; len(fields) == 7 && isDigits(fields[4]) && len(value) >= 6 {
			found(line.end-len(value), line.end)
		}
	}
}

// ipsec finds the key in the lines of ipsec.secrets: bob : PSK "..".
func ipsec(v *view, hits []place, found func(start, end int)) {
	for _, h := range hits {
		f := field{v: v, text: v.text}
		lead := strings.TrimRight(v.text[max(0, h.start-8):h.start], " ")
		if !strings.HasSuffix(lead, ":") {
			continue
		}
		if start, end, ok := f.literal(h.end); ok && end-start >= 6 {
			found(start, end)
		}
	}
}
