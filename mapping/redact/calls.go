package redact

import "strings"

const ruleCall = "call-argument"

// A call is a function one of whose arguments is a secret.
type call struct {
	name     string // in lower case, with what follows it
	argument int    // counted from 1
}

var secretCalls = []call{
	{"auth=(", 2},
	{"basicauth(", 2},
	{"basic_auth(", 2},
	{".auth(", 2},
	{"networkcredential(", 2},
	{"pscredential(", 2},
	{"passwordcredential(", 1},
	{"mysqli_connect(", 3},
	{"new pdo(", 3},
	{"new mysqli(", 3},
	{".getconnection(", 3},
	{"jwt.sign(", 2},
	{"jwt.encode(", 2},
	{"hmac.new(", 1},
	{"createhmac(", 2},
	{".login(", 2},
	{"usernamepasswordauthenticationtoken(", 2},
	{"passwordauthentication(", 2},
	{"plainauth(", 3},
	{"credentials(", 2},
	{"fernet(", 1}, // cryptography.io/en/latest/fernet
}

func callWords() []string {
	words := []string{"securestring"}
	for _, c := range secretCalls {
		words = append(words, c.name)
	}
	return words
}

// calls finds the secret arguments of functions such as login("bob", "..").
func calls(v *view, hits []place, found func(start, end int)) {
	f := field{v: v, text: v.text, class: password}
	for _, h := range hits {
		name := strings.ToLower(v.text[h.start:h.end])
		if name == "securestring" {
			secureString(&f, h.end, found)
			continue
		}
		for _, c := range secretCalls {
			if c.name != name {
				continue
			}
			if start, end, ok := f.argument(h.end, c.argument); ok {
				found(start, end)
			}
		}
	}
}

// argument returns the nth argument of a call, if it is a literal that looks like
// a secret.
func (f *field) argument(i, n int) (start, end int, ok bool) {
	t := f.text
	limit := min(len(t), i+within)
	for n--; n > 0 && i < limit; i++ {
		switch c := t[i]; {
		case isQuote(c):
			_, end, _ := f.literal(i)
			i = end
		case c == ',':
			n--
		case c == '(' || c == ')' || c == ';' || c == '\n':
			return 0, 0, false
		}
	}
	if n > 0 {
		return 0, 0, false
	}
	i = skipSpaces(t, i)
	if i+1 < len(t) && t[i] == 'b' && isQuote(t[i+1]) {
		i++
	}
	if start, end, ok = f.literal(min(i, len(t))); !ok || end+1 >= len(t) || strings.IndexByte("),.", t[end+1]) < 0 {
		return 0, 0, false
	}
	v := t[start:end]
	return start, end, isStrong(strings.TrimRight(v, "=")) || isAppPassword(v)
}

// secureString finds the plain text of a PowerShell secure string.
func secureString(f *field, i int, found func(start, end int)) {
	t := f.text
	line := t[i:min(len(t), i+within)]
	if n := strings.IndexByte(line, '\n'); n >= 0 {
		line = line[:n]
	}
	if !strings.Contains(strings.ToLower(line), "-asplaintext") {
		return
	}
	n := strings.IndexAny(line, `"'`)
	if n < 0 {
		return
	}
	if start, end, ok := f.literal(i + n); ok && f.class.secret(t[start:end], env) {
		found(start, end)
	}
}
