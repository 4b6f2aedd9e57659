package redact

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// classOf returns the class of a name, in any style: dbPassword, DB_PASSWORD and
// db-password are the same.
func classOf(name string) class {
	c, _ := classify(name)
	return c
}

// classify is like classOf, but also knows the names of lists: api_keys.
func classify(name string) (c class, plural bool) {
	if !mayName(name) {
		return noSecret, false
	}
	var room [8]string
	words := splitName(room[:0], name)
	for len(words) > 1 && isSuffix(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) == 0 || len(words) == 1 && oneOf(words[0], "pwd") && isEnv(name) {
		return noSecret, false // $PWD is a directory
	}
	last := strings.TrimRight(words[len(words)-1], digits)
	before := ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	t := rulesTable()
	if c, ok := t.classOf(before, last); ok {
		return c, false
	}
	if one, ok := strings.CutSuffix(last, "s"); ok && one != "pas" && one != "pass" {
		c, _ := t.classOf(before, one)
		return c, c != noSecret
	}
	return noSecret, false
}

// classOf returns the class of a name by its last two words.
func (t *table) classOf(before, last string) (c class, ok bool) {
	if before != "" {
		if c, ok = t.classes[before+"+"+last]; ok {
			return c, true
		}
		if c, ok = t.classes["+"+last]; ok {
			return c, true
		}
	}
	if c, ok = t.classes[last]; ok {
		return c, true
	}
	for _, s := range t.nameSuffixes {
		if strings.HasSuffix(last, s.text) {
			return s.class, true
		}
	}
	return noSecret, false
}

// isSuffix reports whether a word at the end of a name does not change what the name
// means: PASSWORD_OLD, TOKEN_2.
func isSuffix(word string) bool {
	word = strings.TrimRight(word, digits)
	return word == "" || is("suffix", word)
}

var nameWords = sync.OnceValue(func() *matcher { return newMatcher(rulesTable().nameKeywords) })

// mayName reports whether a name may say something about its value. Most do not, and to
// split a name takes ten times as long.
func mayName(name string) bool { return nameWords().in(name) }

// splitName splits a name into lower-case words, which it appends to words.
func splitName(words []string, name string) []string {
	start := 0
	cut := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(name[start:end]))
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-' || c == '.':
			cut(i)
			start = i + 1
		case isUpper(c) && i > start && !isUpper(name[i-1]) && name[i-1] < utf8.RuneSelf:
			cut(i)
			start = i
		}
	}
	cut(len(name))
	return words
}

// isEnv reports whether a name is written like an environment variable.
func isEnv(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && !isUpper(c) && (c < '0' || '9' < c) {
			return false
		}
	}
	return true
}

// isHeader reports whether a name begins with X-, as names of headers do.
func isHeader(name string) bool {
	return len(name) > 2 && (name[0] == 'x' || name[0] == 'X') && name[1] == '-'
}
