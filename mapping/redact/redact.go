// Package redact takes secrets out of text that is about to leave the machine.
//
// What is a secret is told by gitleaks' rules (gitleaks.json) and by some of
// our own, for what those leave out: assignments to names like password,
// headers, private keys, URLs with credentials, and the tokens of vendors in
// any length. One pass over a text finds the words that rules look for; a rule
// runs only around its own.
package redact

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Finding is where a secret stands in a text, in bytes, and the rule that
// found it.
type Finding struct {
	Start, End int
	Rule       string
}

// Mark is what stands in a secret's place.
func (f Finding) Mark() string { return markPrefix + f.Rule + "]" }

const markPrefix = "[redacted:"

// A Redactor finds secrets. It can be used by several goroutines.
type Redactor struct {
	own  []rule
	off  []string
	load func() *ruleSet
}

// New returns a Redactor. own are further rules, NAME=REGEX, of which the first
// group is the secret if there is one; off are the names of rules to leave out.
// The rules are loaded when they are first needed: that takes milliseconds.
func New(own, off []string) (*Redactor, error) {
	r := &Redactor{off: off}
	for _, o := range own {
		name, expr, ok := strings.Cut(o, "=")
		if !ok || name == "" || expr == "" {
			return nil, fmt.Errorf("redaction rule %q is not NAME=REGEX", o)
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, fmt.Errorf("redaction rule %s: %w", name, err)
		}
		r.own = append(r.own, everywhere(name, re))
	}
	r.load = sync.OnceValue(func() *ruleSet { return newRuleSet(slices.Concat(r.own, builtin()), r.off) })
	if len(off) > 0 {
		known := map[string]bool{}
		for _, rule := range slices.Concat(r.own, builtin()) {
			known[rule.name] = true
		}
		for _, name := range off {
			if !known[name] {
				return nil, fmt.Errorf("redaction rule %q is not known", name)
			}
		}
	}
	return r, nil
}

// Find returns the secrets in a text, in order and apart from each other.
func (r *Redactor) Find(text string) []Finding {
	found := r.load().find(text)
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	apart := found[:0]
	marks := marksIn(text)
	for _, f := range found {
		for len(marks) > 0 && marks[0].end <= f.Start {
			marks = marks[1:]
		}
		if len(marks) > 0 && marks[0].start <= f.Start && f.End <= marks[0].end {
			continue
		}
		if n := len(apart); n > 0 && f.Start < apart[n-1].End {
			apart[n-1].End = max(apart[n-1].End, f.End)
			continue
		}
		apart = append(apart, f)
	}
	return apart
}

// Named finds the secret in a text that goes by a name, as in JSON, if the name
// tells that it is one.
func (r *Redactor) Named(name, text string) (f Finding, ok bool) {
	if isMark(text) {
		return Finding{}, false
	}
	rule, start := "", 0
	switch lower := strings.ToLower(name); {
	case lower == "cookie" || lower == "set-cookie":
		rule, ok = ruleCookie, isCookie(text)
	case strings.HasSuffix(lower, "authorization"):
		rule = ruleAuthorization
		start, ok = credentials(text)
	default:
		rule = ruleAssignment
		class, plural := classify(name)
		ok = class != noSecret && class.secret(text, env) && (!plural || isRandom(text) || class == password)
	}
	if !ok || slices.Contains(r.off, rule) {
		return Finding{}, false
	}
	return Finding{start, len(text), rule}, true
}

func isMark(s string) bool { return strings.HasPrefix(s, markPrefix) }
