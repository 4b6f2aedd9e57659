package agent

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// What an agent prints where a name is expected may be content: a broken or
// hostile stream can put anything there. Only what has the form of a name
// counts as one. These are its characters besides letters and digits.

const (
	enumChars       = "_-"
	wordChars       = "_-.:"
	executableChars = "._+-"
	pathChars       = `._+-/\`
	assignmentChars = "_"
	modelChars      = "-._:/@+~[](),="
)

// consistsOf reports whether s has only letters, digits and these characters.
func consistsOf(s []byte, chars string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(chars, c) < 0 {
			return false
		}
	}
	return true
}

// maxName is how long a name may be.
const maxName = 64

// nameOf returns s if it is a valid name that consistsOf these characters, nil otherwise.
func nameOf(s []byte, chars string) []byte {
	if len(s) > maxName || !consistsOf(s, chars) {
		return nil
	}
	return s
}

// enum returns s if it could be one of a few names, such as a status.
func enum(s []byte) string { return string(nameOf(s, enumChars)) }

// word is like enum, but for names of tools, which have more characters.
func word(s []byte) string { return string(nameOf(s, wordChars)) }

// typeName returns the type and the subtype of a line, as far as they are names.
func typeName(typ, subtype []byte) string {
	if len(subtype) > 0 {
		return typeName(typ, nil) + "/" + typeName(subtype, nil)
	}
	return cmp.Or(word(typ), semconv.ErrorOther)
}

// enumOf and wordOf read a value that has to be one.
func enumOf(r *jsonscan.Reader) []byte { return nameOf(jsonscan.Unquote(r.Str()), enumChars) }
func wordOf(r *jsonscan.Reader) []byte { return nameOf(readID(r), wordChars) }

// modelName returns s if it has the form of a model's or a provider's name, such as
// bedrock/us.anthropic.claude-opus-5 or "Claude 4.5 Sonnet (Thinking)", nil otherwise: the words
// of a name with spaces begin with a capital letter or have a digit.
func modelName(s []byte) []byte {
	if len(s) == 0 || len(s) > maxModelName || !consistsOf(s, modelChars+" ") {
		return nil
	}
	for i, word := range bytes.Split(s, []byte(" ")) {
		first := bytes.TrimLeft(word, "([")
		titled := len(first) > 0 && 'A' <= first[0] && first[0] <= 'Z'
		if i > 0 && !titled && !bytes.ContainsAny(word, "0123456789") {
			return nil
		}
	}
	return s
}

// maxModelName is how long the name of a model may be: some are those of cloud resources.
const maxModelName = 128

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
		case !consistsOf(name, assignmentChars):
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
	if !consistsOf(path, pathChars) || bytes.Contains(path, []byte("//")) {
		return nil
	}
	return nameOf(path[bytes.LastIndexAny(path, `/\`)+1:], executableChars)
}

// readID reads an id: a string, or a number as some programs write it.
func readID(r *jsonscan.Reader) []byte {
	switch c := r.Peek(); {
	case c == '"':
		return jsonscan.Unquote(r.Quoted())
	case '0' <= c && c <= '9':
		return r.Raw()
	}
	r.Skip()
	return nil
}
