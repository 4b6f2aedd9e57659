package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A place is a range of a text.
type place struct{ start, end int }

// A rule finds secrets of one kind around its keywords.
type rule struct {
	name     string
	keywords []string                        // none means everywhere, and in the text as it is written
	accepts  func(text string, h place) bool // cheap filter for hits; nil accepts all
	find     func(v *view, hits []place, found func(start, end int))
}

// A ruleSet is the rules with an index of their keywords.
type ruleSet struct {
	rules          []rule
	anywhere       []int // the rules without keywords
	matcher        *matcher
	rulesByKeyword [][]int
	bareKeys       bool // is looked for
	hits           sync.Pool
	rooms          sync.Pool // for the escapes of a view
}

// ruleHits are the words that were found in a text. They are reused, because
// allocating room for each rule would cost more than searching a short text.
type ruleHits struct {
	rules  []int     // that have hits
	places [][]place // by rule
}

func (s *ruleSet) newHits() *ruleHits {
	if h, ok := s.hits.Get().(*ruleHits); ok {
		return h
	}
	return &ruleHits{places: make([][]place, len(s.rules))}
}

func (s *ruleSet) newRoom() *[]escape {
	if r, ok := s.rooms.Get().(*[]escape); ok {
		return r
	}
	return new([]escape)
}

func (h *ruleHits) add(rule int, at place) {
	if len(h.places[rule]) == 0 {
		h.rules = append(h.rules, rule)
	}
	h.places[rule] = append(h.places[rule], at)
}

func (h *ruleHits) free(s *ruleSet) {
	const mostKept = 1 << 10 // of the hits of a rule
	for _, n := range h.rules {
		if h.places[n] = h.places[n][:0]; cap(h.places[n]) > mostKept {
			h.places[n] = nil
		}
	}
	h.rules = h.rules[:0]
	s.hits.Put(h)
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

// find returns the findings of all rules, in the order of the rules.
func (s *ruleSet) find(text string) []Finding {
	var found []Finding
	if len(s.anywhere) > 0 {
		found = s.findAnywhere(text)
	}
	v, shown := (*view)(nil), text
	if nextEscape(text, 0) < len(text) {
		room := s.newRoom()
		v = newView(text, room)
		defer s.rooms.Put(room)
		shown = v.text
	}
	hits := s.hitsIn(shown)
	if hits == nil {
		if len(shown) < shortestKey {
			return found // most texts
		}
		hits = s.newHits()
	}
	defer hits.free(s)
	if v == nil {
		v = &view{text: text}
	}
	v.json = inBrackets(text)
	return s.findAt(hits, v, found)
}

// findAnywhere returns the findings of the rules without keywords.
func (s *ruleSet) findAnywhere(text string) (found []Finding) {
	for _, n := range s.anywhere {
		r := &s.rules[n]
		r.find(&view{text: text}, nil, func(start, end int) { found = append(found, Finding{start, end, r.name}) })
	}
	return found
}

// hitsIn returns the words in the text of a view, nil if there are none.
func (s *ruleSet) hitsIn(text string) *ruleHits {
	var hits *ruleHits
	var marks []place
	s.matcher.find(text, func(word, start, end int) {
		if hits == nil {
			hits, marks = s.newHits(), marksIn(text)
		}
		for len(marks) > 0 && marks[0].end <= start {
			marks = marks[1:]
		}
		if len(marks) > 0 && marks[0].start < end {
			return
		}
		for _, n := range s.rulesByKeyword[word] {
			if accepts := s.rules[n].accepts; accepts != nil && !accepts(text, place{start, end}) {
				continue
			}
			hits.add(n, place{start, end})
		}
	})
	if hits != nil && len(hits.rules) == 0 {
		hits.free(s)
		return nil
	}
	return hits
}

// findAt adds what the rules find at their words to found.
func (s *ruleSet) findAt(hits *ruleHits, v *view, found []Finding) []Finding {
	if s.bareKeys {
		bareKeys(v, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), rulePrivateKey}) })
	}
	slices.Sort(hits.rules)
	for _, n := range hits.rules {
		r, places := &s.rules[n], hits.places[n]
		r.find(v, places, func(start, end int) { found = append(found, Finding{v.start(start), v.end(end), r.name}) })
	}
	return found
}

// marksIn returns the marks of earlier findings: nothing is found inside a mark.
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

// everywhere returns a rule for a regular expression without keywords.
func everywhere(name string, re *regexp.Regexp) rule {
	return rule{name: name, find: func(v *view, _ []place, found func(start, end int)) {
		for _, m := range re.FindAllStringSubmatchIndex(v.text, -1) {
			if start, end := group(m, 0); end > start && !isMark(v.text[start:]) {
				found(start, end)
			}
		}
	}}
}

// whole is the group number of a pattern whose entire match is the secret.
const whole = -1

// group returns the position of the secret in a match: group n, else the first
// group that matched, else the entire match.
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

// inBrackets reports whether a text may be a JSON object or array.
func inBrackets(text string) bool {
	text = strings.Trim(text, " \t\r\n")
	n := len(text)
	return n > 2 && (text[0] == '{' && text[n-1] == '}' || text[0] == '[' && text[n-1] == ']')
}
