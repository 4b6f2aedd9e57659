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

// of returns s if it has no other bytes than the set's and is no longer than a
// name may be, and else "".
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

// enum returns s if it could be one of a few names, as statuses are.
func enum(s []byte) string { return enumChars.of(s) }

// word is enum for names of tools, which have more in them.
func word(s []byte) string { return wordChars.of(s) }

// enumOf and wordOf read a value that has to be one.
func enumOf(r *jsonscan.Reader) []byte { return enumChars.in(jsonscan.Unquote(r.Str())) }
func wordOf(r *jsonscan.Reader) []byte { return wordChars.in(readID(r)) }

// commandWord returns the first word of a command that is no assignment, nil
// if that takes a shell to tell: a piece of something quoted is content.
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

// executable returns the base name of a program, "" if s does not look like
// one. All of s has to: in >/tmp/x the end is a file, in https://host/x a page,
// in "cat /x" an argument.
func executable(s []byte) string {
	path := bytes.TrimPrefix(s, []byte("~/"))
	if len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') {
		path = s[2:]
	}
	if !pathChars.all(path) || bytes.Contains(path, []byte("//")) {
		return ""
	}
	return executableChars.of(path[bytes.LastIndexAny(path, `/\`)+1:])
}
