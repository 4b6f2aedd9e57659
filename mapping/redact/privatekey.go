package redact

import "strings"

// maxKey is the maximum length of a private key in text.
const maxKey = 32 << 10

// privateKeys finds PEM blocks, also with line numbers or without a last line. A string constant with the first line of a block is not a key.
func privateKeys(v *view, hits []place, found func(start, end int)) {
	text, done := v.text, 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		start := strings.LastIndex(text[max(0, h.start-48):h.start], "-----")
		dashes := strings.Index(text[h.end:min(len(text), h.end+24)], "-----")
		if start < 0 {
			continue
		}
		start += max(0, h.start-48)
		body := len(text)
		if dashes >= 0 {
			body = h.end + dashes + 5
		} else if len(text)-h.end > 12 { // not closed, and not cut off
			continue
		}
		if end := keyAfter(text, body); end > body && !strings.HasPrefix(text[start:], "-----END") {
			found(start, end)
			done = end
		}
	}
}

// keyAfter returns the end of the key body that begins at i, i if there is none.
func keyAfter(text string, i int) int {
	limit := min(len(text), i+maxKey)
	if n := strings.Index(text[i:limit], "-----"); n >= 0 && strings.HasPrefix(text[i+n:], "-----END") && isBody(text[i:i+n]) {
		end := i + n + len("-----END")
		if m := strings.Index(text[end:min(len(text), end+64)], "-----"); m >= 0 {
			return end + m + 5
		}
		return min(len(text), end+24)
	}
	end := i
	for at := i; at < limit; {
		line, size := cutLine(text[at:limit])
		bare := bareLine(line)
		isLast := at+size == limit
		switch {
		case isBase64(bare) && (len(bare) >= 16 || isLast || end > i):
			end = at + len(strings.TrimRight(line, " \t\"'`,;+"))
		case bare == "" || strings.Contains(bare, ": ") || strings.HasPrefix(bare, "DEK-Info"):
		default:
			return end
		}
		at += size
	}
	return end
}

// isBody reports whether the text between the first and last line of a block
// contains a key.
func isBody(s string) bool {
	run := 0
	for i := range len(s) {
		if !inBase64[s[i]] {
			run = 0
		} else if run++; run == 40 { // longer than a name in code
			return true
		}
	}
	return false
}

// cutLine returns the first line of s, and its size with the line break.
func cutLine(s string) (line string, size int) {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return s[:n], n + 1
	}
	return s, len(s)
}

// bareLine strips quotes, line numbers, and diff and comment marks from a line of
// a key.
func bareLine(line string) string {
	line = strings.Trim(line, " \t\r\"'`,;\\>#*")
	digits := strings.TrimLeft(line, "0123456789")
	for _, mark := range []string{"|", ":", "→", "\t"} {
		if rest, ok := strings.CutPrefix(digits, mark); ok && len(digits) < len(line) {
			return strings.TrimSpace(rest)
		}
	}
	if strings.HasPrefix(line, "+ ") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "-") {
		return strings.TrimSpace(line[1:])
	}
	return line
}

// keyLines are the lengths of the lines of PEM bodies: RFC 7468's and OpenSSH's.
var keyLines = [...]int{64, 70}

// shortestKey is how long a text must be to have three such lines.
const shortestKey = 3 * 64

// bareKeys finds pieces of private keys without a first or last line, such as sed
// prints: at least three lines of base64 of the length of PEM lines, outside of any
// other block or string.
func bareKeys(v *view, found func(start, end int)) {
	t := v.text
	if len(t) < shortestKey {
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

// inBlock reports whether i is in a PEM block, or at the beginning of a string or
// YAML value, whose name decides whether it is secret.
func inBlock(t string, i int) bool {
	before := t[max(0, i-maxKey):i]
	previous := strings.TrimRight(before, "\r\n")
	if strings.Contains(previous[strings.LastIndexByte(previous, '\n')+1:], "<") { // an XML element
		return true
	}
	begin := strings.LastIndex(before, "-----BEGIN")
	return begin >= 0 && begin > strings.LastIndex(before, "-----END") && reaches(before[begin:]) ||
		strings.HasSuffix(strings.TrimRight(before, " \n\r"), ":") || strings.HasSuffix(strings.TrimRight(before, "\n\r"), "`")
}

// reaches reports whether a block goes on from its first line to the end of s.
func reaches(s string) bool {
	_, body, _ := strings.Cut(s, "\n")
	for line := range strings.SplitSeq(strings.TrimRight(body, "\r\n"), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, ": ") && !isBase64(line) {
			return false
		}
	}
	return true
}

// isKeyText reports whether lines are as random as a key in base64.
func isKeyText(s string) bool {
	m := makeupOf(s)
	return m.digits > 0 && m.upper > 0 && m.letters > m.upper && entropy(s) > 5
}
