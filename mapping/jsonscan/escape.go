package jsonscan

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// WholeEscapes returns n, or up to 18 less, so that the first so many bytes of a string
// do not end inside an escape, or between two escapes that are one character.
func WholeEscapes(s []byte, n int) int {
	const longest = 12
	for i := max(0, n-longest); i < n; i++ {
		if s[i] != '\\' {
			continue
		}
		if slashes(s[:i])%2 != 0 { // before an escaped backslash
			return i - 1
		}
		if first := i - longest/2; first >= 0 && slashes(s[:first])%2 == 0 && IsPair(s[first:]) {
			return first
		}
		return i
	}
	return n
}

// slashes returns how many backslashes s ends with.
func slashes(s []byte) int { return len(s) - len(bytes.TrimRight(s, `\`)) }

// escape decodes the escape sequence s begins with and returns its size. An invalid
// one has size 1, that of its backslash, and no rune.
func escape(s []byte) (r rune, size int) {
	if len(s) < 2 {
		return -1, 1
	}
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(letters, s[1]); i >= 0 {
		return rune(meanings[i]), 2
	}
	switch r = hex4(s); {
	case r < 0:
		return -1, 1
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if pair := utf16.DecodeRune(r, hex4(s[6:])); pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}

// hex4 decodes the \u and four hex digits that s begins with. It returns -1 if s
// does not begin with them.
func hex4(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(r)
}

// HalfSize is how many bytes the escape of half a surrogate pair has.
const HalfSize = len(`\ud800`)

// WithoutHalf returns a string without the escape at its end that is the first half of a
// surrogate pair.
func WithoutHalf(s []byte) []byte {
	if n := len(s) - HalfSize; n >= 0 && s[n] == '\\' && slashes(s[:n])%2 == 0 && utf16.DecodeRune(hex4(s[n:]), 0xdc00) != utf8.RuneError {
		return s[:n]
	}
	return s
}

// UnquotedIndex returns the smallest index up to which at least n bytes of a string are
// unescaped.
func UnquotedIndex(s []byte, n int) int {
	at := 0
	for n > 0 && at < len(s) {
		i := bytes.IndexByte(s[at:], '\\')
		if i < 0 || i >= n {
			return min(at+n, len(s))
		}
		at, n = at+i, n-i
		r, size := escape(s[at:])
		if r >= 0 {
			n -= utf8.RuneLen(r)
		}
		at += size
	}
	return at
}

// IsPair reports whether s begins with two escapes that are one character.
func IsPair(s []byte) bool {
	return len(s) >= 2*HalfSize && utf16.DecodeRune(hex4(s), hex4(s[HalfSize:])) != utf8.RuneError
}
