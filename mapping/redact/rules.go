package redact

import (
	_ "embed"
	"encoding/json"
	"maps"
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
	keywords []string // none means everywhere
	escapes  bool     // it knows of the escapes in a quoted text; else they are spaces to it
	find     func(text string, hits []place, found func(start, end int))
}

// A ruleSet is all rules, ready to find.
type ruleSet struct {
	rules    []rule
	anywhere []int // the rules without keywords
	matcher  *matcher
	lookers  [][]int // by keyword, the rules that look for it
}

func newRuleSet(rules []rule, off []string) *ruleSet {
	s := &ruleSet{}
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
				s.lookers = append(s.lookers, nil)
			}
			s.lookers[i] = append(s.lookers[i], n)
		}
	}
	s.matcher = newMatcher(words)
	return s
}

// find returns what the rules find, in their order.
func (s *ruleSet) find(text string) []Finding {
	var found []Finding
	var hits map[int][]place
	s.matcher.find(text, func(word, start, end int) {
		if hits == nil {
			hits = map[int][]place{}
		}
		for _, n := range s.lookers[word] {
			hits[n] = append(hits[n], place{start, end})
		}
	})
	blanked := ""
	run := func(n int) {
		r, text := &s.rules[n], text
		if !r.escapes {
			if blanked == "" {
				blanked = blank(text)
			}
			text = blanked
		}
		r.find(text, hits[n], func(start, end int) { found = append(found, Finding{start, end, r.name}) })
	}
	for _, n := range s.anywhere {
		run(n)
	}
	for _, n := range slices.Sorted(maps.Keys(hits)) {
		run(n)
	}
	return found
}

// blank puts spaces in the place of \n and the like: after one a word begins.
func blank(text string) string {
	n := strings.IndexByte(text, '\\')
	if n < 0 {
		return text
	}
	b := []byte(text)
	for i := n; i+1 < len(b); i++ {
		if b[i] == '\\' && strings.IndexByte("nrt", b[i+1]) >= 0 {
			b[i], b[i+1] = ' ', ' '
		}
	}
	return string(b)
}

// everywhere makes a rule of a regular expression that no words go with.
func everywhere(name string, re *regexp.Regexp) rule {
	return rule{name: name, escapes: true, find: func(text string, _ []place, found func(start, end int)) {
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			if start, end := group(m, 0); end > start && !isMark(text[start:]) {
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
		{ruleAssignment, assignmentWords, true, assignments},
		{ruleAuthorization, []string{"authorization", "bearer"}, true, authorizations},
		{ruleCookie, []string{"cookie"}, true, cookies},
		{rulePrivateKey, []string{"private key"}, true, privateKeys},
		{ruleURL, []string{"://"}, true, urls},
	}
	for _, p := range slices.Concat(vendors, file.Rules) {
		rules = append(rules, p.rule())
	}
	return rules
}
