// Package redacttest makes up secrets for tests. They are generated at run
// time, so that no scanner takes this repository for a leak.
package redacttest

import (
	"embed"
	"strings"
)

// A Secret is a text that contains a secret.
type Secret struct {
	Kind  string   // such as "command lines"
	Name  string   // the template that it was made from
	Text  string   // as it would stand in a file, a command or an answer, between other lines
	Bare  string   // the same without them
	Parts []string // the secret, or its lines; none may be seen
}

// LongParts returns the parts that cannot be elsewhere by chance, as the four digits of
// a PIN can be in a time or an id.
func (s Secret) LongParts() (long []string) {
	for _, part := range s.Parts {
		if len(part) >= 6 {
			long = append(long, part)
		}
	}
	return long
}

var (
	//go:embed own/*.txt
	own embed.FS
	//go:embed heldout.txt
	heldOut string
	//go:embed missed.txt
	missed string
	//go:embed harmless.txt
	harmless string
)

// All returns the secrets that the rules were written for.
func All() []Secret {
	entries, err := own.ReadDir("own")
	if err != nil {
		panic(err) // it is embedded
	}
	var all []Secret
	for _, e := range entries {
		list, err := own.ReadFile("own/" + e.Name())
		if err != nil {
			panic(err)
		}
		all = append(all, parse(string(list))...)
	}
	return all
}

// HeldOut returns secrets of the same kinds that were listed before the rules were
// written. Do not tune rules to them: they measure how many unforeseen secrets are
// found.
func HeldOut() []Secret { return parse(heldOut) }

// Missed returns secrets that are known to be missed.
func Missed() []Secret { return parse(missed) }

// parse reads a list of templates under headings, one per line. ⏎ is a line break,
// ⇥ a tab and ␛ an escape character; maker.fill explains the placeholders.
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

// Harmless returns texts in which nothing may be found.
func Harmless() []string {
	var all []string
	for _, s := range parse(harmless) {
		all = append(all, s.Bare)
	}
	return all
}
