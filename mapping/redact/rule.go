package redact

import (
	"regexp"
	"sync"
)

// Names of the rules that are not in rules.txt.
const (
	ruleAssignment = "assignment"
	rulePrivateKey = "private-key"
	ruleCommand    = "command-password"
	ruleCall       = "call-argument"
	ruleFile       = "credentials-file"
	ruleRandom     = "random-token"
)

// A rule finds secrets of one kind around its keywords.
type rule struct {
	name     string
	keywords []string                        // none means everywhere, and in the text as it is written
	accepts  func(text string, h place) bool // cheap filter for hits; nil accepts all
	find     func(v *view, hits []place, found func(start, end int))
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

// An expression is compiled when it is first needed.
type expression func() *regexp.Regexp

func expr(s string) expression {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })
}
