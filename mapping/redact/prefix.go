package redact

import (
	"strings"
	"unicode/utf8"
)

// How much of the end of a text MaybePrefix holds back at most, for what.
const (
	heldLine  = 4 << 10  // a line, which names a secret and has its value
	heldBlock = 16 << 10 // lines that a later one can make secret
)

// MaybePrefix returns how many bytes at the end of a text have to be held back,
// because they may be the beginning of a secret that goes on in what follows.
// What comes before them can be shown once the findings of Find in the whole
// text are taken out of it. It is for a text that is still coming, or that
// broke off.
//
// It holds back the last line, which has no end yet, and the lines before it
// that what follows can make a part of a secret: those of a private key that
// lost its first line, the values that come before their names. It never holds
// back more than 32 KiB.
func (r *Redactor) MaybePrefix(text string) int {
	from := max(0, len(text)-maxKey)
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

// encodedLines returns where the lines of base64 begin that end at i.
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

// earlyValue returns where the values begin whose name may follow: a pair's, a
// JSON Web Key's, a Kubernetes Secret's.
func earlyValue(s string) int {
	early := len(s)
	lower := strings.ToLower(s[max(0, len(s)-within):])
	for _, l := range valueLabels[:2] {
		if n := strings.LastIndex(lower, l); n >= 0 {
			early = min(early, len(s)-len(lower)+n)
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
