package redact

import (
	"slices"
	"strings"
)

// A ruleSet is the rules with an index of their keywords.
type ruleSet struct {
	rules          []rule
	anywhere       []int // the rules without keywords
	matcher        *matcher
	rulesByKeyword [][]int
}

// A hit is a keyword of a rule in a text.
type hit struct {
	rule int
	at   place
}

func newRuleSet(rules []rule) *ruleSet {
	s := new(ruleSet)
	index := map[string]int{}
	var words []string
	for _, r := range rules {
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

// find returns the findings of all rules, in the order of the rules.
func (s *ruleSet) find(text string) []Finding {
	var found []Finding
	if len(s.anywhere) > 0 {
		found = s.findAnywhere(text)
	}
	v := newView(text)
	if hits := s.hitsIn(v.text); len(hits) > 0 || len(v.text) >= shortestRun {
		v.json = inBrackets(text)
		found = s.findAt(hits, v, found)
	}
	return found
}

// findAnywhere returns the findings of the rules without keywords.
func (s *ruleSet) findAnywhere(text string) (found []Finding) {
	for _, n := range s.anywhere {
		r := &s.rules[n]
		r.find(&view{text: text}, nil, func(start, end int) { found = append(found, Finding{start, end, r.name}) })
	}
	return found
}

// hitsIn returns the keywords in the text of a view.
func (s *ruleSet) hitsIn(text string) (hits []hit) {
	marks, marked := []place(nil), false
	s.matcher.find(text, func(word, start, end int) {
		if !marked {
			marks, marked = marksIn(text), true
		}
		for len(marks) > 0 && marks[0].end <= start {
			marks = marks[1:]
		}
		if len(marks) > 0 && marks[0].start < end {
			return
		}
		for _, n := range s.rulesByKeyword[word] {
			if accepts := s.rules[n].accepts; accepts == nil || accepts(text, place{start, end}) {
				hits = append(hits, hit{n, place{start, end}})
			}
		}
	})
	return hits
}

// findAt adds what the rules find at their keywords to found.
func (s *ruleSet) findAt(hits []hit, v *view, found []Finding) []Finding {
	bareKeys(v, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), rulePrivateKey}) })
	keyArrays(v, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), rulePrivateKey}) })
	slices.SortStableFunc(hits, func(a, b hit) int { return a.rule - b.rule })
	var places []place
	for i, h := range hits {
		places = append(places, h.at)
		if i+1 == len(hits) || hits[i+1].rule != h.rule {
			r := &s.rules[h.rule]
			r.find(v, places, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), r.name}) })
			places = places[:0]
		}
	}
	randomTokens(v, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), ruleRandom}) })
	return found
}

// inBrackets reports whether a text may be a JSON object or array.
func inBrackets(text string) bool {
	text = strings.Trim(text, " \t\r\n")
	n := len(text)
	return n > 2 && (text[0] == '{' && text[n-1] == '}' || text[0] == '[' && text[n-1] == ']')
}
