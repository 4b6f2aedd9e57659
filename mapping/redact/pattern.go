package redact

import (
	"math"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// A pattern is a regular expression and the words one of which is in every match.
type pattern struct {
	ID       string
	Regex    string
	Group    int
	Entropy  float64
	Keywords []string
}

// reachFurther is how far from its word a pattern without a maximum length looks
// for a match. If a match ends there, the pattern looks further.
const reachFurther = 512

// A search is a compiled pattern.
type search struct {
	pattern
	re    *regexp.Regexp
	reach int
	// Matches begin with the word, at a word boundary if boundary is set. This
	// saves a look at most words: "s." is in every other line of code, but seldom
	// at a word boundary.
	anchored, boundary bool
	leads              []string // what they begin with, if anchored
	folded             bool     // in any case
	assigned           bool     // a word is followed by an operator
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
	if s.anchored && s.boundary && h.start > 0 && isWordByte(text[h.start-1]) {
		return false
	}
	if s.anchored && !s.folded && !hasPrefix(text[h.start:], s.leads...) {
		return false
	}
	return !s.assigned || isOperator(text, h.end)
}

// isOperator reports whether the rest of a name, an operator and a value of some
// length follow at i.
func isOperator(text string, i int) bool {
	const longest = 64 // of the rest of a name, and what may come between
	end := min(len(text), i+longest)
	for i < end && (isNameByte(text[i]) || strings.IndexByte(" \t\r\n'\"", text[i]) >= 0) {
		i++
	}
	if i == end || strings.IndexByte("=>:|?,", text[i]) < 0 {
		return false
	}
	for end = min(len(text), i+12); i < end && strings.IndexByte("=>:|?,`'\" \t\r\n", text[i]) >= 0; i++ {
	}
	const shortest = 10
	end = min(len(text), i+shortest)
	for i < end && (isNameByte(text[i]) || strings.IndexByte("=/+:", text[i]) >= 0) {
		i++
	}
	return i == end
}

// rule compiles the pattern when a text first has one of its words. Most are
// never needed.
func (p pattern) rule() rule {
	ready := sync.OnceValue(func() *search { return newSearch(p) })
	accepts := func(text string, h place) bool { return ready().accepts(text, h) }
	return rule{name: p.ID, keywords: p.Keywords, accepts: accepts, find: func(v *view, hits []place, found func(start, end int)) {
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
	s := &search{pattern: p, reach: reachFurther}
	expr := p.Regex
	if strings.Contains(expr, operator) {
		expr = strings.Replace(expr, beforeName, "", 1)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic(err) // the patterns are ours
	}
	if n := longest(parsed); n >= 0 && n < 8*reachFurther {
		s.reach = max(reachFurther, n)
	}
	s.anchored = true
	for _, lead := range leads(parsed) {
		begins := false
		for _, k := range p.Keywords {
			begins = begins || strings.HasPrefix(strings.ToLower(lead), k)
		}
		s.leads = append(s.leads, lead)
		s.anchored = s.anchored && begins
	}
	if s.anchored {
		s.folded = strings.Contains(expr, "(?i")
		s.assigned = strings.Contains(expr, operator)
		s.boundary = strings.HasPrefix(strings.TrimLeft(expr, "("), `\b`)
		expr = `\A(?:` + expr + `)`
	}
	s.re = regexp.MustCompile(expr)
	if strings.Contains(expr, "(?P<") {
		s.Group = whole // they name what is in the secret
	}
	return s
}

// in finds the pattern in a piece of text, or beyond if a match ends with it, and
// returns the end of the last secret.
func (s *search) in(text string, w place, found func(start, end int)) (done int) {
	matches := s.re.FindAllStringSubmatchIndex(text[w.start:w.end], -1)
	if n := len(matches); n > 0 && w.end < len(text) && w.start+matches[n-1][1] == w.end {
		return s.in(text, place{w.start, min(len(text), w.end+w.end-w.start)}, found)
	}
	for _, m := range matches {
		start, end := group(m, s.Group)
		secret := text[w.start+start : w.start+end]
		if inBase64(text, w.start+start) || s.assigned && !strings.ContainsAny(secret, digits) && isMixedWords(secret) {
			continue
		}
		if s.ID == "vault-service-token" && !strings.ContainsAny(secret, digits) {
			continue // s.bypassDocumentValidation
		}
		if entropy(secret) >= s.Entropy && !placeholder(secret) {
			done = wordEnd(text, w.start+end)
			found(w.start+start, done)
		}
	}
	return done
}

// inBase64 reports whether what begins at i is a piece of a longer text in base64.
func inBase64(t string, i int) bool { return i > 1 && t[i-1] == '+' && isWordByte(t[i-2]) }

// wordEnd returns the end of the word that i is in. Nothing may be left of a key
// that is longer than its rule expects.
func wordEnd(text string, i int) int {
	for 0 < i && i < len(text) && isWordByte(text[i-1]) && (isWordByte(text[i]) || text[i] == '-') {
		i++
	}
	return i
}

// leads returns the literals that matches begin with, one for each alternative;
// an empty one if it is not known.
func leads(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCapture:
		return leads(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if sub.Op != syntax.OpWordBoundary && sub.Op != syntax.OpEmptyMatch {
				return leads(sub)
			}
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			all = append(all, leads(sub)...)
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

// longest returns the maximum length of a match in bytes, -1 if there is none.
func longest(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return 4 * len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		if n := len(re.Rune); re.Op == syntax.OpCharClass && n > 0 && re.Rune[n-1] < 0x80 {
			return 1
		}
		return 4
	case syntax.OpCapture, syntax.OpQuest:
		return longest(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return -1
	case syntax.OpRepeat:
		n := longest(re.Sub[0])
		if re.Max < 0 || n < 0 {
			return -1
		}
		return n * re.Max
	case syntax.OpConcat, syntax.OpAlternate:
		sum, most := 0, 0
		for _, sub := range re.Sub {
			n := longest(sub)
			if n < 0 {
				return -1
			}
			sum += n
			most = max(most, n)
		}
		if re.Op == syntax.OpConcat {
			return sum
		}
		return most
	}
	return 0 // an assertion
}

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
