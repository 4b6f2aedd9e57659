package redact

import (
	"slices"
	"strings"
)

func isUpper(c byte) bool    { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool   { return isUpper(c) || 'a' <= c && c <= 'z' }
func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isQuote(c byte) bool    { return c == '"' || c == '\'' || c == '`' }
func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }
func isNameByte(c byte) bool { return isWordByte(c) || c == '-' || c == '.' }

func isDigits(s string) bool { return inDigits.all(s) }

func isBase64(s string) bool { return s != "" && inBase64.all(s) }

func isIdentifier(s string) bool { return s != "" && inIdentifier.all(s) }

func skipSpaces(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

func skipAll(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r') {
		i++
	}
	return i
}

// oneOf reports whether a word is in a list, ignoring case.
func oneOf(s string, all ...string) bool {
	return slices.ContainsFunc(all, func(a string) bool { return len(a) == len(s) && strings.EqualFold(a, s) })
}

// hasPrefix, hasSuffix and containsAny report whether one of several words is the
// beginning, the end or a part of a text.
func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

func hasSuffix(s string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(x string) bool { return strings.HasSuffix(s, x) })
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// A letterSet is a set of bytes. Sets are built once: functions such as strings.Trim
// build one for each call, which takes longer than searching a short word.
type letterSet [256]bool

func setOfLetters(letters string) *letterSet {
	var set letterSet
	for i := range len(letters) {
		set[letters[i]] = true
	}
	return &set
}

// Letters that tokens are made of.
const (
	hexes  = "0123456789abcdefABCDEF"
	alnum  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	digits = "0123456789"
	word   = alnum + "_-"
	dotted = word + "."
	base64 = alnum + "+/="
)

var (
	inDigits       = setOfLetters(digits)
	inHexes        = setOfLetters(hexes)
	hexesAndDashes = setOfLetters(hexes + "-")
	inBase64       = setOfLetters(base64)
	inIdentifier   = setOfLetters(alnum + "_.")
	inIDs          = setOfLetters(word + ".|~")
	inRun          = setOfLetters(word)
	inPasswords    = setOfLetters(alnum + "!#%^*+~?@-")
	inNumbers      = setOfLetters(digits + ", \t\r\n")
	inGenerated    = setOfLetters(dotted + "+/=:~|")
)

// all reports whether all bytes of s are in the set.
func (set *letterSet) all(s string) bool { return set.prefix(s) == len(s) }

// prefix returns how many bytes at the beginning of s are in the set.
func (set *letterSet) prefix(s string) int {
	for i := range len(s) {
		if !set[s[i]] {
			return i
		}
	}
	return len(s)
}
