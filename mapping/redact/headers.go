package redact

import "strings"

// authorizations finds the credentials in Authorization headers and after the
// word bearer.
func authorizations(v *view, hits []place, found func(start, end int)) {
	text, done := v.text, 0
	var line tries
	for _, h := range hits {
		if h.start < done {
			continue
		}
		i := h.end
		if !strings.EqualFold(text[h.start:h.end], "bearer") {
			for i < len(text) && (isQuote(text[i]) || text[i] == ']') && i-h.end < 4 {
				i++
			}
			i = skipSpaces(text, i)
			n := separator(text[min(i, len(text)):], true)
			if n == 0 {
				continue
			}
			i = skipSpaces(text, i+n)
			for i < len(text) && isQuote(text[i]) {
				i++
			}
			if line.over(i) {
				continue
			}
			end := lineEnd(text, i)
			line.count(i, end)
			if scheme, _, _ := strings.Cut(text[i:end], " "); strings.EqualFold(scheme, "digest") {
				rest, _, _ := strings.Cut(text[i:min(len(text), i+maxValue)], "\n")
				end = i + len(rest) // its values are quoted
			}
			if start, ok := credentials(text[i:end]); ok {
				found(i+start, end)
				done = end
			}
			continue
		}
		start := skipSpaces(text, i)
		end := start
		for end < len(text) && end-start < longestToken && strings.IndexByte(base64+"._-~", text[end]) >= 0 {
			end++
		}
		if v := text[start:end]; start > i && len(v) >= 12 && strings.ContainsAny(v, "0123456789") && !placeholder(v) {
			found(start, end)
		}
	}
}

// credentials returns where the credentials begin in the value of an
// Authorization header: after the scheme.
func credentials(v string) (start int, ok bool) {
	scheme, rest, hasScheme := strings.Cut(v, " ")
	if hasScheme && isIdentifier(strings.ReplaceAll(scheme, "-", "")) {
		rest = strings.TrimSpace(rest)
		if rest == "" || placeholder(rest) || strings.HasSuffix(rest, "...") || plainWords[strings.ToLower(rest)] || strings.ContainsAny(rest[:1], "+.") {
			return 0, false
		}
		if strings.Contains(rest, " ") && !strings.Contains(rest, "=") || strings.IndexByte(rest, '=') == len(rest)-1 && isIdentifier(rest[:len(rest)-1]) && len(rest) < 12 {
			return 0, false // prose, or the name of a parameter in quotes
		}
		return len(v) - len(strings.TrimLeft(v[len(scheme):], " ")), len(rest) >= 4
	}
	v = strings.TrimSpace(v)
	return 0, len(v) >= 8 && strings.ContainsAny(v, "0123456789") && !strings.ContainsAny(v, " ({$") && !placeholder(v) && !isExpression(v)
}

// A tries limits how often the same line is read: a line with ten headers is not
// a header.
type tries struct{ end, n int }

func (t *tries) over(i int) bool { return i < t.end && t.n > 8 }

func (t *tries) count(i, end int) {
	if i >= t.end {
		*t = tries{end: end}
	}
	t.n++
}

// cookies finds the values of Cookie and Set-Cookie headers and of --cookie.
func cookies(v *view, hits []place, found func(start, end int)) {
	text, done := v.text, 0
	var line tries
	for _, h := range hits {
		if h.start < done {
			continue
		}
		i := h.end
		flag := h.start > 1 && text[h.start-2:h.start] == "--" && i < len(text) && (text[i] == ' ' || text[i] == '=')
		name := i
		for i < len(text) && isQuote(text[i]) && i-h.end < 4 {
			i++
		}
		quoted := i > name
		i = skipSpaces(text, i)
		document := h.start > 0 && text[h.start-1] == '.' && i < len(text) && text[i] == '='
		if i >= len(text) || !flag && !document && text[i] != ':' && (!quoted || text[i] != ',') {
			continue
		}
		if text[i] == ':' || text[i] == '=' || text[i] == ',' {
			i++
		}
		if i < len(text) && text[i] == '=' {
			continue // cookie := ..
		}
		i = skipSpaces(text, i)
		if i < len(text) && text[i] == '[' { // ["a=..; Path=/", "b=.."]
			done = cookieList(v, i, found)
			continue
		}
		literal := i < len(text) && isQuote(text[i])
		if literal && i+1 < len(text) && text[i+1] == text[i] { // an empty one
			continue
		}
		if !literal && (document || quoted) {
			continue // a variable
		}
		for i < len(text) && isQuote(text[i]) {
			i++
		}
		if line.over(i) {
			continue
		}
		end := lineEnd(text, i)
		line.count(i, end)
		if isCookie(text[i:end]) && (literal || flag || !isCode(text[i:end])) {
			found(i, end)
			done = end
		}
	}
}

// cookieList finds the cookies in a list of strings, and returns where it ends.
func cookieList(v *view, i int, found func(start, end int)) int {
	f := field{v: v, text: v.text}
	limit := min(len(v.text), i+maxValue)
	for i++; i < limit && v.text[i] != ']'; i++ {
		if !isQuote(v.text[i]) {
			continue
		}
		start, end, _ := f.literal(i)
		if i = max(i, end); end > start && isCookie(v.text[start:end]) {
			found(start, end)
		}
	}
	return i
}

// isCode reports whether a header's value is an expression: a.b=c(d),e=f.
func isCode(v string) bool {
	_, value, _ := strings.Cut(v, "=")
	value, _, _ = strings.Cut(value, ";")
	value = strings.TrimPrefix(value, "s:") // of Express: signed
	return strings.ContainsAny(value, "(){}[]?:,!<>&|") || strings.HasPrefix(value, "=")
}

// isCookie reports whether a header's value is a list of name=value.
func isCookie(v string) bool {
	name, value, ok := strings.Cut(v[:min(len(v), 256)], "=")
	return ok && len(value) >= 4 && !placeholder(value) && !isMark(v) && (!strings.ContainsAny(name, " (.{}$<") || name == "connect.sid") // Express's
}

// lineEnd returns the end of the line or string that i is in.
func lineEnd(text string, i int) int {
	i = min(i, len(text))
	rest := text[i:min(len(text), i+maxValue)]
	if n := strings.IndexAny(rest, "\"'`\r\n"); n >= 0 {
		rest = rest[:n]
	}
	return i + len(strings.TrimRight(rest, " "))
}

// isExample reports whether credentials are those of documentation:
// user:password.
func isExample(user, pass string) bool {
	return oneOf(strings.ToLower(user), []string{"user", "username", "login", "name", "redacted", "[user"}) &&
		oneOf(strings.ToLower(pass), []string{"password", "passwd", "passwd]", "redacted"})
}

// urls finds credentials in URLs.
func urls(v *view, hits []place, found func(start, end int)) {
	text := v.text
	for _, h := range hits {
		if h.start == 0 || !isLetter(text[h.start-1]) && (text[h.start-1] < '0' || '9' < text[h.start-1]) {
			continue
		}
		rest := text[h.end:min(len(text), h.end+1024)]
		if n := strings.IndexAny(rest, " \t\r\n\"'`<>\\"); n >= 0 {
			rest = rest[:n]
		}
		authority := rest
		if n := strings.IndexAny(rest, "/?#"); n >= 0 && strings.IndexByte(rest[:n], '@') >= 0 {
			authority = rest[:n]
		}
		at := strings.LastIndexByte(authority, '@')
		if at <= 0 {
			continue
		}
		user, pass, ok := strings.Cut(rest[:at], ":")
		switch {
		case ok && strings.ContainsAny(user, "/?#"): // http://host/path:x@y
		case ok && (pass == "" || placeholder(pass) || isMark(rest) || isExample(user, pass)):
		case ok:
			found(h.end, h.end+at)
		case len(user) >= 16 && strings.ContainsAny(user, "0123456789") && !strings.ContainsAny(user, "/?#.") && !placeholder(user):
			found(h.end, h.end+at) // a token instead of a user
		}
	}
}
