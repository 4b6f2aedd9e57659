package redact

import (
	"slices"
	"strconv"
	"strings"
)

// keyLines are the lengths of the lines of PEM bodies: RFC 7468's and OpenSSH's.
var keyLines = [...]int{64, 70}

// shortestKey is how long a text must be to have three such lines.
const shortestKey = 3 * 64

// bareKeys finds pieces of private keys without a first or last line, such as sed
// prints: at least three lines of base64 of the length of PEM lines, outside of any
// other block or string.
func bareKeys(v *view, found func(start, end int)) {
	t := v.text
	if len(t) < shortestKey || !hasBase64Line(t) {
		return
	}
	run := place{} // of lines
	lines := 0
	flush := func() {
		if lines >= 3 && !inBlock(t, run.start) && isKeyText(t[run.start:run.end]) {
			found(run.start, run.end)
		}
		lines = 0
	}
	for i := 0; i < len(t); {
		end := i
		for end < len(t) && t[end] != '\n' && (t[end] != '"' || !v.isBorder(end)) {
			end++
		}
		n := end - i
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

// hasBase64Line reports whether a text has as many bytes of base64 in a row as a line of a
// key. It looks at few of the others, and most texts have none.
func hasBase64Line(t string) bool {
	size := keyLines[0]
	for i := size - 1; i < len(t); i += size {
		start := i
		for start >= 0 && i-start < size && inBase64[t[start]] {
			start--
		}
		if i-start < size {
			end := i + 1
			for end < len(t) && end-start <= size && inBase64[t[end]] {
				end++
			}
			if end-start-1 < size {
				continue
			}
		}
		return true
	}
	return false
}

// inBlock reports whether the lines from i on are the body of another block or of an XML
// element, or a string or YAML value, whose name decides whether it is secret.
func inBlock(t string, i int) bool {
	before := strings.TrimRight(t[max(0, i-within):i], " \r\n")
	before = before[strings.LastIndexByte(before, '\n')+1:]
	return containsAny(before, "-----", "<", ": ") || hasSuffix(before, ":", "`")
}

// isKeyText reports whether lines are as random as a key in base64.
func isKeyText(s string) bool {
	m := makeupOf(s)
	return m.digits > 0 && m.upper > 0 && m.letters > m.upper && entropy(s) > 5
}

// keyArrays finds private keys as arrays of 64 bytes in JSON, as solana-keygen writes them.
func keyArrays(v *view, found func(start, end int)) {
	const shortest, longest, size = 64 * 2, 64 * 16, 64
	t := v.text
	for i := shortest - 1; i < len(t); i += shortest {
		if !inNumbers[t[i]] {
			continue
		}
		start, end := i, i+1
		for start > 0 && i-start < longest && inNumbers[t[start-1]] {
			start--
		}
		for end < len(t) && inNumbers[t[end]] {
			end++
		}
		if start > 0 && end < len(t) && t[start-1] == '[' && t[end] == ']' && end-start < longest {
			if all := strings.Split(t[start:end], ","); len(all) == size && !slices.ContainsFunc(all, isNoByte) {
				found(start, end)
			}
		}
		i = max(i, end)
	}
}

// isNoByte reports whether a text is not a number from 0 to 255.
func isNoByte(s string) bool {
	_, err := strconv.ParseUint(strings.TrimSpace(s), 10, 8)
	return err != nil
}
