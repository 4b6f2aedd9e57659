package redact

import "strings"

// literal returns the string whose opening quote is at i.
func (f *field) literal(i int) (start, end int, ok bool) {
	t := f.text
	if i >= len(t) || !isQuote(t[i]) {
		return 0, 0, false
	}
	if i+2 < len(t) && t[i+1] == t[i] && t[i+2] == t[i] { // """..."""
		i += 2
	}
	return i + 1, f.v.closing(i, maxValue), true
}

// typePrefix returns the length of what may come before the name of a type:
// password: &'static str = "..".
func typePrefix(s string) int {
	for _, p := range [...]string{"&'static ", "&mut ", "&"} {
		if strings.HasPrefix(s, p+"str") {
			return len(p)
		}
	}
	return 0
}

// separator returns the length of the separator of name and value that s begins
// with, 0 if there is none.
func separator(s string, quotedName bool) int {
	if s == "" || strings.IndexByte(":=!><,|?+.", s[0]) < 0 {
		return 0
	}
	if (s[0] == '=' || s[0] == ':') && len(s) > 1 && strings.IndexByte("=:>", s[1]) < 0 {
		return 1
	}
	for _, sep := range [...]string{"||=", "??=", "+=", ".=", ":: ", ":=", "=>", "===", "==", "!=", "=", ":", ">", "<-"} {
		if strings.HasPrefix(s, sep) {
			return len(sep)
		}
	}
	if quotedName && strings.HasPrefix(s, ",") { // setenv("TOKEN", "..")
		return 1
	}
	return 0
}

func isUpper(c byte) bool    { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool   { return isUpper(c) || 'a' <= c && c <= 'z' }
func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isQuote(c byte) bool    { return c == '"' || c == '\'' || c == '`' }
func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }
func isNameByte(c byte) bool { return isWordByte(c) || c == '-' || c == '.' }

func isDigits(s string) bool { return inDigits.all(s) }

func isIdentifier(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) || s[i] == '-' {
			return false
		}
	}
	return s != ""
}

func skipSpaces(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

// A letterSet tells which bytes are in a set. To build one takes longer than to look
// at a short word, as strings.Trim and its like do.
type letterSet [256]bool

func setOfLetters(letters string) *letterSet {
	var set letterSet
	for i := range len(letters) {
		set[letters[i]] = true
	}
	return &set
}

var (
	inDigits       = setOfLetters(digits)
	inHexes        = setOfLetters(hexes)
	hexesAndDashes = setOfLetters(hexes + "-")
	inBase64Text   = setOfLetters(base64)
	inIDs          = setOfLetters(word + ".|~")
)

// all reports whether all bytes of s are in the set.
func (set *letterSet) all(s string) bool {
	for i := range len(s) {
		if !set[s[i]] {
			return false
		}
	}
	return true
}
