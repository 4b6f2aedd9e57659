package redact

import "strings"

// A way is one of the ways in which people write a name and its value.
type way struct {
	example string
	first   string     // the bytes that the separator may begin with; any if there are none
	before  expression // what comes before the name in its line; nil if it does not matter
	between expression // what comes between name and value; its first group is the separator
	stops   string     // the bytes that end a value without quotes; none if it must be in quotes
	secret  func(f *field, v *value, sep place) bool

	// read finds the secrets of what is more than a name and a value, such as a list,
	// and returns how far it read.
	read func(f *field) int
}

// ways are tried in this order: a value that is no secret in one of them may be one in
// another.
var ways = []way{
	{example: "password: |\n  SECRET", first: ":", read: (*field).block},
	{example: `passwords = ["SECRET"]`, first: `|?+.:=<`, read: (*field).list},
	{example: `password: str = "SECRET"`, first: `:`, between: expr(closing + `[ \t]*:[ \t]*(?:&(?:'static |mut )?)?[\w.]+[ \t]+(=)[ \t]*`), stops: valueStops, secret: (*field).assigned},
	{example: `["password"]=> string(6) "SECRET"`, first: `=`, between: expr(closing + `[ \t]*(=>)\s*string(?:\(\d+\))? `), secret: (*field).assigned},
	{example: `password = SECRET`, first: `|?+.:=!<`, between: expr(closing + `[ \t]*` + separator + `[ \t]*`), stops: valueStops, secret: (*field).assigned},
	{example: `password → SECRET`, first: ":-\xe2", between: expr(closing + `[ \t]*:?[ \t]*(-{1,2}>|→|⇒|➜)[ \t]*`), stops: valueStops, secret: (*field).looksSecret},
	{example: `setenv("PASSWORD", "SECRET")`, first: `,`, between: expr("\\A[\"'`]{1,3}[ \\t]*(,)\\s*"), secret: (*field).inArguments},
	{example: "--password SECRET, or in YAML\n- --password\n- SECRET", between: expr(closing + `()(?:[ \t]+|[ \t]*\n[ \t]*- )`), stops: wordStops, secret: (*field).inFlag},
	{example: `<password>SECRET</password>`, before: expr("(?:<(?:\\w+:)?|=[ \t]*[\"'`])$"), between: expr("\\A(?:[\"'`]| [^<>\n]*)?(>)\\s*(?:<!\\[CDATA\\[)?"), stops: "<]\n", secret: (*field).inElement},
	{example: `env.PASSWORD || "SECRET"`, first: `)|?o`, between: expr("\\A(?:[\"'`][\\])]{1,2})?\\)?[ \\t]*(\\|\\||\\?\\?|\\?:|or )[ \\t]*"), secret: (*field).inFallback},
	{example: `setPassword("SECRET")`, first: `(`, between: expr(`\A(\()[ \t]*`), secret: (*field).inCall},
	{example: `ENV PASSWORD SECRET`, between: expr(closing + `()[ \t]+`), stops: wordStops, secret: (*field).inDirective},
	{example: `(setq password "SECRET")`, first: "\"'`@$bfr", between: expr(closing + `()[ \t]+`), secret: (*field).inLisp},
	{example: `{"name": "PASSWORD", "value": "SECRET"}`, read: (*field).pair},
	{example: `Password [None]: SECRET`, between: expr(`\A(?:(?: again)?(?: \([^()\n]{1,40}\)| \[[^\[\]\n]{0,40}\]| for [^:\n]{1,80}?| for '[^'\n]{1,80}')[ \t]*(:)|[ \t]*(?:again)?[:?]?[ \t]*([›❯»?]))[ \t]+`), stops: wordStops, secret: (*field).looksSecret},
	{example: "Your new password:\n\nSECRET", read: (*field).nextLine},
	{example: `| password | SECRET |`, between: expr("\\A((?:[|\\t*`:\\r ]|</?\\w[^<>\\n]{0,24}>\\n?)+)"), stops: wordStops + "|", secret: (*field).inCell},
	{example: "| password |\n| SECRET |", read: (*field).column},
	{example: `the password for bob is SECRET`, between: expr("\\A((?:[ :]?(?:是|为|為)[ :]*)|[\"'`]? (?:(?:\\pL+:?|:) ){0,6})\\**"), stops: wordStops + "()", secret: (*field).inProse},
}

// connection is what comes before a password in a connection string.
var connection = expr(`(?i)(?:user ?id|username|uid|user|server|host|data source|database)=[^\n]*$`)

// assigned is for the assignments of the languages that people and agents write.
func (f *field) assigned(v *value, sep place) bool {
	t, separator := f.text, f.text[sep.start:sep.end]
	spaced := t[sep.start-1] == ' ' || t[sep.start-1] == '\t'
	c := f.class
	switch {
	case f.many && c != secret, hasPrefix(separator, "+", ".") && !v.quoted:
		return false
	case hasSuffix(t[:f.start], "::", "badge.svg?"): // a type, a public token
		return false
	case separator == ":" && !f.quoted && v.start == sep.end && f.start > 1 && t[f.start-1] == ':' && isWordByte(t[f.start-2]): // name:password:gid:users
		return false
	case strings.EqualFold(f.name, "pass") && separator[0] != '=': // pass is also what tests do
		generated := f.name != "PASS" && f.endsLine(v.end) && isIdentifier(v.text) && makeupOf(v.text).upper > 0 && isRandom(v.text)
		if !isStrong(v.text) || !v.quoted && !generated {
			return false
		}
		c = password
	case strings.EqualFold(f.name, "psk") && separator == "=" && v.quoted: // wpa_supplicant.conf(5)
		return len(v.text) >= 8 && !placeholder(v.text)
	}
	how := bare
	switch before := f.before(); {
	case isFlag(f.name), isEnv(f.name) && separator == "=" && !spaced, isHeader(f.name) && separator == ":" && !f.quoted:
		how = env
	case v.quoted:
		how = quoted
	case before == '?', before == '&', before == ';' && connection().MatchString(f.lead()),
		(before == 0 || before == '\n') && !spaced && f.endsLine(v.end):
		how = conf
	}
	if how == env && !v.quoted { // which ends only at the end of a shell word
		*v = f.value(v.start, wordStops, sep)
	}
	switch {
	case isNumber(v.text) && (c == pin || c == password && f.quoted && separator == ":"): // a number in JSON
		return true
	case isFlag(f.name) && f.name[1] != '-' && !hasMarks(v.text): // -password string, in a usage text
		return false
	case how == bare && v.end < len(t) && strings.IndexByte("([{", t[v.end]) >= 0: // a call, an element
		return false
	}
	return c.secret(v.text, how) && !strings.EqualFold(v.text, f.name)
}

// hasMarks reports whether a word has characters that words of a language lack.
func hasMarks(v string) bool { return strings.ContainsAny(v, "0123456789!@#%^*+~?/") }

func (f *field) inArguments(v *value, sep place) bool {
	name := f.start == 0 || isQuote(f.text[f.start-1]) || isFlag(f.name)
	return name && !isEnv(v.text) && (f.looksSecret(v, sep) || isEnv(f.name) && f.class.secret(v.text, quoted))
}

func (f *field) inFlag(v *value, _ place) bool {
	return isFlag(f.name) && (hasMarks(v.text) || isAppPassword(v.text)) && f.class.secret(v.text, env) && !f.many
}

func (f *field) inElement(v *value, _ place) bool {
	return !v.quoted && hasPrefix(f.text[v.end:], "</", "]]") && f.inTag(v)
}

func (f *field) inFallback(v *value, _ place) bool {
	return f.class.secret(v.text, quoted) && strings.ContainsAny(v.text, digits) && !isEnv(v.text)
}

func (f *field) inCall(v *value, _ place) bool {
	if v.end+1 >= len(f.text) || isQuote(f.text[v.end]) && strings.IndexByte("),", f.text[v.end+1]) < 0 {
		return false
	}
	return f.class == password && isStrong(v.text) && !strings.Contains(v.text, ":") || isRandom(v.text) && len(v.text) >= 16 && f.class != random || f.class == random && isGenerated(v.text)
}

// directive is what comes before a name that only a space separates from its value.
var directive = expr(`(?i)(?:\A|[\s"'])(#[ \t]*define|env|arg|setenv|setx|set(?: -\w{1,3})?|config set|config --set|export|username .*|(?:create|modify|add) [\w /-]*user \S+)[ \t]+$|(?:\A|[\n"])[ \t]*set [\w .:/-]{1,100}[ \t]+$`)

func (f *field) inDirective(v *value, sep place) bool {
	return directive().MatchString(f.lead()) && f.looksSecret(v, sep)
}

func (f *field) inLisp(v *value, sep place) bool {
	return v.end+1 < len(f.text) && strings.IndexByte(")]\n;'", f.text[v.end+1]) >= 0 && f.looksSecret(v, sep)
}

// inCell is for the cells of a table and for marked-up text: **Password:** ..
func (f *field) inCell(v *value, sep place) bool {
	between := f.text[sep.start:sep.end]
	if !containsAny(between, "|", "\t", "*", "  ", "</", " <") && strings.LastIndexByte(between, ':') <= 0 {
		return false
	}
	v.end = v.start + len(strings.TrimRight(v.text, "*"))
	v.text = f.text[v.start:v.end]
	if strings.Trim(between, " ") == "" && (strings.TrimSpace(f.line()) != "" || !f.endsLine(v.end+len(f.text[v.end:])-len(strings.TrimLeft(f.text[v.end:], " \t")))) {
		return false
	}
	return f.looksSecret(v, sep)
}

// nextLine reads a line that is nothing but a secret, or a label and a secret, below one
// that names it.
func (f *field) nextLine() int {
	const longest, shortest, longestSecret, mostBlank = 80, 12, 60, 2
	t := f.text
	end := f.end
	if f.class == random || f.class == uuid {
		return 0
	}
	for end < len(t) && end-f.end < longest && !f.v.isBorder(end) {
		if strings.IndexByte("\"'{}()=;<>,", t[end]) >= 0 {
			return 0
		}
		end++
	}
	if end == len(t) || t[end] != '\n' {
		return 0
	}
	from := end
	for from < len(t) && strings.IndexByte("\n\r\t ", t[from]) >= 0 {
		from++
	}
	if strings.Count(t[end:from], "\n") > 1+mostBlank {
		return 0
	}
	to := from
	for to < len(t) && to-from < maxValue && !f.v.isBorder(to) && t[to] != '\r' {
		to++
	}
	if n := strings.LastIndex(t[from:to], ": "); n >= 0 {
		from += n + 2
	}
	v := strings.TrimRight(t[from:to], " \t")
	spaced := strings.Contains(f.line()+t[f.end:end], " ") // a line of base64 has none
	named := f.class == password || strings.HasSuffix(t[f.end:end], ":")
	if len(v) < shortest || len(v) > longestSecret && !spaced || !inGenerated.all(v) {
		return 0
	}
	if found := randomnessOf(v).isMixed() || named && spaced && (isGenerated(v) || isUUID(v)); !found {
		return 0
	}
	f.found(from, from+len(v))
	return from + len(v)
}

// verb is what makes a sentence of a name and a value.
var verb = expr(`\b(?:is|to|was|ist|lautet|est|es)\b|:|是|为|為`)

// statement is a verb that nothing but the password follows.
var statement = expr(`\b(?:is|was|set to|changed to|ist|lautet|est|es) $|:|是|为|為`)

func (f *field) inProse(v *value, sep place) bool {
	if strings.EqualFold(f.name, "pass") || f.start > 0 && f.text[f.start-1] == '/' { // what is passed to whom, /etc/passwd
		return false
	}
	if !v.quoted {
		v.end = v.start + len(strings.TrimRight(v.text, ".,;:*"))
		v.text = f.text[v.start:v.end]
	}
	between := f.text[sep.start:sep.end]
	rest, _, _ := strings.Cut(f.text[v.end:min(len(f.text), v.end+8)], "\n")
	last := f.class == password && between == " " && len(v.text) >= 8 && strings.Trim(rest, " .,;)\r\"'`") == ""
	switch said := verb().MatchString(between); {
	case f.class == random || f.class == uuid:
		return said && f.class.secret(v.text, quoted)
	case len(v.text) >= 20 && isRandom(v.text):
		return true
	case v.quoted && f.class == password && statement().MatchString(between):
		return f.class.secret(v.text, quoted)
	default:
		return (said || last || v.quoted && between == " ") && f.looksSecret(v, sep)
	}
}
