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

// A class is what a name tells of its value.
type class int

const (
	noSecret class = iota
	password       // may be a plain word
	secret         // may be a long one
	key            // is letters and digits
)

// keyOf are the words that make the key after them a secret one.
var keyOf = []string{
	"api", "access", "private", "secret", "auth", "signing", "sign", "encryption", "encrypt", "account", "storage", "service",
	"license", "master", "deploy", "ssh", "shared", "sharedaccess", "subscription", "consumer", "session", "hmac", "jwt",
	"webhook", "admin", "root", "app", "application", "client", "crypto", "cipher", "aes", "rsa", "tls", "ssl", "security", "user",
}

// further are the words that may follow in a name without changing what it is.
var further = map[string]bool{
	"": true, "base": true, "prod": true, "production": true, "dev": true, "staging": true, "test": true, "live": true,
	"root": true, "admin": true, "ro": true, "rw": true, "old": true, "new": true, "value": true, "b64": true, "base64": true,
	"default": true, "main": true, "backup": true, "primary": true, "secondary": true, "plain": true, "plaintext": true, "string": true,
}

// classOf tells what a whole name says of its value, however it is written:
// dbPassword, DB_PASSWORD and db-password are the same.
func classOf(name string) class {
	words := splitName(name)
	for len(words) > 1 && (further[words[len(words)-1]] || isDigits(words[len(words)-1])) {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return noSecret
	}
	last := strings.TrimRight(words[len(words)-1], "0123456789")
	before := ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch {
	case last == "pwd" && len(words) == 1 && isEnv(name), last == "oldpwd":
		return noSecret // a directory
	case hasSuffix(last, "password", "passwd", "passphrase", "passcode", "pwd"), last == "pass" && len(words) > 1:
		return password
	case last == "pass":
		return key
	case hasSuffix(last, "secret", "credential", "credentials"):
		return secret
	case hasSuffix(last, "token"):
		if before == "next" || before == "page" || before == "continuation" || before == "sync" {
			return noSecret // of pages, not of doors
		}
		return key
	case last == "key":
		for _, w := range keyOf {
			if before == w {
				return key
			}
		}
	case strings.HasSuffix(last, "key"):
		for _, w := range keyOf {
			if strings.HasSuffix(last, w+"key") {
				return key
			}
		}
	}
	return noSecret
}

func hasSuffix(s string, suffixes ...string) bool {
	for _, x := range suffixes {
		if strings.HasSuffix(s, x) {
			return true
		}
	}
	return false
}

// splitName cuts a name into lower-case words.
func splitName(name string) []string {
	var words []string
	start := 0
	cut := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(name[start:end]))
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-' || c == '.':
			cut(i)
			start = i + 1
		case isUpper(c) && i > start && !isUpper(name[i-1]):
			cut(i)
			start = i
		}
	}
	cut(len(name))
	return words
}

// How a value is written decides how much it must look like a secret.
type writing int

const (
	quoted writing = iota
	bare           // in code it could be a variable
	env            // NAME=value of a shell or an .env file, a flag, a header: never a variable
)

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
		if tag || flag || isEnv(a.name) && t[i] == '=' && !a.spaced || isHeader(a.name) && t[i] == ':' && !a.quoted {
			a.how = env
		}
		i = skipSpaces(t, i+sep)
	case flag && a.spaced:
		a.how = env
	default:
		return false
	}
	a.listed = sep == 1 && strings.HasSuffix(strings.TrimRight(t[:i], " \t"), ",")
	return a.value(i)
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
	if placeholder(v) || words[lower] || len(v) < 3 || strings.HasPrefix(v, `\u`) || strings.HasPrefix(v, `\x`) {
		return false
	}
	letters, digits, marks, spaces, upper := 0, 0, 0, 0, 0
	for i := range len(v) {
		switch b := v[i]; {
		case isLetter(b):
			letters++
			if isUpper(b) {
				upper++
			}
		case '0' <= b && b <= '9':
			digits++
		case b == '_' || b == '-' || b == '.':
		case b == ' ' || b == '\t':
			spaces++
		default:
			marks++
		}
	}
	plain := digits == 0 && marks == 0 // letters, and what joins them to names
	if spaces > 0 {
		return how == env && c == password && spaces < 4
	}
	if hasSuffix(lower, ".pem", ".json", ".crt", ".txt", ".yml", ".yaml", ".key") {
		return false
	}
	switch {
	case how == env && c == password:
		return true
	case how == env:
		return len(v) >= 6 && letters > 0 && !(plain && strings.ContainsAny(v, "."))
	case how == quoted && c == password:
		return !(plain && (upper > 0 && upper < len(v) || strings.ContainsAny(v, "_-.") || len(v) < 5)) && !(letters == 0 && digits == 0)
	case how == quoted && c == secret && plain:
		return letters == len(v) && upper == 0 && len(v) >= 10 || isKey(v, letters, digits)
	case how == quoted:
		return len(v) >= 6 && letters > 0 && !strings.ContainsAny(v, "/(") && digits > 0 || isKey(v, letters, digits)
	case c == password: // bare
		return !plain && len(v) >= 6 && letters > 0 && !isExpression(v)
	}
	return len(v) >= 12 && digits > 0 && letters > 0 && entropy(v) >= 3.2 && !isExpression(v)
}

// isKey tells whether a value is long and mixed enough to be nothing but a key.
func isKey(v string, letters, digits int) bool {
	return len(v) >= 20 && letters > 0 && digits > 0 && entropy(v) >= 3.5 && !strings.ContainsAny(v, " ({") ||
		len(v) >= 32 && entropy(v) >= 4 && strings.Trim(v, base64Bytes) == ""
}

// isExpression tells whether a bare value is code: user.password2, x->y, 2*n.
func isExpression(v string) bool {
	if isIdentifier(v) && classOf(v) != noSecret {
		return true // testRSA2048PrivateKey
	}
	lower := strings.ToLower(v)
	for _, p := range []string{"pass", "pwd", "self", "this", "cfg", "conf", "user", "req", "args", "opts", "data", "token", "secret", "key", "get", "http", "./", "/", "~/", "lambda"} {
		if strings.HasPrefix(lower, p) {
			return true
		}
	}
	if strings.Contains(v, "->") || strings.Contains(v, "::") || strings.Contains(v, "//") {
		return true
	}
	if dot := strings.IndexByte(v, '.'); dot > 0 && isIdentifier(v[:dot]) && isIdentifier(v[dot+1:]) {
		return true
	}
	return false
}

// placeholder tells whether a value only stands for a secret.
func placeholder(s string) bool {
	if s == "" || isMark(s) || strings.Count(s, s[:1]) == len(s) { // xxxx
		return true
	}
	switch s[0] {
	case '<', '{', '(':
		return true
	case '$', '%', '*', '&', '@': // no variable has digits and marks in it
		return len(s) < 8 || !strings.ContainsAny(s[1:], "0123456789") || !strings.ContainsAny(s[1:], "!@#^&*+~?") || strings.ContainsAny(s, "{}()<>")
	}
	lower := strings.ToLower(s)
	for _, p := range []string{"your", "xxx", "...", "example", "changeme", "placeholder", "dummy"} {
		if strings.HasPrefix(lower, p) {
			return true
		}
	}
	return false
}

// isEnv tells whether a name is one of the environment's.
func isEnv(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && !isUpper(c) && (c < '0' || '9' < c) {
			return false
		}
	}
	return true
}

// isHeader tells whether a name is one of HTTP's own sort.
func isHeader(name string) bool {
	return len(name) > 2 && (name[0] == 'x' || name[0] == 'X') && name[1] == '-'
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
