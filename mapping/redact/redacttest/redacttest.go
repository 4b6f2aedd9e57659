// Package redacttest makes up secrets for tests. They are generated at run
// time, so that no scanner takes this repository for a leak.
package redacttest

import (
	_ "embed"
	"strings"
)

// A Secret is a text that contains a secret.
type Secret struct {
	Kind  string   // such as "command lines"
	Name  string   // the template that it was made from
	Text  string   // as it would stand in a file, a command or an answer, between other lines
	Bare  string   // the same without them
	Parts []string // each of which gives the secret away
}

var (
	//go:embed own.txt
	own string
	//go:embed heldout.txt
	heldOut string
	//go:embed missed.txt
	missed string
	//go:embed harmless.txt
	harmless string
)

// All returns the secrets that the rules were written for.
func All() []Secret { return parse(own) }

// HeldOut returns secrets of the same kinds that were written down before the
// rules. The rules must not be tuned to them: they measure what is found of
// the secrets that nobody thought of.
func HeldOut() []Secret { return parse(heldOut) }

// Missed returns secrets that no rule finds, or none finds everywhere.
func Missed() []Secret { return parse(missed) }

// parse reads a list of templates, one a line, under headings. ⏎ stands for
// a line break, ⇥ for a tab, ␛ for an escape character; see [maker.fill] for the placeholders.
func parse(list string) []Secret {
	var all []Secret
	kind := ""
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			kind = heading
		} else if line != "" {
			all = append(all, makerFor(line).fill(kind, line))
		}
	}
	return all
}

// Harmless returns texts that a redactor has to leave alone.
func Harmless() []string {
	var all []string
	for _, s := range parse(harmless) {
		all = append(all, s.Bare)
	}
	return all
}
