package redact

import "strings"

// authorizations finds the credentials in Authorization headers and after the
// word bearer.
func authorizations(v *view, hits []place, found func(start, end int)) {
	text, done := v.text, 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		if strings.EqualFold(text[h.start:h.end], "bearer") {
			start := skipSpaces(text, h.end)
			end := start + inBearer.prefix(text[start:min(len(text), start+longestToken)])
			if v := text[start:end]; start > h.end && len(v) >= 12 && strings.ContainsAny(v, digits) && !placeholder(v) {
				found(start, end)
			}
			continue
		}
		m := headerStart().FindStringIndex(text[h.end:min(len(text), h.end+within)])
		if m == nil {
			continue
		}
		i := h.end + m[1]
		end := lineEnd(text, i)
		if scheme, _, _ := strings.Cut(text[i:end], " "); strings.EqualFold(scheme, "digest") {
			rest, _, _ := strings.Cut(text[i:min(len(text), i+maxValue)], "\n")
			end = i + len(rest) // its values are quoted
		}
		if start, ok := credentials(text[i:end]); ok {
			found(i+start, end)
			done = end
		}
	}
}

var inBearer = setOfLetters(base64 + "._-~")

// headerStart is what comes between the name of a header and its value.
var headerStart = expr("\\A(?:[\"'`]{1,3}[ \\t]*,|[\"'`]{0,3}\\]?[ \\t]*" + separator + ")[ \\t]*[\"'`]*")

// credentials returns where the credentials begin in the value of an
// Authorization header: after the scheme.
func credentials(v string) (start int, ok bool) {
	scheme, rest, hasScheme := strings.Cut(v, " ")
	if hasScheme && isIdentifier(strings.ReplaceAll(scheme, "-", "")) {
		rest = strings.TrimSpace(rest)
		if rest == "" || placeholder(rest) || strings.HasSuffix(rest, "...") || is("plain", rest) || strings.ContainsAny(rest[:1], "+.") {
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

// cookieStart is what comes between the word cookie and its value, in a header, an
// argument, a flag or an assignment.
var cookieStart = expr("\\A(?:[\"'`]{1,3}[ \\t]*[:,]|[ \\t]*:|[ \\t]*=|[ \\t])[ \\t]*(\\[)?")

// cookies finds the values of Cookie and Set-Cookie headers and of --cookie.
func cookies(v *view, hits []place, found func(start, end int)) {
	text, done := v.text, 0
	for _, h := range hits {
		m := cookieStart().FindStringSubmatchIndex(text[h.end:min(len(text), h.end+within)])
		if h.start < done || m == nil {
			continue
		}
		i := h.end + m[1]
		sep := strings.TrimSpace(text[h.end:i])
		flag := strings.HasSuffix(text[:h.start], "--")
		document := strings.HasSuffix(text[:h.start], ".") && sep == "="
		if !flag && !document && (sep == "" || sep == "=") || strings.HasPrefix(text[i:], "=") { // cookie := ..
			continue
		}
		if m[2] >= 0 { // ["a=..; Path=/", "b=.."]
			for limit := min(len(text), i+maxValue); i < limit && text[i] != ']'; i++ {
				if start, end, ok := v.literal(i); ok {
					if i = max(i, end); start < end && isCookie(text[start:end]) {
						found(start, end)
						done = end
					}
				}
			}
			continue
		}
		start, end, literal := v.literal(i)
		if !literal {
			if start, end = i, lineEnd(text, i); document || isQuote(text[h.end]) {
				continue // a variable
			}
		}
		if start < end && isCookie(text[start:end]) && (literal || flag || !isCode(text[start:end])) {
			found(start, end)
			done = end
		}
	}
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
	return oneOf(user, "user", "username", "login", "name", "redacted", "[user") &&
		oneOf(pass, "password", "passwd", "passwd]", "redacted")
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
