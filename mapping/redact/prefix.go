package redact

import (
	"strings"
	"unicode/utf8"
)

// mostHeld is how much of the end of a text MaybePrefix holds back at most.
const mostHeld = 32 << 10

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
	tail := text[max(0, len(text)-mostHeld):]
	hold := strings.LastIndexByte(tail, '\n') + 1
	if m := encodedLines().FindStringIndex(tail[:hold]); m != nil {
		hold = m[0]
	}
	hold = min(hold, earlyValue(tail))
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

// encodedLines are the last lines of a text if they are base64, as those of a private key:
// also with quotes, line numbers or marks of diffs and comments, and with empty lines
// between them.
var encodedLines = expr("(?m)(?:^[ \t]*(?:\\d+(?:[|:\t]|→))?" + aroundKey + "[A-Za-z0-9+/=]{16,}" + aroundKey + "\n(?:" + aroundKey + "\n)*)+\\z")

const aroundKey = "[ \t\r\"'`,;\\\\>#*+-]*"

// earlyValue returns the start of the values whose names may follow: of pairs,
// JSON Web Keys and Kubernetes Secrets.
func earlyValue(s string) int {
	early := len(s)
	pair := max(0, len(s)-within)
	if n := strings.Index(strings.ToLower(s[pair:]), "val"); n >= 0 {
		early = pair + n
	}
	for _, l := range []string{"data:", "stringData:", `"data"`, `"d"`, `"k"`} {
		if n := strings.Index(s, l); n >= 0 {
			early = min(early, n)
		}
	}
	return early
}
