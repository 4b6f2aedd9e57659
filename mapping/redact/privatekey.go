package redact

import "strings"

// maxKey is the maximum length of a private key in text.
const maxKey = 32 << 10

// privateKeys finds PEM blocks, also with line numbers, or without a first or last
// line. A string constant with the first line of a block is not a key.
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
		if strings.HasPrefix(text[start:], "-----END") {
			if from := keyBefore(text, start); start-from >= 40 {
				found(from, body)
			}
			continue
		}
		end := keyAfter(text, body)
		if end > body {
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

// keyBefore returns the start of the key body that ends at i.
func keyBefore(text string, i int) int {
	begin := i
	for at := i; at > 0 && i-at < maxKey; {
		from := max(0, i-maxKey)
		prev := strings.TrimRight(text[from:at], "\r\n")
		n := strings.LastIndexByte(prev, '\n') + 1
		line := bareLine(prev[n:])
		if line != "" && (!isBase64(line) || len(line) < 16 && begin < i) {
			break
		}
		if line != "" {
			begin = from + n + strings.Index(prev[n:], line)
		}
		at = from + n
		if n == 0 {
			break
		}
	}
	return begin
}

// isBody reports whether the text between the first and last line of a block
// contains a key.
func isBody(s string) bool {
	run := 0
	for i := range len(s) {
		if strings.IndexByte(base64, s[i]) < 0 {
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

func isBase64(s string) bool { return s != "" && inBase64Text.all(s) }
