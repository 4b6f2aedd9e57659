package redact

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// gitleaks' rules, written by .ci/gitleaks.
//
//go:embed gitleaks.json
var gitleaks []byte

// A place is a piece of a text.
type place struct{ start, end int }

// A rule finds secrets of one kind around the words it looks for.
type rule struct {
	name     string
	keywords []string                        // none means everywhere, and in the text as it is written
	accepts  func(text string, h place) bool // whether a hit is worth a look; nil means all are
	find     func(v *view, hits []place, found func(start, end int))
}

// A ruleSet is all rules, ready to find.
type ruleSet struct {
	rules          []rule
	anywhere       []int // the rules without keywords
	matcher        *matcher
	rulesByKeyword [][]int
	bareKeys       bool // is looked for
}

func newRuleSet(rules []rule, off []string) *ruleSet {
	s := &ruleSet{bareKeys: !slices.Contains(off, rulePrivateKey)}
	index := map[string]int{}
	var words []string
	for _, r := range rules {
		if slices.Contains(off, r.name) {
			continue
		}
		n := len(s.rules)
		s.rules = append(s.rules, r)
		if len(r.keywords) == 0 {
			s.anywhere = append(s.anywhere, n)
		}
		for _, w := range r.keywords {
			i, ok := index[w]
			if !ok {
				i = len(words)
				index[w] = i
				words = append(words, w)
				s.rulesByKeyword = append(s.rulesByKeyword, nil)
			}
			s.rulesByKeyword[i] = append(s.rulesByKeyword[i], n)
		}
	}
	s.matcher = newMatcher(words)
	return s
}

// find returns what the rules find, in their order.
func (s *ruleSet) find(text string) []Finding {
	var found []Finding
	for _, n := range s.anywhere {
		r := &s.rules[n]
		r.find(&view{text: text}, nil, func(start, end int) { found = append(found, Finding{start, end, r.name}) })
	}
	v := newView(text)
	if s.bareKeys {
		bareKeys(v, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), rulePrivateKey}) })
	}
	var hits [][]place // by rule
	marks := marksIn(v.text)
	s.matcher.find(v.text, func(word, start, end int) {
		for len(marks) > 0 && marks[0].end <= start {
			marks = marks[1:]
		}
		if len(marks) > 0 && marks[0].start < end {
			return
		}
		for _, n := range s.rulesByKeyword[word] {
			if accepts := s.rules[n].accepts; accepts != nil && !accepts(v.text, place{start, end}) {
				continue
			}
			if hits == nil {
				hits = make([][]place, len(s.rules))
			}
			hits[n] = append(hits[n], place{start, end})
		}
	})
	for n, places := range hits {
		if len(places) == 0 {
			continue
		}
		r := &s.rules[n]
		r.find(v, places, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), r.name}) })
	}
	return found
}

// marksIn returns where the marks of earlier findings are. In one there is
// nothing to be found.
func marksIn(text string) (marks []place) {
	const longest = 64
	for i := 0; ; {
		n := strings.Index(text[i:], markPrefix)
		if n < 0 {
			return marks
		}
		start := i + n
		i = start + len(markPrefix)
		if end := strings.IndexByte(text[i:min(len(text), i+longest)], ']'); end >= 0 {
			i += end + 1
			marks = append(marks, place{start, i})
		}
	}
}

// everywhere makes a rule of a regular expression that no words go with.
func everywhere(name string, re *regexp.Regexp) rule {
	return rule{name: name, find: func(v *view, _ []place, found func(start, end int)) {
		for _, m := range re.FindAllStringSubmatchIndex(v.text, -1) {
			if start, end := group(m, 0); end > start && !isMark(v.text[start:]) {
				found(start, end)
			}
		}
	}}
}

// whole is the group of a pattern that is a secret in all of its length.
const whole = -1

// group returns where a match has its secret: in the group asked for, else in
// the first there is, else in all of it.
func group(m []int, n int) (start, end int) {
	switch {
	case n == whole:
		return m[0], m[1]
	case n > 0 && 2*n+1 < len(m) && m[2*n] >= 0:
		return m[2*n], m[2*n+1]
	}
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 && m[i+1] > m[i] {
			return m[i], m[i+1]
		}
	}
	return m[0], m[1]
}

// builtin are all rules that need no asking for.
func builtin() []rule {
	var file struct{ Rules []pattern }
	if err := json.Unmarshal(gitleaks, &file); err != nil {
		panic(err) // the file is ours
	}
	rules := []rule{
		{name: ruleAssignment, keywords: assignmentWords, find: assignments},
		{name: ruleAuthorization, keywords: []string{"authorization", "bearer"}, find: authorizations},
		{name: ruleCookie, keywords: []string{"cookie"}, find: cookies},
		{name: rulePrivateKey, keywords: []string{"private key"}, find: privateKeys},
		{name: ruleURL, keywords: []string{"://"}, find: urls},
		{name: ruleCommand, keywords: commandWords(), accepts: isProgram, find: commands},
		{name: ruleCall, keywords: callWords(), find: calls},
	}
	rules = append(rules, fileRules...)
	rules = append(rules, tokenRules()...)
	rules = append(rules, infixRules()...)
	for _, p := range slices.Concat(shapes, file.Rules) {
		if p.ID == "curl-auth-user" {
			continue // a command line is read as one
		}
		rules = append(rules, p.rule())
	}
	return rules
}
