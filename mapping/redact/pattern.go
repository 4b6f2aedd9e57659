package redact

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// defaultReach is how far from its word a pattern looks for a match. If a match ends
// there, the pattern looks further.
const defaultReach = 512

// A search is a compiled pattern.
type search struct {
	pattern
	re    *regexp.Regexp
	reach int
	// Matches begin with the word, at a word boundary if boundary is set. This
	// saves a look at most words: "s." is in every other line of code, but seldom
	// at a word boundary.
	anchored, boundary bool
	assigned           bool // a word is followed by an operator
	looks              func(secret string) bool
}

// looks are the tests that a group of a pattern may be named after.
var looks = map[string]func(string) bool{
	"strong":    func(v string) bool { return isStrong(strings.TrimRight(v, "=")) || isAppPassword(v) },
	"random":    isRandom,
	"generated": isGenerated,
	"argument":  func(v string) bool { return isArgument(v) && hasMarks(v) },
	"given": func(v string) bool { // as a secret, by a command: neither a variable nor a placeholder
		return !strings.ContainsAny(v[:1], "$<{(%") && !placeholder(v) && !is("plain", v)
	},
	"digits": func(v string) bool { return strings.ContainsAny(v, digits) },
	"credentials": func(v string) bool { // of a header, after the scheme; neither prose nor a parameter's name
		return len(v) >= 4 && strings.IndexByte("+.", v[0]) < 0 && !strings.HasSuffix(v, "...") && !is("plain", v) &&
			(!strings.Contains(v, " ") || strings.Contains(v, "=")) && (len(v) >= 12 || !isIdentifier(strings.TrimSuffix(v, "=")) || v[len(v)-1] != '=')
	},
	"cookie": func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		value, _, _ = strings.Cut(value, ";")
		if hasRun(v) && !strings.ContainsAny(v, "(){}$") {
			return true
		}
		return len(value) >= 4 && !placeholder(value) && (!strings.ContainsAny(name, " (.{}$<") || name == "connect.sid") && // Express's
			!strings.ContainsAny(strings.TrimPrefix(value, "s:"), "(){}[]?:,!<>&|=") // code
	},
	"userinfo": func(v string) bool {
		user, pass, ok := strings.Cut(v, ":")
		if !ok { // a token instead of a user
			return len(user) >= 16 && strings.ContainsAny(user, digits) && !strings.Contains(user, ".")
		}
		return pass != "" && !placeholder(pass) && !isMark(v) &&
			(!oneOf(user, "user", "username", "login", "name", "redacted", "[user") || !oneOf(pass, "password", "passwd", "passwd]", "redacted"))
	},
}

// Most of gitleaks' patterns are a vendor's name, an operator and a value. What
// may come before the name is dropped from the pattern: it costs a lot and does
// not change the value.
const (
	beforeName = `[\w.-]{0,50}?`
	operator   = `(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)`
)

// accepts reports whether a match may begin at a hit.
func (s *search) accepts(text string, h place) bool {
	return !s.anchored || !s.boundary || h.start == 0 || !isWordByte(text[h.start-1])
}

// rule compiles the pattern when a text first has one of its words. Most are
// never needed.
func (p pattern) rule() rule {
	ready := sync.OnceValue(func() *search { return newSearch(p) })
	accepts := func(text string, h place) bool {
		word := text[h.start:h.end]
		return (slices.Contains(p.Keywords, word) || slices.Contains(p.Keywords, strings.ToLower(word))) && ready().accepts(text, h)
	}
	var keywords []string
	for _, k := range p.Keywords {
		keywords = append(keywords, strings.ToLower(k))
	}
	return rule{name: p.ID, keywords: keywords, accepts: accepts, find: func(v *view, hits []place, found func(start, end int)) {
		s, text := ready(), v.text
		done := 0 // where the last secret ends
		if !s.anchored {
			for _, w := range windows(hits, s.reach, len(text)) {
				done = max(done, s.in(text, place{max(w.start, done), max(w.end, done)}, found))
			}
			return
		}
		for _, h := range hits {
			if h.start >= done {
				done = max(done, s.in(text, place{h.start, min(len(text), h.start+s.reach)}, found))
			}
		}
	}}
}

func newSearch(p pattern) *search {
	s := &search{pattern: p, reach: cmp.Or(p.Within, defaultReach), looks: func(string) bool { return true }}
	expr := p.Regex
	if strings.Contains(expr, operator) {
		expr = strings.Replace(expr, beforeName, "", 1)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic(err) // the patterns are ours
	}
	s.anchored = true
	for _, prefix := range literalPrefixes(parsed) {
		s.anchored = s.anchored && slices.ContainsFunc(p.Keywords, func(k string) bool {
			return strings.HasPrefix(strings.ToLower(prefix), strings.ToLower(k))
		})
	}
	if s.anchored {
		s.assigned = strings.Contains(expr, operator)
		s.boundary = strings.HasPrefix(strings.TrimLeft(expr, "("), `\b`)
		expr = `\A(?:` + expr + `)`
	}
	s.re = regexp.MustCompile(expr)
	for n, name := range s.re.SubexpNames() {
		if test := looks[name]; test != nil {
			s.Group, s.looks = n, test
		} else if name != "" {
			s.Group = whole // gitleaks names what is in the secret
		}
	}
	return s
}

// in finds the pattern in a piece of text, and returns the end of the last secret. If a
// secret reaches the end of the piece, it searches a larger piece.
func (s *search) in(text string, w place, found func(start, end int)) (done int) {
	for _, m := range s.re.FindAllStringSubmatchIndex(text[w.start:w.end], -1) {
		start, end := group(m, s.Group)
		start, end = w.start+start, w.start+end
		if !s.isSecret(text, start, end) {
			continue
		}
		if w.start+m[1] == w.end && w.end < len(text) {
			return s.in(text, place{max(w.start, done), min(len(text), w.end+w.end-w.start)}, found)
		}
		done = wordEnd(text, end)
		found(start, done)
	}
	return done
}

// isSecret reports whether what the pattern matches passes its tests.
func (s *search) isSecret(text string, start, end int) bool {
	secret := text[start:end]
	switch {
	case start > 1 && text[start-1] == '+' && isWordByte(text[start-2]): // base64 goes on
		return false
	case s.assigned && !strings.ContainsAny(secret, digits) && isMixedWords(secret):
		return false
	case s.ID == "vault-service-token" && !strings.ContainsAny(secret, digits): // s.bypassDocumentValidation
		return false
	}
	return entropy(secret) >= s.Entropy && !placeholder(secret) && s.looks(secret)
}

// wordEnd returns the end of the word that i is in: a key that is longer than its rule
// expects must be redacted whole.
func wordEnd(text string, i int) int {
	for 0 < i && i < len(text) && isWordByte(text[i-1]) && (isWordByte(text[i]) || text[i] == '-') {
		i++
	}
	return i
}

// literalPrefixes returns the literals that matches begin with, one for each alternative;
// an empty one if the literal is unknown.
func literalPrefixes(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCapture:
		return literalPrefixes(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if sub.Op != syntax.OpWordBoundary && sub.Op != syntax.OpEmptyMatch {
				return literalPrefixes(sub)
			}
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			all = append(all, literalPrefixes(sub)...)
		}
		return all
	}
	return []string{""}
}

// windows returns the pieces of a text within reach of the words.
func windows(hits []place, reach, length int) []place {
	var ws []place
	for _, h := range hits {
		w := place{max(0, h.end-reach-8), min(length, h.start+reach+8)}
		if n := len(ws); n > 0 && w.start <= ws[n-1].end {
			ws[n-1].end = max(ws[n-1].end, w.end)
			continue
		}
		ws = append(ws, w)
	}
	return ws
}
