package redact

import "strings"

// outside tells which bytes there are outside of the strings of JSON.
var outside = func() (may [256]bool) {
	for _, c := range []byte("{}[]:, \t\r\n0123456789+-.eEtrufalsn") {
		may[c] = true
	}
	return may
}()

// shortestMember is how long a string must be to have a name and a secret.
const shortestMember = 12

// members finds the secrets in the strings of a text that is JSON, each by itself:
// in {"stdout": "PASSWORD  .."}, the line with the password begins and ends with the
// string. names is where names of secrets may be in the view; other strings are not
// searched, except for lines of a key.
func (s *ruleSet) members(text string, v *view, names []place) (found []Finding) {
	lines := strings.Contains(text, `\n`)
	for i := 0; ; {
		for i < len(text) && outside[text[i]] {
			i++
		}
		if i == len(text) {
			return found
		}
		if text[i] != '"' {
			return nil // not JSON
		}
		start := i + 1
		end := stringEnd(text, start)
		if end < 0 {
			return nil // not JSON
		}
		i = end + 1
		if end-start < shortestMember {
			continue
		}
		from := v.index(start)
		for len(names) > 0 && names[0].start < from {
			names = names[1:]
		}
		isKey := s.bareKeys && isKeyLine(text[start:end])
		if len(names) == 0 && len(found) == 0 && !lines {
			return nil // nor will there be any
		}
		if !isKey && (len(names) == 0 || names[0].start >= v.index(end)) {
			continue
		}
		piece := v.piece(start, end)
		var own []place
		for len(names) > 0 && names[0].end <= piece.from+len(piece.text) {
			own = append(own, place{names[0].start - from, names[0].end - from})
			names = names[1:]
		}
		add := func(rule string) func(start, end int) {
			return func(start, end int) { found = append(found, Finding{piece.start(start), piece.end(end), rule}) }
		}
		if len(own) > 0 {
			assignments(piece, own, add(ruleAssignment))
		}
		if isKey {
			bareKeys(piece, add(rulePrivateKey))
		}
	}
}

// stringEnd returns where the string in JSON that begins at i ends, -1 if it does not.
func stringEnd(text string, i int) int {
	for end := i; ; end++ {
		n := strings.IndexByte(text[end:], '"')
		if n < 0 {
			return -1
		}
		end += n
		escapes := end
		for escapes > i && text[escapes-1] == '\\' {
			escapes--
		}
		if (end-escapes)%2 == 0 {
			return end
		}
	}
}

// inBrackets reports whether a text may be a JSON object or array.
func inBrackets(text string) bool {
	if text == "" || strings.IndexByte("{[ \t\r\n", text[0]) < 0 {
		return false
	}
	text = strings.Trim(text, " \t\r\n")
	n := len(text)
	return n > 2 && (text[0] == '{' && text[n-1] == '}' || text[0] == '[' && text[n-1] == ']')
}

// isKeyLine reports whether an escaped string begins with a line that is as long as
// those of keys.
func isKeyLine(s string) bool {
	for _, n := range keyLines {
		if len(s) > 3*n && strings.HasPrefix(s[n:], `\n`) {
			return true
		}
	}
	return false
}
