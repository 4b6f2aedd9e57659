package redact

import (
	"strings"
)

// The names of our own rules.
const (
	ruleAssignment    = "assignment"
	ruleAuthorization = "authorization"
	ruleCookie        = "cookie"
	rulePrivateKey    = "private-key"
	ruleURL           = "url-credentials"
)

var assignmentWords = []string{
	"password", "passwd", "passphrase", "passcode", "pwd", "pass", "secret", "token", "key", "credential", "credentials",
}

// assignments finds name = value in the languages that people and agents write.
func assignments(text string, hits []place, found func(start, end int)) {
	done := 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		a := assignment{text: text}
		if !a.read(h) {
			continue
		}
		done = max(done, a.nameEnd)
		if a.secret() {
			found(a.start, a.end)
			done = a.end
		}
	}
}

// An assignment is read from where a word stands that its name may end in.
type assignment struct {
	text               string
	name               string
	nameStart, nameEnd int
	quoted             bool // the name is
	how                writing
	spaced             bool // there is a space before the separator
	listed             bool // the separator is a comma
	alone              bool // it begins its line
	start, end         int  // of the value
}

const (
	maxName  = 64
	maxValue = 16 << 10
)

func (a *assignment) read(h place) bool {
	t := a.text
	a.nameStart, a.nameEnd = h.start, h.end
	for a.nameStart > 0 && h.start-a.nameStart < maxName && isNameByte(t[a.nameStart-1]) {
		a.nameStart--
	}
	if a.nameStart > 0 && a.nameStart < h.start && t[a.nameStart-1] == '\\' && strings.IndexByte("nrt", t[a.nameStart]) >= 0 {
		a.nameStart++ // the n of \n
	}
	for a.nameEnd < len(t) && a.nameEnd-h.end < maxName && isNameByte(t[a.nameEnd]) {
		a.nameEnd++
	}
	for a.nameEnd > h.end && (t[a.nameEnd-1] == '.' || t[a.nameEnd-1] == '-') {
		a.nameEnd--
	}
	a.name = t[a.nameStart:a.nameEnd]
	if classOf(a.name) == noSecret {
		return false
	}
	i := a.nameEnd
	for i < len(t) && (t[i] == '\\' || isQuote(t[i])) && i-a.nameEnd < 4 {
		i++
		a.quoted = true
	}
	if i < len(t) && t[i] == ']' { // env["TOKEN"] = ..
		i++
	}
	afterName := i
	i = skipSpaces(t, i)
	a.spaced = i > afterName
	flag := strings.HasPrefix(a.name, "--")
	sep := separator(t[i:], a.quoted)
	switch {
	case sep > 0:
		tag := t[i] == '>'
		if tag && (a.nameStart == 0 || t[a.nameStart-1] != '<') {
			return false
		}
		if strings.EqualFold(a.name, "pass") && t[i] != '=' || a.nameStart > 1 && t[a.nameStart-2:a.nameStart] == "::" {
			return false // a test that passed, a type
		}
		a.how = bare
		switch before := a.before(); {
		case before == '?' || before == '&': // of a URL
			a.how = conf
		case (before == 0 || before == '\n') && !a.spaced:
			a.alone = true
		}
		if tag || flag || isEnv(a.name) && t[i] == '=' && !a.spaced || isHeader(a.name) && t[i] == ':' && !a.quoted {
			a.how = env
		}
		i = skipSpaces(t, i+sep)
	case flag && a.spaced, a.spaced && a.inNetrc():
		a.how = env
	default:
		return false
	}
	a.listed = sep == 1 && strings.HasSuffix(strings.TrimRight(t[:i], " \t"), ",")
	return a.value(i)
}

// before is the byte before the name and what may lead in to it, 0 if there is
// none.
func (a *assignment) before() byte {
	lead := strings.TrimRight(a.text[max(0, a.nameStart-16):a.nameStart], " \t-")
	lead = strings.TrimSuffix(lead, "export")
	lead = strings.TrimRight(lead, " \t")
	if lead == "" {
		return 0
	}
	if strings.HasSuffix(lead, `\n`) {
		return '\n'
	}
	return lead[len(lead)-1]
}

// inNetrc tells whether a machine and a login stand before the name: there,
// spaces set a password apart.
func (a *assignment) inNetrc() bool {
	before := a.text[max(0, a.nameStart-160):a.nameStart]
	return a.name == "password" && strings.Contains(before, "machine ") && strings.Contains(before, "login ")
}

// value reads the value that begins at i.
func (a *assignment) value(i int) bool {
	t := a.text
	for n := 0; i < len(t) && n < 2 && (t[i] == 'b' || t[i] == 'f' || t[i] == 'r') && i+1 < len(t) && isQuote(t[i+1]); n++ {
		i++ // b"..", f".."
	}
	open := i
	for i < len(t) && t[i] == '\\' {
		i++
	}
	if i < len(t) && isQuote(t[i]) && a.nameStart > 0 && t[a.nameStart-1] == t[i] && !a.quoted {
		return false // "NAME=" + value
	}
	if i < len(t) && isQuote(t[i]) {
		mark := t[open : i+1]
		i++
		rest := t[i:min(len(t), i+maxValue)]
		end := strings.Index(rest, mark)
		if line := strings.IndexByte(rest, '\n'); end < 0 || line >= 0 && line < end {
			end = line
		}
		if end < 0 {
			end = len(rest)
		}
		if a.how != env {
			a.how = quoted
		}
		a.start, a.end = i, i+end
		return end > 0
	}
	if a.listed {
		return false
	}
	i = open
	stops := " \t\r\n\"'`,;()<>{}[]|&\\"
	if a.how == env {
		stops = " \t\r\n\"'`<>\\"
	}
	rest := t[i:min(len(t), i+maxValue)]
	end := strings.IndexAny(rest, stops)
	if end < 0 {
		end = len(rest)
	}
	a.start, a.end = i, i+end
	if a.alone && a.how == bare && (a.end == len(t) || t[a.end] == '\n' || t[a.end] == '\r' || t[a.end] == '\\') {
		a.how = conf
	}
	if a.how == bare && end > 0 { // password: str = "..."
		k := skipSpaces(t, a.end)
		if k < len(t) && k > a.end && t[k] == '=' && isIdentifier(rest[:end]) {
			if n := separator(t[k:], false); n > 0 {
				a.how = bare
				return a.value(skipSpaces(t, k+n))
			}
		}
	}
	return end > 0
}

// separator tells how long the sign is that s begins with and that sets a name
// apart from its value.
func separator(s string, quotedName bool) int {
	for _, sep := range []string{":=", "=>", "===", "==", "!=", "=", ":", ">"} {
		if strings.HasPrefix(s, sep) {
			return len(sep)
		}
	}
	if quotedName && strings.HasPrefix(s, ",") { // setenv("TOKEN", "..")
		return 1
	}
	return 0
}

func (a *assignment) secret() bool {
	v, c := a.text[a.start:a.end], classOf(a.name)
	if a.listed && (len(v) < 8 || !strings.ContainsAny(v, "0123456789") || isEnv(v)) {
		return false // of names, more likely than a value to one
	}
	if a.spaced && a.how == env && strings.HasPrefix(a.name, "--") && !strings.ContainsAny(v, "0123456789!@#%^*+~?/") {
		return false // --password string, as in a usage text
	}
	if a.how == bare {
		if a.end < len(a.text) && strings.IndexByte("([{", a.text[a.end]) >= 0 {
			return false // a call, an element
		}
		if a.spaced && c != password && len(v) < 16 {
			return false
		}
	}
	return c.secret(v, a.how) && !strings.EqualFold(v, a.name)
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
func isUpper(c byte) bool    { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool   { return isUpper(c) || 'a' <= c && c <= 'z' }
func isQuote(c byte) bool    { return c == '"' || c == '\'' || c == '`' }
func isWordByte(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' || c == '_' }
func isNameByte(c byte) bool {
	return isLetter(c) || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) || s[i] == '-' {
			return false
		}
	}
	return s != ""
}

func skipSpaces(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}
