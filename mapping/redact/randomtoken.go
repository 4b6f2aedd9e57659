package redact

import "strings"

// How long a run of letters, digits, dashes and underscores must be to be a token of an
// unknown vendor.
const (
	shortestRun      = 24
	shortestKeyed    = 16 // of what follows a prefix that says what it is: xkey_
	shortestMixed    = 24 // of what follows any other prefix, in upper and lower case
	shortestPrefixed = 28 // the same in one case, as ids are
	shortestBare     = 36 // without a prefix
	longestBare      = 128
	shortestHex      = 32
	shortestSegment  = 12 // without a dash or an underscore
	longestRun       = 2 << 10
)

// randomTokens finds tokens whose vendor no rule knows: runs of random letters and digits
// behind a prefix such as acme_, or long ones in upper and lower case without one.
func randomTokens(v *view, found func(start, end int)) {
	t := v.text
	for i := shortestRun - 1; i < len(t); i += shortestRun {
		if !inRun[t[i]] {
			continue // no run that is long enough began in the bytes before
		}
		start, end := i, i+1
		for start > 0 && i-start < longestRun && inRun[t[start-1]] {
			start--
		}
		for end < len(t) && inRun[t[end]] {
			end++
		}
		if end-start >= shortestRun && end-start <= longestRun && isRandomToken(t, start, end) {
			found(wholeToken(t, start, end))
		}
		i = end
	}
}

// wholeToken returns the token that a run is in, which may have other parts: ID.SECRET,
// ID:SECRET.
func wholeToken(t string, start, end int) (from, to int) {
	const longest, shortest = 96, 4 // of another part
	isPart := func(s string) bool { return len(s) >= shortest && turnsOf(s) >= 2 }
	for from = start; from > 1 && strings.IndexByte(".:|~", t[from-1]) >= 0; {
		i := from - 1
		for i > 0 && from-i < longest && inRun[t[i-1]] {
			i--
		}
		if !isPart(t[i : from-1]) {
			break
		}
		from = i
	}
	for to = end; to+1 < len(t) && strings.IndexByte(".:|~", t[to]) >= 0; {
		i := to + 1
		for i < len(t) && i-to < longest && inRun[t[i]] {
			i++
		}
		if !isPart(t[to+1 : i]) {
			break
		}
		to = i
	}
	for to < len(t) && t[to] == '=' && to-end < 2 {
		to++
	}
	return from, to
}

// isRandomToken reports whether a run is a token.
func isRandomToken(t string, start, end int) bool {
	run := strings.TrimRight(t[start:end], "-_")
	run = strings.TrimLeft(run, "-_")
	if !hasDigit(run) {
		return false
	}
	prefix, body := cutPrefix(run)
	r := randomnessOf(body)
	if (r.segment < shortestSegment || 5*r.turns < r.alnum) && !isPassGroups(run) {
		return false
	}
	isID, isKey := prefixMeaning(prefix, body)
	part := start > 1 && strings.IndexByte(":|", t[start-1]) >= 0 && isLetter(t[start-2]) // of NAME:TOKEN
	shortest := shortestPrefixed
	if r.isMixed() && prefix != "" {
		shortest = shortestMixed
	}
	switch {
	case isKey:
		shortest = shortestKeyed
	case prefix == "" && !part:
		if isPassGroups(run) {
			return true
		}
		shortest = shortestBare
	}
	if isID || len(body) < shortest || !isKey && inPath(t, start, end) || hasIDForm(run) || isUUID(body) {
		return false
	}
	lead := strings.ToLower(t[max(0, start-40):start])
	lead = lead[strings.LastIndexByte(lead, '\n')+1:]
	if !isKey && hasSuffix(strings.TrimRight(lead, " =:,([{>\"'`"), list("public-name")...) {
		return false
	}
	if prefix == "" && (!part && len(body) > longestBare || inBody(t, start, end) || containsAny(lead, list("public-lead")...) || hasPrefix(run, list("public-start")...)) {
		return false
	}
	switch {
	case r.isMixed(): // but not the path of an SVG
		return r.segment >= 16 && (prefix != "" || strings.Trim(body, digits+"-MmLlHhVvCcSsQqTtAaZz") != "")
	case prefix == "" || r.segment < 20 || isULID(body):
		return false
	case inHexes.all(body):
		return len(body) >= shortestHex && (isKey || prefix[len(prefix)-1] == '_') && r.turns >= 8
	}
	return r.isOneCase()
}

// cutPrefix splits a run into its first words and the rest: os_v2_app_ and what follows.
func cutPrefix(run string) (prefix, body string) {
	const longest = 16
	at := 0
	for {
		n := strings.IndexAny(run[at:], "_-")
		if n < 0 || n > longest || n == 0 && at == 0 {
			break
		}
		word := run[at : at+n]
		if at == 0 && n > 0 && !isLetter(word[0]) || turnsOf(word) > 2 || n > 6 && turnsOf(word) > 1 || isMixed(word) {
			break
		}
		at += n + 1
	}
	return run[:at], run[at:]
}

// prefixMeaning reports whether the words of a prefix say that what follows is an id or a
// key. os_v2_app_ is in front of a key: it is too long for an id.
func prefixMeaning(prefix, body string) (isID, isKey bool) {
	const longestID = 48
	first := true
	for word := range strings.FieldsFuncSeq(strings.ToLower(prefix), func(c rune) bool { return c == '_' || c == '-' }) {
		switch {
		case (first || len(body) < longestID || inHexes.all(body)) && is("id-prefix", strings.TrimRight(word, digits)):
			isID = true
		case is("key-prefix", word) || len(word) > 3 && hasSuffix(word, list("key-prefix-end")...):
			isKey = true
		}
		first = false
	}
	return isID && !isKey, isKey && !isID
}

// inBody reports whether a run is a line of base64 or the end of one.
func inBody(t string, start, end int) bool {
	const shortest, longest = 48, 100
	if end < len(t) && t[end] == '=' {
		return true
	}
	lead := strings.TrimRight(t[max(0, start-longest):start], " \t\r")
	if end < len(t) && strings.IndexByte("\r\n", t[end]) < 0 || lead != "" && lead[len(lead)-1] != '\n' {
		return false
	}
	lead = strings.TrimRight(lead, "\r\n")
	lead = lead[strings.LastIndexAny(lead, " \t\n")+1:]
	return end-start >= shortest+12 || len(lead) >= shortest && isBase64(lead)
}

// inPath reports whether a run is a part of a path, of an address, of the name of a file or
// of base64.
func inPath(t string, start, end int) bool {
	if start > 0 && strings.IndexByte("/\\.+@#$%", t[start-1]) >= 0 {
		return true
	}
	if end == len(t) {
		return false
	}
	return strings.IndexByte("/\\+@%(", t[end]) >= 0 || t[end] == '.' && end+1 < len(t) && isLetter(t[end+1])
}

// isULID reports whether a text is a ULID, in upper or lower case.
func isULID(s string) bool {
	const size = 26
	return len(s) == size && s[0] <= '7' && strings.Trim(strings.ToUpper(s), "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// A randomness counts what tells random letters from words.
type randomness struct {
	alnum, digits, upper, lower int
	turns                       int // from one kind of character to another
	word                        int // the longest run of letters of one case
	words                       int // letters in runs of three lower-case ones or more
	segment                     int // the longest run of letters and digits
}

// isMixed reports whether letters of both cases and digits are random.
func (r randomness) isMixed() bool {
	return r.upper > 2 && r.lower > 2 && r.digits > 0 && 100*r.turns >= 36*r.alnum && r.word < 12 && 100*r.words < 45*r.alnum
}

// isOneCase reports whether letters of one case and digits are random.
func (r randomness) isOneCase() bool {
	return min(r.upper, r.lower) == 0 && r.digits >= 3 && 100*r.turns >= 20*r.alnum && r.word < 20
}

func randomnessOf(s string) (r randomness) {
	segment, word := 0, 0
	last := byte(0)
	for i := range len(s) {
		kind := byte(0)
		switch c := s[i]; {
		case isUpper(c):
			kind = 'A'
			r.upper++
		case isLetter(c):
			kind = 'a'
			r.lower++
		case isDigit(c):
			kind = '0'
			r.digits++
		}
		if kind != last {
			word = 0
			if kind != 0 && last != 0 {
				r.turns++
			}
		}
		if last = kind; kind == 0 {
			segment = 0
			continue
		}
		r.alnum++
		segment++
		r.segment = max(r.segment, segment)
		if kind != '0' {
			word++
			r.word = max(r.word, word)
		}
		if kind == 'a' && word >= 3 {
			r.words++
			if word == 3 {
				r.words += 2
			}
		}
	}
	return r
}

// isGenerated reports whether a value is so random that only a program can have made it up.
// It may be in base64 or hexadecimal.
func isGenerated(v string) bool {
	const shortest, shortestOneCase = 16, 20
	v = strings.TrimPrefix(v, "0x")
	if len(v) < shortest || !inGenerated.all(v) || isUUID(v) || isDate(v) {
		return false
	}
	if isPassGroups(v) {
		return true
	}
	r := randomnessOf(v)
	switch {
	case r.alnum*10 < len(v)*8, strings.Contains(v, "/") && !isBase64(v):
		return false
	case r.isMixed():
		return r.digits > 1 || len(v) >= shortestRun
	case inHexes.all(v):
		return len(v) >= shortestHex && r.turns >= 8
	}
	return len(v) >= shortestOneCase && r.segment >= shortestOneCase && r.isOneCase() && !isULID(v)
}

// hasRun reports whether a text has a run of letters and digits that may be a generated value.
func hasRun(t string) bool {
	const shortest = 16
	for i := shortest - 1; i < len(t); i += shortest {
		start, end := i, i
		for start >= 0 && inGenerated[t[start]] {
			start--
		}
		for end < len(t) && inGenerated[t[end]] {
			end++
		}
		if end-start > shortest && strings.ContainsAny(t[start+1:end], digits) {
			return true
		}
		i = max(i, end)
	}
	return false
}

// isPassGroups reports whether a value is written in groups as product keys and the recovery
// keys of BitLocker and the keys of Mailgun are: five groups of five letters and digits, eight
// of six digits, or three of hexadecimal digits.
func isPassGroups(v string) bool {
	const product, recovery, mailgun = 5*5 + 4, 8*6 + 7, 32 + 2*9
	size := 0
	if len(v) == mailgun && v[32] == '-' && v[41] == '-' {
		return hexesAndDashes.all(v) && strings.Count(v, "-") == 2
	}
	switch len(v) {
	case product:
		size = 5
	case recovery:
		size = 6
	default:
		return false
	}
	r := randomnessOf(v)
	for i := range len(v) {
		if (v[i] == '-') != (i%(size+1) == size) {
			return false
		}
	}
	return size == 6 && inDigits.all(strings.ReplaceAll(v, "-", "")) || size == 5 && r.lower == 0 && r.digits > 1 && r.upper > 4
}

// isScrambled reports whether a value without digits is letters of both cases in no order that
// words have. It may have marks that passwords have.
func isScrambled(v string) bool {
	const shortest = 10
	if len(v) < shortest || !inPasswords.all(v) {
		return false
	}
	r := randomnessOf(v)
	return r.digits == 0 && r.upper > 2 && r.lower > 2 && r.alnum >= shortest-2 && 100*r.turns >= 40*r.alnum && 100*r.words < 40*r.alnum && r.word < 7
}

func hasDigit(s string) bool {
	for i := range len(s) {
		if isDigit(s[i]) {
			return true
		}
	}
	return false
}
