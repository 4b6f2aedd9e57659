package redact

import (
	"slices"
	"strings"
)

// How a value is written decides how much it must look like a secret.
type writing int

const (
	quoted writing = iota
	bare           // in code it could be a variable
	conf           // alone on a line, as in YAML, or in a URL: it seldom is one
	env            // NAME=value of a shell or an .env file, a flag, a header: never a variable
)

// words that are no secrets, however they are assigned.
var words = map[string]bool{
	"password": true, "passwd": true, "secret": true, "token": true, "string": true, "str": true, "text": true, "bool": true,
	"boolean": true, "number": true, "int": true, "bytes": true, "byte": true, "any": true, "object": true, "char": true, "none": true,
	"null": true, "nil": true, "undefined": true, "true": true, "false": true, "required": true, "optional": true, "hidden": true,
	"include": true, "omit": true, "same-origin": true, "bearer": true, "basic": true, "default": true, "unknown": true, "self": true,
	"redacted": true, "prompt": true, "stdin": true, "disabled": true, "enabled": true, "value": true, "empty": true, "secretstr": true,
	"redacted]": true, "invalid": true, "missing": true, "function": true, "async": true, "await": true, "new": true, "yes": true, "no": true,
}

// secret tells whether a value is one.
func (c class) secret(v string, how writing) bool {
	lower := strings.ToLower(v)
	if len(v) < 3 || placeholder(v) || words[lower] || hasPrefix(v, `\u`, `\x`) || hasSuffix(lower, files...) {
		return false
	}
	m := makeupOf(v)
	switch {
	case m.spaces > 0:
		return how == env && c == password && m.spaces < 4
	case how == env && c == password:
		return true
	case how == env: // but not process.env.TOKEN
		return len(v) >= 6 && m.letters > 0 && (!m.plain() || !strings.Contains(v, "."))
	case how == conf && m.plain():
		return c == password && len(v) >= 8 && m.letters == len(v) && m.upper == 0
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

// files are how the name of one ends.
var files = []string{".pem", ".json", ".crt", ".txt", ".yml", ".yaml", ".key"}

// A makeup is what a value is made of.
type makeup struct{ letters, upper, digits, joints, spaces, marks int }

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
			m.joints++
		case b == ' ' || b == '\t':
			m.spaces++
		default:
			m.marks++
		}
	}
	return m
}

// plain tells whether there are only letters, and what joins words to names.
func (m makeup) plain() bool { return m.digits == 0 && m.marks == 0 }

// isKey tells whether a value is long and mixed enough to be nothing but a key.
func (m makeup) isKey(v string) bool {
	return len(v) >= 20 && m.letters > 0 && m.digits > 0 && entropy(v) >= 3.5 && !strings.ContainsAny(v, "({") ||
		len(v) >= 32 && entropy(v) >= 4 && strings.Trim(v, base64Bytes) == ""
}

// isExpression tells whether a bare value is code: user.password2, x->y, 2*n.
func isExpression(v string) bool {
	if isIdentifier(v) && classOf(v) != noSecret {
		return true // testRSA2048PrivateKey
	}
	return hasPrefix(strings.ToLower(v), code...) || isChain(v)
}

// isChain tells whether a value is one of names: a.b, a->b, a::b, or a path.
func isChain(v string) bool {
	dot := strings.IndexByte(v, '.')
	return strings.Contains(v, "->") || strings.Contains(v, "::") || strings.Contains(v, "//") || hasPrefix(v, "/", "./", "~/") ||
		dot > 0 && isIdentifier(v[:dot]) && isIdentifier(v[dot+1:])
}

// code is how expressions begin that stand for a secret.
var code = []string{
	"pass", "pwd", "self", "this", "cfg", "conf", "user", "req", "args", "opts", "data", "token", "secret", "key", "get", "http",
	"lambda",
}

// placeholder tells whether a value only stands for a secret.
func placeholder(s string) bool {
	if s == "" || isMark(s) || strings.Count(s, s[:1]) == len(s) { // xxxx
		return true
	}
	switch s[0] {
	case '<', '{', '(', ']':
		return true
	case '$', '%', '*', '&', '@': // no variable has digits and marks in it
		return len(s) < 8 || !strings.ContainsAny(s[1:], "0123456789") || !strings.ContainsAny(s[1:], "!@#^&*+~?") || strings.ContainsAny(s, "{}()<>")
	}
	lower := strings.ToLower(s)
	return hasPrefix(lower, "your_", "your-", "your ", "xxx", "...") ||
		slices.Contains([]string{"yourpassword", "example", "changeme", "placeholder", "dummy"}, lower)
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

func hasSuffix(s string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(x string) bool { return strings.HasSuffix(s, x) })
}
