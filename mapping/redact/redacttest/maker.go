package redacttest

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// The alphabets of placeholders.
const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
	alnum  = lower + upper + digits
)

var alphabets = map[string]string{
	"lower": lower, "upper": upper, "digits": digits, "alnum": alnum, "alpha": lower + upper, "word": alnum + "_-",
	"hex": "0123456789abcdef", "base32": upper + "234567", "base36": upper + digits, "base36l": lower + digits,
	"bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}

// A maker generates secrets. Each template has its own, so that adding a line to a
// list does not change the others.
type maker struct{ *rand.Rand }

func makerFor(template string) maker {
	h := fnv.New64a()
	h.Write([]byte(template))
	return maker{rand.New(rand.NewPCG(4, h.Sum64()))}
}

var (
	placeholder = regexp.MustCompile(`\{(!?)([a-z0-9]+)(?::(\w*))?\}|\{=([^{}]*)\}`)
	signs       = strings.NewReplacer("⏎", "\n", "⇥", "\t", "␛", "\x1b")
)

// fill replaces a template's placeholders. {KIND:LENGTH} is a secret of a kind,
// {!KIND:LENGTH} is not secret, and {=TEXT} is a secret as it stands.
func (m maker) fill(kind, template string) Secret {
	s := Secret{Kind: kind, Name: template}
	s.Bare = placeholder.ReplaceAllStringFunc(signs.Replace(template), func(p string) string {
		g := placeholder.FindStringSubmatch(p)
		if g[4] != "" {
			s.Parts = append(s.Parts, g[4])
			return g[4]
		}
		n, _ := strconv.Atoi(g[3])
		text, parts := m.secret(g[2], g[3], n)
		if parts == nil {
			return p // no placeholder
		}
		if g[1] == "" {
			s.Parts = append(s.Parts, parts...)
		}
		return text
	})
	s.Text = "# first line\n" + s.Bare + "\nlast line\n"
	return s
}

// secret returns a secret of a kind and the parts that must not be seen; nil if
// there is no such kind.
func (m maker) secret(kind, argument string, n int) (text string, parts []string) {
	if letters, ok := alphabets[kind]; ok {
		text = m.of(letters, n)
		return text, []string{text}
	}
	switch kind {
	case "pass":
		text = m.password("!#%^*+~?")
	case "pw": // can be percent-encoded without a change
		text = m.password("-._~")
	case "uuid":
		const hex = "0123456789abcdef"
		text = m.of(hex, 8) + "-" + m.of(hex, 4) + "-4" + m.of(hex, 3) + "-a" + m.of(hex, 3) + "-" + m.of(hex, 12)
	case "b64":
		text = base64.StdEncoding.EncodeToString(m.bytes(n))
		return text, []string{strings.TrimRight(text, "=")}
	case "b64url":
		text = base64.RawURLEncoding.EncodeToString(m.bytes(n))
	case "aws":
		text = "AKIA" + m.of(alphabets["base32"], 16)
	case "crypt":
		text = "$6$" + m.of(alnum, 8) + "$" + m.of(alnum, 86)
	case "b64lines":
		parts = m.lines(48 * n)
		return strings.Join(parts, "\n"), parts
	default:
		if !strings.HasPrefix(kind, "pem") {
			return "", nil
		}
		return m.pem(strings.TrimPrefix(kind, "pem"), argument)
	}
	return text, []string{text}
}

func (m maker) of(letters string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[m.IntN(len(letters))]
	}
	b[0], b[n-1] = letters[m.IntN(min(26, len(letters)))], letters[m.IntN(min(26, len(letters)))]
	if letters != upper && letters != lower && letters != lower+upper && n > 4 { // generated keys contain digits
		b[n/2], b[n/3] = digits[m.IntN(8)+2], digits[m.IntN(8)+2]
	}
	return string(b)
}

func (m maker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.IntN(256))
	}
	return b
}

var passwordWords = strings.Fields("lantern falcon hunter velvet rocket marble copper winter harbor pepper saddle walnut dragon meadow silver")

// password returns a password such as people and generators make up.
func (m maker) password(marks string) string {
	word := func() string { return passwordWords[m.IntN(len(passwordWords))] }
	mark := func() string { return marks[m.IntN(len(marks)):][:1] }
	switch m.IntN(4) {
	case 0:
		return word() + strconv.Itoa(10+m.IntN(9000))
	case 1:
		w := word()
		return strings.ToUpper(w[:1]) + w[1:] + mark() + strconv.Itoa(10+m.IntN(90)) + m.of(lower, 2)
	case 2:
		return m.of(alnum, 10+m.IntN(8))
	}
	return word() + "-" + word() + "-" + strconv.Itoa(10+m.IntN(90))
}

func (m maker) lines(n int) []string {
	body := base64.StdEncoding.EncodeToString(m.bytes(n))
	var lines []string
	for len(body) > 64 {
		lines, body = append(lines, body[:64]), body[64:]
	}
	return append(lines, body)
}

// pem returns a private key of a type in a form such as "half", and the lines that
// must not be seen.
func (m maker) pem(form, keyType string) (text string, lines []string) {
	lines = m.lines(300 + m.IntN(800))
	label := strings.TrimSpace(keyType+" PRIVATE") + " KEY"
	first, last := "-----BEGIN "+label+"-----\n", "\n-----END "+label+"-----\n"
	text = first + strings.Join(lines, "\n") + last
	switch form {
	case "line":
		text = `{"k":"` + strings.ReplaceAll(text, "\n", `\n`) + `"}`
	case "half":
		n := len(lines) * 2 / 3
		text, lines = first+strings.Join(lines[:n], "\n"), lines[:n]
	case "tail":
		text, lines = "tail key\n"+strings.Join(lines[4:], "\n")+last, lines[4:]
	case "middle":
		text, lines = strings.Join(lines[2:5], "\n"), lines[2:5]
	case "numbered", "diff":
		var b strings.Builder
		for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
			if form == "diff" {
				b.WriteString("+" + line + "\n")
			} else {
				fmt.Fprintf(&b, "%6d|%s\n", i+1, line)
			}
		}
		text = b.String()
	}
	return text, lines
}
