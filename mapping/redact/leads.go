package redact

import "strings"

// A byteSet is a set of those bytes that make a view differ from its text. One look
// at each byte finds out which of them a text has: nine searches would cost more than
// all rules do in a short text.
type byteSet uint8

const (
	backslash byteSet = 1 << iota
	control           // the escape character
	percentage
	ampersand
	invisibleC2 // the first bytes of invisible characters
	invisibleE2
	invisibleEF
	quotes // of any kind: what a program joins is quoted
)

var setOf = func() (of [256]byteSet) {
	of['\\'], of['\x1b'], of['%'], of['&'] = backslash, control, percentage, ampersand
	of['\xc2'], of['\xe2'], of['\xef'] = invisibleC2, invisibleE2, invisibleEF
	of['"'], of['\''], of['`'] = quotes, quotes, quotes
	return of
}()

func bytesOf(s string) (has byteSet) {
	for len(s) >= 4 {
		has |= setOf[s[0]] | setOf[s[1]] | setOf[s[2]] | setOf[s[3]]
		s = s[4:]
	}
	for i := range len(s) {
		has |= setOf[s[i]]
	}
	return has
}

// leadsOf returns the bytes with which escapes begin in a text, of those it has.
func leadsOf(s string, has byteSet) (leads byteSet) {
	leads = has & (backslash | control)
	if has&percentage != 0 && isPercentEncoded(s) {
		leads |= percentage
	}
	for _, c := range invisible {
		if lead := setOf[c[0]]; has&^leads&lead != 0 && strings.Contains(s, c) {
			leads |= lead
		}
	}
	if has&ampersand != 0 && containsAny(s, "&#", "&quot;", "&amp;", "&lt;") {
		leads |= ampersand
	}
	return leads
}

// nextEscape returns where the next escape may begin, -1 if none does.
func nextEscape(s string, from int, leads byteSet) int {
	if leads == backslash {
		n := strings.IndexByte(s[from:], '\\')
		if n < 0 {
			return -1
		}
		return from + n
	}
	for i := from; i < len(s); i++ {
		if setOf[s[i]]&leads != 0 {
			return i
		}
	}
	return -1
}

// invisible are characters without a width: soft hyphens, zero-width spaces and
// joiners, and byte order marks.
var invisible = [...]string{"\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"}

// isPercentEncoded reports whether a quote, a colon or an equals sign in a text is
// percent-encoded. In other texts a percent sign is nothing but that.
func isPercentEncoded(s string) bool {
	for {
		n := strings.IndexByte(s, '%')
		if n < 0 || n+3 > len(s) {
			return false
		}
		if s = s[n+1:]; s[0] == '3' && strings.IndexByte("ADad", s[1]) >= 0 || s[0] == '2' && s[1] == '2' {
			return true
		}
	}
}
