// Package redact finds secrets in text that is about to leave the machine.
//
// Rules are data: rules.txt has our own, in one line each, and gitleaks.json those of
// gitleaks. The ways in which people write a name and its value are a table, too. Code
// reads what a table cannot describe: lists, tables of text, pieces of private keys and
// Kubernetes Secrets. README.md shows how to add a rule.
//
// Every built-in rule has keywords. One pass over a text finds the keywords of all rules,
// and a rule looks only at the text around its own. The cost is linear in the length of the
// text, whatever is in it.
//
// Rules see a view of the text: colors and invisible characters are removed, full-width
// characters are ASCII, and quotes, line breaks and separators are decoded from JSON
// escapes at any depth, percent-encoding and HTML entities. Findings are positions in the
// text as it is written, so they can be cut out of JSON without parsing it.
//
// The package cannot recognize a value that has neither a name nor a known format,
// and may miss a password that is a plain word, or a secret in base64 or another
// encoding. Package redacttest lists what is found and what is known to be missed.
package redact

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Finding is the position of a secret in a text, in bytes, and the name of the
// rule that found it.
type Finding struct {
	Start, End int
	Rule       string
}

// Mark returns the text that replaces the secret.
func (f Finding) Mark() string { return markPrefix + f.Rule + "]" }

const markPrefix = "[redacted:"

// A Redactor finds secrets. It is safe for concurrent use.
type Redactor struct {
	load func() *ruleSet
}

// New returns a Redactor. own are additional rules, NAME=REGEX; the first group
// is the secret, or the whole match if there is no group. The built-in rules are loaded on
// first use, which takes milliseconds.
func New(own []string) (*Redactor, error) {
	var rules []rule
	for _, o := range own {
		name, expr, ok := strings.Cut(o, "=")
		if !ok || name == "" || expr == "" {
			return nil, fmt.Errorf("invalid redaction rule %q (want NAME=REGEX)", o)
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, fmt.Errorf("redaction rule %s: %w", name, err)
		}
		rules = append(rules, everywhere(name, re))
	}
	return &Redactor{load: sync.OnceValue(func() *ruleSet { return newRuleSet(append(rules, builtin()...)) })}, nil
}

// Find returns the secrets in a text, in order and without overlaps.
func (r *Redactor) Find(text string) []Finding {
	return normalize(text, r.load().find(text))
}

// normalize sorts findings, merges those that overlap, and drops findings inside marks.
func normalize(text string, found []Finding) []Finding {
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	marks := marksIn(text)
	return Merge(slices.DeleteFunc(found, func(f Finding) bool {
		for len(marks) > 0 && marks[0].end <= f.Start {
			marks = marks[1:]
		}
		return len(marks) > 0 && marks[0].start <= f.Start && f.End <= marks[0].end
	}))
}

// Merge merges findings that overlap, in place. They must be in the order of their
// starts. Of those that overlap, the first one's rule remains.
func Merge(found []Finding) []Finding {
	merged := found[:0]
	for _, f := range found {
		if n := len(merged); n > 0 && f.Start < merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, f.End)
			continue
		}
		merged = append(merged, f)
	}
	return merged
}

// Named finds the secret in the value of a member or variable, if its name says
// that the value is secret: password, api_key, Authorization.
func (r *Redactor) Named(name, text string) (f Finding, ok bool) {
	if isMark(text) {
		return Finding{}, false
	}
	if lower := strings.ToLower(name); strings.HasSuffix(lower, "cookie") || strings.HasSuffix(lower, "authorization") {
		header := name + ": "
		for _, f := range r.Find(header + text) {
			if f.Start >= len(header) {
				return Finding{f.Start - len(header), f.End - len(header), f.Rule}, true
			}
		}
		return Finding{}, false
	}
	class, plural := classify(name)
	ok = class != noSecret && (class.secret(text, env) || class == password && isNumber(text)) && (!plural || isRandom(text) || class == password)
	if !ok {
		return Finding{}, false
	}
	return Finding{0, len(text), ruleAssignment}, true
}

func isMark(s string) bool { return strings.HasPrefix(s, markPrefix) }
