package endpoint

import (
	"net/url"
	"strings"
	"unicode"
)

// mask stands for what is not shown.
const mask = "***"

// Shown returns an endpoint as it may be printed: its scheme, host, port and path.
// Path segments that look like a secret are masked, because some backends have a
// key there.
func Shown(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return mask
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment = nil, "", false, ""
	segments := strings.Split(u.Path, "/")
	for i, segment := range segments {
		if looksSecret(segment) {
			segments[i] = mask
		}
	}
	u.Path, u.RawPath = strings.Join(segments, "/"), ""
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(u.String(), "%2A%2A%2A", mask))
}

// looksSecret reports whether a path segment looks random: it mixes letters and
// digits for longer than a version or a name does.
func looksSecret(segment string) bool {
	words := strings.FieldsFunc(segment, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range words {
		letters := strings.IndexFunc(word, unicode.IsLetter) >= 0
		digits := strings.IndexFunc(word, unicode.IsDigit) >= 0
		if len(word) >= 12 && letters && digits || len(word) >= 32 {
			return true
		}
	}
	return false
}
