package redact

import (
	"strings"
	"unicode/utf8"
)

// How much of the end of a text MaybePrefix holds back at most.
const (
	heldKey   = 32 << 10 // a private key
	heldLine  = 4 << 10  // a line, which names a secret and has its value
	heldBlock = 16 << 10 // lines that a later one can make secret
)

// MaybePrefix returns the number of bytes at the end of a text that could be the
// beginning of a secret. Use it for text that is still arriving or that broke
// off: hold these bytes back, and redact what comes before them with the
// findings of Find in the whole text, held bytes included.
//
// MaybePrefix holds back the last line unless it is complete, and earlier lines
// that can turn out to be secret: lines of base64, which a later line may reveal
// as a private key, and values that come before their names. It never holds back
// more than 32 KiB; a text that ends in a line break usually needs no more than a
// few bytes.
func (r *Redactor) MaybePrefix(text string) int {
	from := max(0, len(text)-heldKey)
	tail := text[from:]
	hold := strings.LastIndexByte(tail, '\n') + 1
	hold = min(hold, encodedLines(tail, hold), earlyValue(tail))
	hold = max(hold, len(tail)-heldBlock)
	if line := strings.LastIndexByte(tail, '\n') + 1; hold == line {
		hold = max(hold, len(tail)-heldLine)
	}
	for _, f := range r.Find(tail) {
		if f.End >= hold || strings.TrimLeft(tail[f.End:hold], " \t\r\n\"'`,;") == "" {
			hold = min(hold, f.Start)
			break
		}
	}
	for hold > 0 && hold < len(tail) && !utf8.RuneStart(tail[hold]) {
		hold--
	}
	return len(tail) - hold
}

// encodedLines returns the start of the lines of base64 that end at i.
func encodedLines(s string, i int) int {
	first := i
	for i > 0 {
		line := strings.LastIndexByte(s[:i-1], '\n') + 1
		bare := bareLine(s[line : i-1])
		if i = line; bare == "" {
			continue
		}
		if !isBase64(bare) || len(bare) < 16 {
			break
		}
		first = line
	}
	return first
}

// bareLine strips quotes, line numbers, and diff and comment marks from a line of
// a key.
func bareLine(line string) string {
	line = strings.Trim(line, " \t\r\"'`,;\\>#*+-")
	digits := strings.TrimLeft(line, "0123456789")
	for _, mark := range []string{"|", ":", "→", "\t"} {
		if rest, ok := strings.CutPrefix(digits, mark); ok && len(digits) < len(line) {
			return strings.TrimSpace(rest)
		}
	}
	return line
}

// earlyValue returns the start of the values whose names may follow: of pairs,
// JSON Web Keys and Kubernetes Secrets.
func earlyValue(s string) int {
	early := len(s)
	pair := max(0, len(s)-within)
	for _, l := range []string{"val", "Val"} {
		if n := strings.LastIndex(s[pair:], l); n >= 0 {
			early = min(early, pair+n)
		}
	}
	block := max(0, len(s)-heldBlock)
	if n := strings.LastIndex(s[block:], "\n---"); n >= 0 {
		block += n
	}
	for _, l := range []string{"data:", "stringData:", `"data"`, `"d"`, `"k"`} {
		if n := strings.Index(s[block:], l); n >= 0 {
			early = min(early, block+n)
		}
	}
	return early
}
