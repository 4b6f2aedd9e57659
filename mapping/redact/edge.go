package redact

import "strings"

// keyLines are how long the lines of PEM bodies are: RFC 7468, and OpenSSH's.
var keyLines = [...]int{64, 70}

// bareKeys finds pieces of private keys that have lost their first line and
// their last: three lines of base64, as long as those of PEM, in nothing that
// says what it is.
func bareKeys(v *view, found func(start, end int)) {
	t := v.text
	run := place{} // of lines
	lines := 0
	flush := func() {
		if lines >= 3 && !inBlock(t, run.start) && isKeyText(t[run.start:run.end]) {
			found(run.start, run.end)
		}
		lines = 0
	}
	for i := 0; i < len(t); {
		n := strings.IndexByte(t[i:], '\n')
		end := i + n
		if n < 0 {
			end, n = len(t), len(t)-i
		}
		if (n == keyLines[0] || n == keyLines[1]) && (lines == 0 || n == run.end-run.start-(lines-1)*(n+1)) && isBase64(t[i:end]) {
			if lines == 0 {
				run.start = i
			}
			run.end = end
			lines++
		} else if lines > 0 {
			if n > 0 && n < keyLines[1] && isBase64(t[i:end]) {
				run.end = end // the last, shorter line
			}
			flush()
		}
		i = end + 1
	}
	flush()
}

// inBlock tells whether a PEM block is open at i, or a list of base64 that has a
// name: its rule has had a look at it.
func inBlock(t string, i int) bool {
	before := t[max(0, i-maxKey):i]
	begin := strings.LastIndex(before, "-----BEGIN")
	return begin >= 0 && begin > strings.LastIndex(before, "-----END") ||
		strings.HasSuffix(strings.TrimRight(before, " \n\r"), ":") || strings.HasSuffix(strings.TrimRight(before, "\n\r"), "`")
}

// isKeyText tells whether lines are of key material: all sorts of letters, and
// as random as base64 is.
func isKeyText(s string) bool {
	m := makeupOf(s)
	return m.digits > 0 && m.upper > 0 && m.letters > m.upper && entropy(s) > 5
}
