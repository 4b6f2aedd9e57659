package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// What an agent prints where a name is expected may be content: a broken or
// hostile stream can put anything there. Only what has the form of a name
// counts as one.

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

// A charset is a set of bytes.
type charset [256]bool

func newCharset(chars string) *charset {
	var set charset
	for i := range len(chars) {
		set[chars[i]] = true
	}
	return &set
}

var (
	enumChars       = newCharset(lower + upper + digits + "_-")
	wordChars       = newCharset(lower + upper + digits + "_-.:")
	executableChars = newCharset(lower + upper + digits + "._+-")
	pathChars       = newCharset(lower + upper + digits + `._+-/\`)
	assignmentChars = newCharset(lower + upper + digits + "_")
)

// maxName is how long a name may be.
const maxName = 64

// of returns s if it is a valid name in the set's characters, and "" otherwise.
func (set *charset) of(s []byte) string {
	return string(set.in(s))
}

func (set *charset) in(s []byte) []byte {
	if len(s) > maxName || !set.all(s) {
		return nil
	}
	return s
}

func (set *charset) all(s []byte) bool {
	for _, c := range s {
		if !set[c] {
			return false
		}
	}
	return true
}

// enum returns s if it could be one of a few names, such as a status.
func enum(s []byte) string { return enumChars.of(s) }

// word is like enum, but for names of tools, which have more characters.
func word(s []byte) string { return wordChars.of(s) }

// enumOf and wordOf read a value that has to be one.
func enumOf(r *jsonscan.Reader) []byte { return enumChars.in(jsonscan.Unquote(r.Str())) }
func wordOf(r *jsonscan.Reader) []byte { return wordChars.in(readID(r)) }

// commandWord returns the first word of a command that is not an assignment. It
// returns nil if only a shell could tell, because a piece of quoted text is
// content.
func commandWord(command []byte) []byte {
	for word := range bytes.FieldsSeq(command) {
		if bytes.ContainsAny(word, "\"'`$\\(){}") {
			return nil
		}
		name, _, ok := bytes.Cut(word, []byte{'='})
		switch {
		case !ok:
			return word
		case !assignmentChars.all(name):
			return nil
		}
	}
	return nil
}

// executable returns the base name of a program, nil if s as a whole does not look
// like one: the last part of >/tmp/x is a file, of https://host/x a page, of "cat
// /x" an argument.
func executable(s []byte) []byte {
	if len(s) == 0 {
		return nil
	}
	path := bytes.TrimPrefix(s, []byte("~/"))
	if len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') {
		path = s[2:]
	}
	if !pathChars.all(path) || bytes.Contains(path, []byte("//")) {
		return nil
	}
	return executableChars.in(path[bytes.LastIndexAny(path, `/\`)+1:])
}
