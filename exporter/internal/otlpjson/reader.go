package otlpjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// A reader reads a valid JSON text.
type reader struct {
	b []byte
	i int // the position in b
}

// peek skips white space and returns the byte it stops at.
func (r *reader) peek() byte {
	for isSpace(r.b[r.i]) {
		r.i++
	}
	return r.b[r.i]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// members iterates over the names of an object. The loop body must consume the values.
func (r *reader) members() iter.Seq[[]byte] {
	return func(yield func(name []byte) bool) {
		for r.next('}') {
			name := unquote(r.value())
			r.peek()
			r.i++ // the colon
			if !yield(name) {
				return
			}
		}
	}
}

// elements iterates over an array. The loop body must consume the elements.
func (r *reader) elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 0; r.next(']') && yield(n); n++ {
		}
	}
}

// next moves to the next value of an object or array that ends with end. At the end, it
// leaves the object or array and returns false.
func (r *reader) next(end byte) bool {
	if r.peek() != end {
		r.i++ // the opening bracket, or a comma
	}
	if r.peek() != end {
		return true
	}
	r.i++
	return false
}

// value consumes a value and returns its text.
func (r *reader) value() []byte {
	r.peek()
	start := r.i
	for depth := 0; ; {
		switch c := r.b[r.i]; c {
		case '"':
			r.skipString()
		case '{', '[':
			r.i++
			depth++
		case '}', ']':
			r.i++
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			r.i++
		default:
			r.skipWord()
		}
		if depth == 0 {
			return r.b[start:r.i]
		}
	}
}

func (r *reader) skipString() {
	for r.i++; r.b[r.i] != '"'; r.i++ {
		if r.b[r.i] == '\\' {
			r.i++
		}
	}
	r.i++
}

// skipWord skips a number, true, false or null.
func (r *reader) skipWord() {
	for r.i < len(r.b) && !isSpace(r.b[r.i]) && r.b[r.i] != ',' && r.b[r.i] != ']' && r.b[r.i] != '}' {
		r.i++
	}
}

// unquote returns what a string stands for.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return []byte(s)
}
