package redact

import (
	"math"
	"strings"
)

// A writing is how a value is written, which decides how much it must look like
// a secret.
type writing int

const (
	quoted writing = iota
	bare           // in code it could be a variable
	conf           // a whole line, as in YAML, or in a URL: seldom a variable
	env            // NAME=value of a shell or an .env file, a flag, a header: never a variable
)

// secret reports whether the value of a name of this class is a secret.
func (c class) secret(v string, how writing) bool {
	lower := strings.ToLower(v)
	if len(v) < 3 || v[0] == ' ' || placeholder(v) || is("plain", lower) || hasPrefix(v, `\u`, `\x`) || hasSuffix(lower, list("file-end")...) || isReference(lower) {
		return false
	}
	switch c {
	case password, secret, key:
		if c == password && isAppPassword(v) || isScrambled(v) {
			return true
		}
	case random, uuid:
		return isUUID(v) && (c == uuid || how == env) || isGenerated(v) && (c == random || isPassGroups(v) || randomnessOf(v).isMixed())
	}
	m := makeupOf(v)
	switch {
	case how != env && (isTerm(lower) || how != quoted && isEnv(v) && strings.Contains(v, "_")):
		return false // sha256, RESET_PASSWORD_V2
	case c == pin:
		return isNumber(v)
	case c == phrase:
		return m.spaces >= 11 && m.spaces < 24 && m.letters == len(v)-m.spaces && m.upper == 0
	case m.spaces > 0:
		return (how == env || how == quoted && m.digits > 0 && m.upper == 0) && c == password && m.spaces < 4
	case how == env && c == password:
		return true
	case how == env: // but not process.env.TOKEN
		return len(v) >= 6 && m.letters > 0 && (!m.plain() || !strings.Contains(v, "."))
	case how == conf && strings.HasPrefix(v, "!!"):
		return false // a tag of YAML
	case how == conf && m.plain():
		return c == password && len(v) >= 8 && m.letters == len(v) && m.upper == 0
	case how == conf && c != password && isIdentifier(v) && isMixed(v) && turnsOf(v) < 2:
		return false // defaultToConfig2
	case how == conf:
		return len(v) >= 6 && m.letters > 0 && !isChain(v) && (c == password || m.digits > 0 && len(v) >= 8)
	case how == quoted && c == password && m.plain(): // but not a label or another name
		return len(v) >= 5 && m.letters == len(v) && (m.upper == 0 || m.upper == m.letters)
	case how == quoted && c == password:
		return m.letters+m.digits > 0
	case how == quoted && c == secret && m.plain():
		return len(v) >= 10 && m.letters == len(v) && m.upper == 0 || m.isKey(v)
	case how == quoted:
		return len(v) >= 6 && m.letters > 0 && m.digits > 0 && !strings.ContainsAny(v, "/(") || m.isKey(v)
	case c == password:
		return len(v) >= 6 && m.letters > 0 && !m.plain() && !isExpression(v)
	}
	return len(v) >= 12 && m.letters > 0 && m.digits > 0 && entropy(v) >= 3.2 && !isExpression(v)
}

// isAppPassword reports whether a value is a password that Google or Apple made up for an
// app, as it is shown: four groups of four letters
// (support.google.com/accounts/answer/185833, support.apple.com/102654).
func isAppPassword(v string) bool {
	if len(v) != 19 || v[4] != ' ' && v[4] != '-' || strings.Trim(v, " -abcdefghijklmnopqrstuvwxyz") != "" {
		return false
	}
	return strings.Count(v, v[4:5]) == 3 && v[9] == v[4] && v[14] == v[4]
}

// isReference reports whether a value is an address, a version or a number.
func isReference(lower string) bool {
	if strings.Contains(lower, "://") || hasSuffix(lower, "/tcp", "/udp") || hasPrefix(lower, "urn:", "data:", "#") {
		return true
	}
	if host, port, ok := strings.Cut(lower, ":"); ok && len(port) >= 2 && isDigits(port) && isIdentifier(host) && !isDigits(host) {
		return true
	}
	number := strings.TrimLeft(lower, "^~>=v ")
	return number != "" && isDigit(number[0]) && strings.Count(number, ".") == 2 && strings.Trim(number, "0123456789.-abcdehlrpt") == "" &&
		strings.Trim(number[:strings.LastIndexByte(number, '.')], "0123456789.") == ""
}

// isStrong reports whether a word looks like a password: it has letters and
// digits.
func isStrong(v string) bool {
	lower := strings.ToLower(v)
	if len(v) < 6 || len(v) > 128 || placeholder(v) || is("plain", lower) || isReference(lower) || hasSuffix(lower, list("file-end")...) || isChain(v) {
		return false
	}
	m := makeupOf(v)
	return m.letters > 0 && (m.digits > 0 || isScrambled(v)) && m.spaces == 0 && !strings.ContainsAny(v, "()[]{}<>;,=\"'") && !isTerm(lower)
}

// isTerm reports whether a word with digits is a technical term: sha256, utf-8,
// base64url, int32.
func isTerm(lower string) bool {
	n := strings.IndexAny(lower, "0123456789")
	if n < 0 || !is("term", strings.Trim(lower[:n], "-_")) {
		return false
	}
	rest := strings.Trim(strings.TrimLeft(lower[n:], "0123456789"), "-_")
	return rest == "" || is("term-end", rest) || isDigits(rest)
}

// isRandom reports whether a word looks generated: there are digits between its
// letters.
func isRandom(v string) bool {
	if len(v) < 8 || placeholder(v) || isReference(strings.ToLower(v)) || strings.ContainsAny(v, " \t\n(){}<>[];,\"'`|\\") {
		return false
	}
	m := makeupOf(v)
	if m.digits == 0 {
		return len(v) >= 32 && m.upper > 8 && m.letters-m.upper > 8 && m.isKey(v) && !isMixedWords(v)
	}
	turns := turnsOf(v)
	return m.letters > 0 && (turns >= 3 || turns == 2 && len(v) < 16 && !isTerm(strings.ToLower(v))) && !isDate(v) && !isChain(v)
}

// isMixedWords reports whether letters are words in camelCase.
func isMixedWords(v string) bool {
	runs := 0
	for i := 1; i < len(v); i++ {
		if isUpper(v[i]) != isUpper(v[i-1]) {
			runs++
		}
	}
	return runs < len(v)/3
}

// isDate reports whether a value begins with a date.
func isDate(v string) bool {
	return len(v) >= 10 && isDigits(v[:4]) && v[4] == '-' && isDigits(v[5:7]) && v[7] == '-' && isDigits(v[8:10])
}

// A makeup counts the kinds of characters in a value.
type makeup struct{ letters, upper, digits, joiners, spaces, marks int }

func makeupOf(v string) (m makeup) {
	for i := range len(v) {
		switch b := v[i]; {
		case isUpper(b):
			m.upper++
			m.letters++
		case isLetter(b):
			m.letters++
		case '0' <= b && b <= '9':
			m.digits++
		case b == '_' || b == '-' || b == '.':
			m.joiners++
		case b == ' ' || b == '\t':
			m.spaces++
		default:
			m.marks++
		}
	}
	return m
}

// plain reports whether there are only letters, and characters that join words.
func (m makeup) plain() bool { return m.digits == 0 && m.marks == 0 }

// isKey reports whether a value is so long and random that it must be a key.
func (m makeup) isKey(v string) bool {
	return len(v) >= 20 && (v[0] != '/' || turnsOf(v) > 6) && m.letters > 0 && m.digits > 0 && entropy(v) >= 3.5 && !strings.ContainsAny(v, "({") ||
		len(v) >= 32 && entropy(v) >= 4 && inBase64.all(v)
}

// isExpression reports whether a bare value is code: user.password2, x->y, 2*n.
func isExpression(v string) bool {
	if isIdentifier(v) && (classOf(v) != noSecret || !isRandom(v) && turnsOf(v) < 2 && isMixed(v)) {
		return true // testRSA2048PrivateKey, defaultToConfig2
	}
	v = strings.TrimRight(v, "!;")
	return hasPrefix(strings.ToLower(v), list("code")...) || isChain(v) || v != "" && v[0] == ':' || containsAny(v, "?.", "??", "/*", "=!", "!!", "[^", "(?")
}

// isMixed reports whether a name is in camelCase.
func isMixed(v string) bool {
	for i := 1; i < len(v); i++ {
		if isUpper(v[i]) && !isUpper(v[i-1]) && isLetter(v[i-1]) {
			return true
		}
	}
	return false
}

// isChain reports whether a value is a chain of names, a.b, a->b or a::b, or a
// path.
func isChain(v string) bool {
	if isBase64(v) && turnsOf(v) > 6 && entropy(v) > 4 {
		return false
	}
	if containsAny(v, "->", "::", "//") || hasPrefix(v, "/", "./", "~/") {
		return true
	}
	if strings.IndexByte(v, '.') <= 0 || !isIdentifier(v) {
		return false
	}
	for part := range strings.SplitSeq(v, ".") {
		if turns := turnsOf(part); turns > 2 || turns == 2 && !isTerm(strings.ToLower(part)) || part != "" && isDigit(part[0]) {
			return false // random, not a name
		}
	}
	return true
}

// turnsOf counts where digits follow letters in a word, or letters digits.
func turnsOf(v string) (turns int) {
	for i := 1; i < len(v); i++ {
		if isDigit(v[i-1]) && isLetter(v[i]) || isLetter(v[i-1]) && isDigit(v[i]) {
			turns++
		}
	}
	return turns
}

// placeholder reports whether a value is in place of a secret: a mask, a variable,
// an example.
func placeholder(s string) bool {
	if s == "" || isMark(s) || strings.Count(s, s[:1]) == len(s) { // xxxx
		return true
	}
	switch s[0] {
	case '<', '{', '(', ']':
		return true
	case '[':
		return strings.HasSuffix(s, "]")
	case '\\': // of a shell
		return strings.HasPrefix(strings.TrimLeft(s, `\`), "$")
	case '$', '%', '*', '&', '@': // no variable has digits and marks in it
		return len(s) < 8 || !strings.ContainsAny(s[1:], "0123456789") || !strings.ContainsAny(s[1:], "!@#^&*+~?") || strings.ContainsAny(s, "{}()<>")
	}
	lower := strings.ToLower(s)
	return hasPrefix(lower, "your ") || hasPrefix(lower, list("mask")...) || is("example", lower)
}

// isNumber reports whether a value is a number that may be a password.
func isNumber(v string) bool { return len(v) >= 4 && isDigits(v) }

// entropy returns Shannon's entropy in bits per byte.
func entropy(s string) float64 {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	var h float64
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			h -= p * math.Log2(p)
		}
	}
	return h
}
