package redact

import "strings"

// Names of the rules that are not gitleaks'.
const (
	ruleAssignment    = "assignment"
	ruleAuthorization = "authorization"
	ruleCookie        = "cookie"
	rulePrivateKey    = "private-key"
	ruleURL           = "url-credentials"
)

// assignmentWords are the words that the names of secrets contain.
var assignmentWords = []string{
	"password", "passwd", "passphrase", "passcode", "pwd", "pass", "secret", "token", "key", "credential", "_pw", "psk", "mnemonic",
	"seed_phrase", "_salt", "masterauth",
}

const (
	maxName  = 64
	maxValue = 2 << 10
)

// A field is the name of a secret in a text, for which a reader looks up the
// value.
type field struct {
	v          *view
	text       string
	name       string
	start, end int // of the name
	after      int // the end of the name with the quotes and brackets around it
	class      class
	many       bool // the name is a plural
	quoted     bool
	found      func(start, end int)
	*progress
}

// A progress is shared by the fields of a text, so that no piece of the text is
// read again and again.
type progress struct {
	known  map[string]kind // names that were classified
	listed int             // where the last list that was looked at ends
	plural bool            // the name of that list is a plural
	run    place           // the last value without quotes
	tries  int             // how many names there were in it
}

// A kind is what a name says about its value.
type kind struct {
	class  class
	plural bool
}

// readers read the ways in which a name and its value are written down. Each
// returns how far it read, 0 if the text is written in another way.
var readers = []func(*field) int{
	(*field).block, (*field).list, (*field).assigned, (*field).element, (*field).fallback, (*field).called, (*field).directive, (*field).apart,
	(*field).cell, (*field).told,
}

// assignments finds the values of names such as password.
func assignments(v *view, hits []place, found func(start, end int)) {
	done := 0
	progress := progress{}
	const few = 4 // names, which are classified faster than remembered
	if len(hits) > few {
		progress.known = map[string]kind{}
	}
	for _, h := range hits {
		if h.start < done {
			continue
		}
		f := field{v: v, text: v.text, found: found, progress: &progress}
		ok := f.read(h)
		if done = f.end; !ok {
			continue
		}
		for _, reader := range readers {
			if end := reader(&f); end > 0 {
				done = max(done, end)
				break
			}
		}
	}
}

// read reads the name around a word.
func (f *field) read(h place) bool {
	t := f.text
	f.start, f.end = h.start, h.end
	for f.start > 0 && h.start-f.start < maxName && isNameByte(t[f.start-1]) {
		f.start--
	}
	for f.end < len(t) && f.end-h.end < maxName && isNameByte(t[f.end]) {
		f.end++
	}
	for f.end > h.end && (t[f.end-1] == '.' || t[f.end-1] == '-') {
		f.end--
	}
	if f.name = t[f.start:f.end]; f.end < len(t) && isNameByte(t[f.end]) && f.end-h.end == maxName || h.start-f.start == maxName {
		return false // no name is that long
	}
	k, ok := f.known[f.name]
	if !ok {
		k.class, k.plural = classify(f.name)
		if f.known != nil {
			f.known[f.name] = k
		}
	}
	if f.class, f.many = k.class, k.plural; f.class == noSecret && !f.widen() && !f.connection() {
		return false
	}
	i := f.end
	for i < len(t) && isQuote(t[i]) && i-f.end < 3 {
		i++
		f.quoted = true
	}
	if i < len(t) && t[i] == ']' { // env["TOKEN"] = ..
		i++
	}
	f.after = i
	return true
}

// spokenKeys are the words that make the word key after them and a space a
// secret one. RSA is none: gpg prints fingerprints after it.
var spokenKeys = []string{"api", "access", "secret", "private", "signing", "encryption", "master", "license", "account", "storage", "service", "shared", "auth", "unseal", "recovery"}

// widen makes the word before a key part of its name: API key.
func (f *field) widen() bool {
	if f.start < 3 || f.text[f.start-1] != ' ' || !isLetter(f.text[f.start-2]) || !strings.EqualFold(f.name, "key") && !strings.EqualFold(f.name, "keys") {
		return false
	}
	from := f.start - 1
	for from > 0 && f.start-from < 16 && isLetter(f.text[from-1]) {
		from--
	}
	if !oneOf(f.text[from:f.start-1], spokenKeys) {
		return false
	}
	f.class, f.many = key, strings.HasSuffix(f.name, "s")
	f.start = from
	if i := f.end + 1; i+1 < len(f.text) && f.text[f.end] == ' ' && isDigit(f.text[i]) && f.text[i+1] == ':' { // Unseal Key 1: ..
		f.end = i + 1
	}
	return true
}

// connection reports whether the name is the password in a connection string:
// UID=sa;PWD=..
func (f *field) connection() bool {
	if strings.EqualFold(f.name, "pwd") && f.before() == ';' {
		f.class = password
		return true
	}
	return false
}

// An assignment is a value, and how it is written.
type assignment struct {
	*field
	how        writing
	spaced     bool // there is a space before the separator
	listed     bool // the separator is a comma
	alone      bool // the name begins its line
	sep        int  // where the separator is, -1 if there is none
	start, end int  // of the value
}

// assigned reads name = value in the languages that people and agents write.
func (f *field) assigned() int {
	a := assignment{field: f, sep: -1}
	if f.many && f.class != secret || !a.read() || !a.secret() {
		return 0
	}
	f.found(a.start, a.end)
	if a.how == quoted && a.end < len(f.text) { // terraform plan: "old" -> "new"
		if rest, ok := strings.CutPrefix(f.text[a.end+1:], " -> "); ok {
			if start, end, ok := f.literal(len(f.text) - len(rest)); ok && end > start {
				f.found(start, end)
				return end
			}
		}
	}
	return a.end
}

func (a *assignment) read() bool {
	t := a.text
	i := skipSpaces(t, a.after)
	a.spaced = i > a.after
	flag := strings.HasPrefix(a.name, "-") && isFlag(a.name)
	sep := separator(t[i:], a.quoted)
	switch {
	case sep > 0:
		if t[i] == '>' {
			return false
		}
		if strings.EqualFold(a.name, "pass") && t[i] != '=' && !a.isPass(i+sep) || a.field.start > 1 && t[a.field.start-2:a.field.start] == "::" {
			return false // a test that passed, a type
		}
		a.how = bare
		switch before := a.before(); {
		case before == '?' && strings.HasSuffix(t[:a.field.start], "badge.svg?"): // a public one, as in many READMEs
			return false
		case t[i] == ':' && sep == 1 && a.isColumn() && !a.quoted: // name:password:gid:users
			return false
		case before == '?' || before == '&', before == ';' && a.inConnection(): // of a URL, a connection string
			a.how = conf
		case (before == 0 || before == '\n') && !a.spaced:
			a.alone = true
		}
		if flag || isEnv(a.name) && t[i] == '=' && sep == 1 && !a.spaced || isHeader(a.name) && t[i] == ':' && !a.quoted {
			a.how = env
		}
		a.sep = i
		a.listed = sep == 1 && t[i] == ','
		i = skipSpaces(t, i+sep)
		if a.listed {
			i = skipAll(t, i)
		}
		if t[a.sep] == '=' && sep == 2 {
			i = dumped(t, i)
		}
	case flag && a.spaced:
		a.how = env
	default:
		return false
	}
	return a.value(i)
}

// dumped skips what PHP's var_dump prints before a string: string(9) "..".
func dumped(t string, i int) int {
	from := skipAll(t, i)
	rest, ok := strings.CutPrefix(t[from:], "string")
	if !ok {
		return i
	}
	rest = strings.TrimLeft(rest, "(0123456789)")
	if strings.HasPrefix(rest, ` "`) || strings.HasPrefix(rest, ` '`) {
		return len(t) - len(rest) + 1
	}
	return i
}

// isPass reports whether a quoted password follows the word pass, which also is
// what tests do: auth: { user: "bob", pass: ".." }.
func (a *assignment) isPass(i int) bool {
	start, end, ok := a.literal(skipSpaces(a.text, i))
	if ok && isStrong(a.text[start:end]) {
		a.class = password
		return true
	}
	return false
}

// isFlag reports whether a name is an option: --db-password or -password.
func isFlag(name string) bool {
	name = strings.TrimLeft(name, "-")
	return name != "" && isLetter(name[0])
}

// before returns the byte before the name, ignoring spaces, dashes and export; 0
// if there is none.
func (f *field) before() byte {
	lead := strings.TrimRight(f.text[max(0, f.start-16):f.start], " \t-")
	lead = strings.TrimSuffix(lead, "export")
	lead = strings.TrimRight(lead, " \t")
	if lead == "" {
		return 0
	}
	return lead[len(lead)-1]
}

// value reads the value that begins at i.
func (a *assignment) value(i int) bool {
	t := a.text
	for n := 0; i < len(t) && n < 2 && (t[i] == 'b' || t[i] == 'f' || t[i] == 'r' || t[i] == '@' || t[i] == '$') && i+1 < len(t) && isQuote(t[i+1]); n++ {
		i++ // b"..", f"..", @"..", $'..'
	}
	i += typePrefix(t[i:])
	if i < len(t) && isQuote(t[i]) && a.field.start > 0 && t[a.field.start-1] == t[i] && !a.quoted && a.v.width(i) <= a.v.width(a.field.start-1) {
		return false // "NAME=" + value, and not "NAME=\"value\""
	}
	if start, end, ok := a.literal(i); ok {
		if a.how != env {
			a.how = quoted
		}
		a.start, a.end = start, end
		return end > start
	}
	if a.listed || a.sep >= 0 && (t[a.sep] == '+' || t[a.sep] == '.') { // names, or the rest of a string
		return false
	}
	if i >= a.run.end {
		a.run, a.tries = place{i, a.bareEnd(i)}, 0
	}
	const mostTries = 4
	if a.tries++; a.tries > mostTries {
		return false
	}
	a.start, a.end = i, a.bareEnd(i)
	if a.alone && a.how == bare && (a.end == len(t) || t[a.end] == '\n' || t[a.end] == '\r') {
		a.how = conf
	}
	if a.how == bare && a.end > i { // password: str = "..."
		k := skipSpaces(t, a.end)
		if k < len(t) && k > a.end && t[k] == '=' && isIdentifier(t[i:a.end]) {
			if n := separator(t[k:], false); n > 0 {
				a.sep = k
				return a.value(skipSpaces(t, k+n))
			}
		}
	}
	return a.end > i
}

// isColumn reports whether the name is in a line of names with colons between them.
func (a *assignment) isColumn() bool {
	from := a.field.start
	return from > 1 && a.text[from-1] == ':' && isWordByte(a.text[from-2])
}

// connectionNames come before a password in a connection string.
var connectionNames = []string{"user id=", "username=", "userid=", "uid=", "user=", "server=", "host=", "data source=", "database="}

// inConnection reports whether the name is in a connection string.
func (a *assignment) inConnection() bool {
	const reach = 128
	before := strings.ToLower(a.text[max(0, a.field.start-reach):a.field.start])
	return containsAny(before[strings.LastIndexByte(before, '\n')+1:], connectionNames...)
}

// bareEnd returns the end of the unquoted value that begins at i.
func (a *assignment) bareEnd(i int) int {
	t := a.text
	stops := " \t\r\n\"'`,;()<>{}[]|&"
	if a.how == env {
		stops = " \t\r\n\"'`<>"
	}
	limit := min(len(t), i+maxValue)
	decoded := len(a.v.escapes) > 0
	for j := i; ; j++ {
		n := strings.IndexAny(t[j:limit], stops)
		if n < 0 {
			return limit
		}
		j += n
		if !decoded || !a.v.percent(j) || a.sep >= 0 && a.v.percent(a.sep) {
			return j
		}
	}
}

func (a *assignment) secret() bool {
	v := a.text[a.start:a.end]
	if a.listed && (!isQuote(a.text[max(0, a.field.start-1)]) && !isFlag(a.name) || isEnv(v) || !a.stands(v) && (!isEnv(a.name) || !a.class.secret(v, quoted))) {
		return false // of names, more likely than a value to one
	}
	if (a.sep < 0 || isFlag(a.name) && a.name[0] == '-' && !strings.HasPrefix(a.name, "--")) && !strings.ContainsAny(v, "0123456789!@#%^*+~?/") {
		return false // --password string, as in a usage text
	}
	if a.how == bare {
		if a.end < len(a.text) && strings.IndexByte("([{", a.text[a.end]) >= 0 {
			return false // a call, an element
		}
		if a.spaced && a.class != password && len(v) < 16 {
			return false
		}
	}
	// wpa_supplicant.conf(5) quotes a pass phrase of 8 to 63 characters.
	if a.how == quoted && strings.EqualFold(a.name, "psk") && a.sep >= 0 && a.text[a.sep] == '=' && len(v) >= 8 && !placeholder(v) {
		return true
	}
	return a.class.secret(v, a.how) && !strings.EqualFold(v, a.name)
}
