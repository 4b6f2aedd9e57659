package redact

import (
	"maps"
	"slices"
	"strings"
)

// A command tells where a secret is on the command line of a program: a row of
// rules.txt.
type command struct {
	needs   string   // a word without which there is none
	options []string // words before the secret; the program itself if there are none
	skip    int      // words between such an option and the secret
	kind    commandKind
}

type commandKind int

const (
	nextWord  commandKind = iota // --option SECRET or --option=SECRET
	sameWord                     // -oSECRET
	afterUser                    // -o user:SECRET
	lastWord                     // -o user SECRET
	fromStdin                    // echo SECRET | program -o
)

// newCommand reads the words of a row.
func newCommand(words string) *command {
	c := &command{}
	all := strings.Fields(words)
	form := all[len(all)-1]
	all = all[:len(all)-1]
	if len(all) > 1 && all[1] == "..." {
		c.needs, all = all[0], all[2:]
	}
	if joined, ok := strings.CutSuffix(form, "{}"); ok && joined != "" {
		c.kind, all = sameWord, []string{joined}
	} else if form == "{:}" {
		c.kind = afterUser
	}
	for _, w := range all {
		switch w {
		case "_":
			c.skip++
		case "...":
			c.kind = lastWord
		case "<":
			c.kind = fromStdin
		default:
			c.options = strings.Split(w, ",")
		}
	}
	if c.needs != "" && c.options == nil { // -b ... {}
		c.options, c.needs, c.kind = strings.Split(c.needs, ","), "", lastWord
	}
	return c
}

func (t *table) programs() []string { return slices.Sorted(maps.Keys(t.commands)) }

// A commandWord is a word of a command line, without its quotes.
type commandWord struct {
	text   string
	start  int
	quoted bool
}

func (w commandWord) end() int { return w.start + len(w.text) }

// from returns the word without its first n bytes, and without quotes around the rest.
func (w commandWord) from(n int) commandWord {
	w = commandWord{text: w.text[n:], start: w.start + n}
	if len(w.text) > 1 && isQuote(w.text[0]) {
		w = commandWord{text: strings.TrimRight(w.text[1:], w.text[:1]), start: w.start + 1}
	}
	return w
}

const longestCommand = 1 << 10

// commands finds secrets on command lines and in argument lists:
// ["curl", "-u", "bob:.."].
func commands(v *view, hits []place, found func(start, end int)) {
	const mostPrograms = 8 // within longestCommand bytes; text with more is not commands
	done, part, programs := 0, 0, 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		if h.start/longestCommand != part {
			part, programs = h.start/longestCommand, 0
		}
		if programs++; programs > mostPrograms {
			continue
		}
		line := words(v, h.start, h.start+longestCommand)
		for _, c := range rulesTable().commands[v.text[h.start:h.end]] {
			if c.needs != "" && !slices.ContainsFunc(line, func(w commandWord) bool { return w.text == c.needs }) {
				continue
			}
			if c.kind == fromStdin {
				c.findPiped(v, h.start, line, found)
				continue
			}
			c.find(line, func(start, end int) {
				found(start, end)
				done = max(done, end)
			})
		}
	}
}

// isProgram reports whether a hit may be a program in a command line.
func isProgram(t string, h place) bool {
	return (h.end == len(t) || strings.IndexByte(" \t\n\"'", t[h.end]) >= 0) &&
		(h.start == 0 || strings.IndexByte(" \t\n/\"'`|;&(=$", t[h.start-1]) >= 0)
}

// words splits a command line, up to the end of the line, a pipe, or the end of
// the string that contains the command.
func words(v *view, i, limit int) (all []commandWord) {
	const most = 64
	t := v.text
	limit = min(limit, len(t))
	around := byte(0) // the quote around the command
	if i > 0 && isQuote(t[i-1]) {
		around = t[i-1]
	}
	for len(all) < most {
		if i = skipSpaces(t, i); i >= limit || strings.IndexByte("\n|;)]}", t[i]) >= 0 {
			break
		}
		if t[i] == '&' {
			if i++; i < limit && t[i] == '&' {
				break
			}
			continue
		}
		if t[i] == ',' { // between the elements of a list
			i = skipAll(t, i+1)
			continue
		}
		if t[i] == '$' && i+1 < limit && t[i+1] == '\'' {
			i++
		}
		if isQuote(t[i]) {
			end := v.closing(i, limit-i)
			all = append(all, commandWord{t[i+1 : end], i + 1, true})
			if end >= len(t) || t[end] == '\n' {
				break
			}
			i = end + 1
			continue
		}
		start := i
		for i < limit && strings.IndexByte(" \t\n|;)", t[i]) < 0 && (!isQuote(t[i]) || t[i] != around && i > start && t[i-1] == '=') {
			if isQuote(t[i]) { // --password='..'
				i = min(limit, v.closing(i, limit-i)) + 1
				continue
			}
			i++
		}
		i = min(i, limit)
		all = append(all, commandWord{t[start:i], start, false})
		if i == start || i < limit && t[i] == around && around != 0 && (i+1 >= limit || t[i+1] != ',') {
			break
		}
		if i < limit && isQuote(t[i]) && t[i] == around { // "curl", "-u"
			around = 0
			i++
		}
	}
	return all
}

// find finds the secrets among the words of a command.
func (c *command) find(line []commandWord, found func(start, end int)) {
	for i, w := range line {
		options := c.options
		if options == nil {
			if i > 0 {
				return
			}
			options = []string{w.text}
		}
		for _, o := range options {
			rest, ok := strings.CutPrefix(w.text, o)
			last := i + 1 + c.skip
			switch {
			case c.kind == lastWord && w.text == o && i+1 < len(line):
				line[len(line)-1].report(found)
			case c.kind == sameWord && ok && len(rest) >= 4:
				w.from(len(o)).report(found)
			case c.kind == sameWord && ok && rest == "" && i+1 < len(line) && line[i+1].quoted && line[i+1].start == w.end()+1: // -p'my secret'
				line[i+1].report(found)
			case c.kind == afterUser && (ok && rest == "" || isCluster(w.text, o)) && last < len(line):
				line[last].reportPair(found)
			case c.kind == afterUser && ok && rest != "" && (len(o) == 2 || rest[0] == '='):
				w.from(len(w.text) - len(strings.TrimPrefix(rest, "="))).reportPair(found)
			case c.kind == nextWord && ok && strings.HasPrefix(rest, "="):
				w.from(len(o) + 1).report(found)
			case c.kind == nextWord && ok && rest == "" && last < len(line):
				next := line[last]
				if n := len("pass:"); hasPrefix(next.text, "pass:", "file:") { // of openssl
					next = commandWord{text: next.text[n:], start: next.start + n}
				}
				if !hasPrefix(next.text, "-", "env:") && (hasPrefix(o, "-", "/") || isStrong(next.text)) {
					next.report(found)
				}
			}
		}
	}
}

// isCluster reports whether a word is a cluster of short options that ends in one:
// -sSu.
func isCluster(w, option string) bool {
	return len(option) == 2 && len(w) > 2 && len(w) < 8 && w[0] == '-' && w[1] != '-' && w[len(w)-1] == option[1]
}

// reportPair reports the password of user:password, user%password, user/password or
// domain/user:password@host.
func (w commandWord) reportPair(found func(start, end int)) {
	n := strings.IndexAny(w.text, ":%/")
	if n < 0 || strings.Contains(w.text, "://") {
		return
	}
	pass := commandWord{text: w.text[n+1:], start: w.start + n + 1}
	if w.text[n] == '/' {
		pass.text, _, _ = strings.Cut(pass.text, "@")
		if n := strings.LastIndexByte(pass.text, ':'); n >= 0 {
			pass = commandWord{text: pass.text[n+1:], start: pass.start + n + 1}
		}
	}
	if !isDigits(pass.text) { // docker run -u 1000:1000
		pass.report(found)
	}
}

// report reports a word, unless it is a placeholder.
func (w commandWord) report(found func(start, end int)) {
	if len(w.text) >= 3 && !placeholder(w.text) && !is("plain", w.text) && !isEnv(w.text) && !strings.Contains(w.text, "$(") && !hasSuffix(w.text, list("file-end")...) {
		found(w.start, w.end())
	}
}

// findPiped finds the secret that a program reads from stdin: echo .. | sudo -S,
// sudo -S <<< "..".
func (c *command) findPiped(v *view, start int, line []commandWord, found func(start, end int)) {
	reads := c.options == nil
	for i, w := range line {
		reads = reads || slices.Contains(c.options, w.text)
		if reads && w.text == "<<<" && i+1 < len(line) {
			line[i+1].reportInput(found)
			return
		}
	}
	if !reads {
		return
	}
	from := max(0, start-within)
	from += strings.LastIndexByte(v.text[from:start], '\n') + 1
	before := v.text[from:start]
	for _, echo := range []string{"echo ", "printf "} {
		n := strings.LastIndex(before, echo)
		if n < 0 || !strings.Contains(before[n:], "|") {
			continue
		}
		if ws := words(v, from+n, start); len(ws) > 1 {
			ws[len(ws)-1].reportInput(found)
		}
	}
}

// reportInput reports a password or the one in bob:password.
func (w commandWord) reportInput(found func(start, end int)) {
	if n := strings.IndexByte(w.text, ':'); n >= 0 {
		commandWord{text: w.text[n+1:], start: w.start + n + 1}.report(found)
	} else if strings.ContainsAny(w.text, digits) {
		w.report(found)
	}
}
