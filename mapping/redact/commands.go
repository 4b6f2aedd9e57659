package redact

import (
	"maps"
	"slices"
	"strings"
)

func (t *table) programs() []string { return slices.Sorted(maps.Keys(t.commands)) }

const longestCommand = 1 << 10

// commands finds secrets on command lines and in argument lists.
func commands(v *view, hits []place, found func(start, end int)) {
	const mostPrograms = 8 // of a line; text with more is no command
	done, lineEnd, programs := 0, 0, 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		if h.start >= lineEnd {
			rest, _, _ := strings.Cut(v.text[h.start:min(len(v.text), h.start+longestCommand)], "\n")
			lineEnd, programs = h.start+len(rest), 0
		}
		if programs++; programs > mostPrograms {
			continue
		}
		line := v.text[h.start:commandEnd(v, h.start)]
		for _, find := range rulesTable().commands[v.text[h.start:h.end]] {
			for _, m := range find().FindAllStringSubmatchIndex(line, -1) {
				if start, end := group(m, 0); isArgument(line[start:end]) {
					found(h.start+start, h.start+end)
					done = h.start + end
				}
			}
		}
	}
}

// isProgram reports whether a hit may be a program in a command line.
func isProgram(t string, h place) bool {
	return (h.end == len(t) || strings.IndexByte(" \t\n\"'", t[h.end]) >= 0) &&
		(h.start == 0 || strings.IndexByte(" \t\n/\"'`|;&(=$", t[h.start-1]) >= 0)
}

// isArgument reports whether a word may be a secret, and not another option, a variable
// or the name of a file.
func isArgument(w string) bool {
	return len(w) >= 3 && !hasPrefix(w, "-", "env:", "//") && !placeholder(w) && !is("plain", w) && !isEnv(w) && !strings.Contains(w, "$(") && !hasSuffix(w, list("file-end")...)
}

// commandEnd returns the end of the command that begins at i: the end of the line, a
// pipe, or the end of the list or of the string that contains the command.
func commandEnd(v *view, i int) int {
	t, limit := v.text, min(len(v.text), i+longestCommand)
	around := i - 1 // the quote around the command
	if i == 0 || !isQuote(t[around]) {
		around = -1
	}
	for ; i < limit; i++ {
		switch c := t[i]; {
		case c == ',':
			i = skipAll(t, i+1) - 1 // a list may have several lines
		case strings.IndexByte("\n|;)]", c) >= 0, strings.HasPrefix(t[i:], "&&"):
			return i
		case !isQuote(c):
		case around >= 0 && c == t[around] && v.width(i) <= v.width(around):
			if i+1 >= limit || t[i+1] != ',' {
				return i
			}
			around = -1
		default:
			i = v.closing(i, limit-i)
		}
	}
	return min(i, limit)
}

// verbs returns the keywords of randomArguments.
func verbs() (all []string) {
	for _, v := range list("verb") {
		all = append(all, v+" ")
	}
	return all
}

// randomArguments finds random words behind a verb, as in vault operator unseal WORD.
func randomArguments(v *view, hits []place, found func(start, end int)) {
	const longest, shortest = 160, 20
	done := 0
	for _, h := range hits {
		limit := min(len(v.text), h.end+longest)
		for i := max(done, h.end); i < limit && !v.isBorder(i); {
			start := i
			for i < len(v.text) && inGenerated[v.text[i]] {
				i++
			}
			if i == start {
				i++
				continue
			}
			if i-start >= shortest && (isQuote(v.text[start-1]) || v.text[start-1] == ' ') && isGenerated(v.text[start:i]) {
				found(start, i)
			}
			done = i
		}
	}
}

// optionKeywords are short options that give programs their secrets, in either case.
var optionKeywords = []string{" -p ", " -k ", " -t ", " -a ", " -s ", " -w ", " -u "}

// randomOptions finds random values of short options, whatever the program is.
func randomOptions(v *view, hits []place, found func(start, end int)) {
	const shortest, longest = 10, 256
	t := v.text
	for _, h := range hits {
		start := h.end
		if start < len(t) && isQuote(t[start]) {
			start++
		}
		end := start
		for end < len(t) && end-start < longest && inGenerated[t[end]] {
			end++
		}
		word := t[start:end]
		lead := t[max(0, h.start-longest):h.end]
		lead = lead[strings.LastIndexByte(lead, '\n')+1:]
		login := lead[len(lead)-2] == 'p' && containsAny(lead, " -u ", " -U ", " --user", " --admin-user", " login ") && !strings.ContainsAny(word, ":/")
		if r := randomnessOf(word); login && isStrong(word) || isGenerated(word) && !inHexes.all(word) || len(word) >= shortest && r.alnum == len(word) && r.isMixed() {
			found(start, end)
		}
	}
}
