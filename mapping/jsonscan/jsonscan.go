// Package jsonscan reads JSON fast and leniently, without decoding it into values.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// A Reader reads one JSON text without validating it. It is lenient on purpose: a
// line with an invalid escape, such as a redacted capture may have, still yields
// its ids and its timestamp. Every accessor consumes exactly one value of any type,
// in linear time and without recursion, so that neither a wrong type nor deep
// nesting can break it.
type Reader struct {
	B   []byte // the text
	I   int    // the position in B
	Bad bool   // the text ended early or is not JSON
}

// Peek skips white space and returns the byte it stops at, 0 at the end.
func (r *Reader) Peek() byte {
	for ; r.I < len(r.B); r.I++ {
		switch c := r.B[r.I]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// Members iterates over the keys of the next value, an object. Keys are still
// escaped. A value that the loop body does not consume is skipped. If the value is not
// an object, Members consumes it.
func (r *Reader) Members() iter.Seq[[]byte] {
	return func(yield func(key []byte) bool) {
		if r.Peek() != '{' {
			r.Skip()
			return
		}
		r.I++
		for key, at := r.member(0); at > 0 && yield(key); key, at = r.member(at) {
		}
	}
}

// Elements iterates over the next value, an array. An element that the loop body does
// not consume is skipped. If the value is not an array, Elements consumes it.
func (r *Reader) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		if r.Peek() != '[' {
			r.Skip()
			return
		}
		r.I++
		n := 0
		for at := r.element(0); at > 0 && yield(n); at = r.element(at) {
			n++
		}
	}
}

// End reports whether nothing but white space is left.
func (r *Reader) End() bool { return r.Peek() == 0 && r.I == len(r.B) }

// member moves to the next value of the object last entered, and returns its key and
// position. At the end it leaves the object and returns 0. If nobody has read the value
// before, which begins at last, member skips it.
func (r *Reader) member(last int) (key []byte, at int) {
	if r.I == last {
		r.Skip()
	}
	if r.at(',') || r.Peek() == ',' {
		r.I++
	}
	switch {
	case r.at('"') || r.Peek() == '"':
		key = r.Quoted()
		if r.at(':') || r.Peek() == ':' {
			r.I++
			if r.Peek(); r.Bad {
				return nil, 0
			}
			return key, r.I
		}
	case r.at('}'):
		r.I++
		return nil, 0
	}
	r.Fail()
	return nil, 0
}

// at reports whether c is the next byte: agents rarely write white space.
func (r *Reader) at(c byte) bool { return r.I < len(r.B) && r.B[r.I] == c }

// element is like member, but for arrays.
func (r *Reader) element(last int) (at int) {
	if r.I == last {
		r.Skip()
	}
	c := r.Peek()
	if c == ',' {
		r.I++
		c = r.Peek()
	}
	switch c {
	case ']':
		r.I++
		return 0
	case 0, '}', ':', ',':
		r.Fail()
		return 0
	}
	return r.I
}

// Str consumes a value and returns a string's contents, still escaped; nil if the
// value is not a string.
func (r *Reader) Str() []byte {
	if r.Peek() != '"' {
		r.Skip()
		return nil
	}
	return r.Quoted()
}

// Raw consumes a value and returns its text.
func (r *Reader) Raw() []byte {
	r.Peek()
	start := r.I
	r.Skip()
	return r.B[start:r.I]
}

// Int consumes a number, or a string that holds one: proto3's JSON writes
// 64-bit integers as strings.
func (r *Reader) Int() (n int64, ok bool) {
	r.Peek()
	const sure = 18 // digits that fit into an int64
	at, end := r.I, min(len(r.B), r.I+sure)
	for ; at < end && '0' <= r.B[at] && r.B[at] <= '9'; at++ {
		n = 10*n + int64(r.B[at]-'0')
	}
	if at > r.I && at < len(r.B) && ends[r.B[at]] { // as most numbers are written
		r.I = at
		return n, true
	}
	v := r.Raw()
	if len(v) > 1 && v[0] == '"' {
		v = v[1 : len(v)-1]
	}
	if len(v) > 32 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != f || f >= 1<<63 || f < -1<<63 {
		return 0, false
	}
	return int64(f), true
}

// Bool consumes a value and reports whether it is true.
func (r *Reader) Bool() bool { return string(r.Raw()) == "true" }

// Skip consumes one value.
func (r *Reader) Skip() {
	switch c := r.Peek(); c {
	case '"':
		r.Quoted()
	case '{', '[':
		r.nested()
	case 0, '}', ']', ':', ',':
		r.Fail()
	default:
		for r.I < len(r.B) && !ends[r.B[r.I]] {
			r.I++
		}
	}
}

// ends is the set of bytes that end a number, true, false or null.
var ends = [256]bool{
	',': true, ':': true, '{': true, '}': true, '[': true, ']': true,
	'"': true, ' ': true, '\t': true, '\r': true, '\n': true,
}

// nested consumes an object or array by counting brackets.
func (r *Reader) nested() {
	depth := 0
	for r.I < len(r.B) {
		switch r.B[r.I] {
		case '"':
			r.Quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		r.I++
		if depth == 0 {
			return
		}
	}
	r.Fail()
}

// Quoted consumes the next string and returns its contents, still escaped.
func (r *Reader) Quoted() []byte {
	s := r.B[r.I+1:]
	n := ClosingQuote(s)
	if n < 0 {
		r.Fail()
		return nil
	}
	r.I += n + 2
	return s[:n]
}

// ClosingQuote returns the index of the quote that ends a string, of which s is the rest; -1
// if there is none. A quote ends the string unless an odd number of backslashes precedes it.
func ClosingQuote(s []byte) int {
	at := 0
	for short := min(maxShort, len(s)-7); at < short; at += 8 { // most strings are short
		x := binary.LittleEndian.Uint64(s[at:])
		quotes, slashes := zeros(x^'"'*each), zeros(x^'\\'*each)
		if quotes|slashes == 0 {
			continue
		}
		if n := bits.TrailingZeros64(quotes); n < bits.TrailingZeros64(slashes) {
			return at + n/8
		}
		break
	}
	for ; ; at++ {
		n := bytes.IndexByte(s[at:], '"')
		if n < 0 {
			return -1
		}
		if at += n; slashes(s[:at])%2 == 0 {
			return at
		}
	}
}

// maxShort is the length up to which strings are read eight bytes at a time.
const maxShort = 64

// each is a word with each byte set to 1.
const each = 0x0101010101010101

// zeros returns a word whose lowest bit set is in the first byte of x, the lowest
// one, that is zero.
func zeros(x uint64) uint64 { return (x - each) &^ x & (0x80 * each) }

// Fail marks the text as malformed and skips to its end.
func (r *Reader) Fail() { r.Bad, r.I = true, len(r.B) }

// Unquote decodes the contents of a JSON string. It drops the backslash of an
// invalid escape, as JavaScript does, and replaces a lone surrogate with U+FFFD.
func Unquote(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	out, at := make([]byte, 0, len(s)), 0
	for n := bytes.IndexByte(s, '\\'); n >= 0; n = bytes.IndexByte(s[at:], '\\') {
		out, at = append(out, s[at:at+n]...), at+n
		r, size := escape(s[at:])
		if r >= 0 {
			out = utf8.AppendRune(out, r)
		}
		at += size
	}
	return append(out, s[at:]...)
}

// UnquotedLen returns how long a string is when unescaped.
func UnquotedLen(s []byte) int {
	length := len(s)
	for at := 0; ; {
		i := bytes.IndexByte(s[at:], '\\')
		if i < 0 {
			return length
		}
		at += i
		r, size := escape(s[at:])
		unquoted := 0
		if r >= 0 {
			unquoted = utf8.RuneLen(r)
		}
		length += unquoted - size
		at += size
	}
}
