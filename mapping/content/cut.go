package content

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"unicode/utf8"
)

// Truncated stands where text was cut, as a redaction's mark does.
const Truncated = "[truncated]"

// shortened returns how much of a text is left if it is cut to about longest
// bytes: a text that the mark would not make shorter is not cut.
func shortened(s string, longest int) int {
	if len(s)-len(Truncated) <= longest {
		return len(s)
	}
	return Prefix(s, longest)
}

// truncated returns at most limit bytes of a text. It ends with a mark if the text is
// longer, or if its end was cut before. lost is how many bytes it cuts.
func truncated(s string, limit int, cut bool) (shown string, lost int) {
	if !cut && len(s) <= limit || cut && len(s)+len(Truncated) <= limit {
		if cut {
			s += Truncated
		}
		return s, 0
	}
	n := Prefix(s, limit-len(Truncated))
	return s[:n] + Truncated, len(s) - n
}

// cut returns a copy of v, which is longer than limit bytes, with at most that, and how
// many bytes it cut: first from the ends of the longest strings, then whole elements and
// members, the last first.
func (v Value) cut(limit int) (short Value, lost int) {
	const shortest = 16
	var b []byte
	fits := func(longest, items int) bool {
		short, lost = v.first(longest, &items)
		b = short.append(b[:0])
		return len(b) <= limit
	}
	longest := shortest + sort.Search(max(0, limit-shortest), func(n int) bool { return !fits(shortest+n+1, math.MaxInt) })
	if !fits(longest, math.MaxInt) { // not even without the ends of its strings
		fits(longest, sort.Search(limit, func(n int) bool { return !fits(longest, n+1) }))
	}
	if len(b) > limit {
		return fixedValue(Truncated), lost + len(b)
	}
	return short, lost
}

// first returns a copy of v with its strings cut to longest, and only so many items, the first
// ones. lost is how many bytes that cuts.
func (v Value) first(longest int, items *int) (short Value, lost int) {
	if v.kind == text && !v.fixed {
		n := shortened(v.text, longest)
		lost = len(v.text) - n
		v.text, v.open = v.text[:n], v.open || lost > 0
	}
	all := v.items
	v.items = nil
	for _, item := range all {
		if !v.fixed { // else it needs all of them
			if *items == 0 {
				v.open = v.open || !v.typed
				lost += len(item.append(nil))
				continue
			}
			*items--
		}
		item, n := item.first(longest, items)
		v.items = append(v.items, item)
		lost += n
	}
	return v, lost
}

// Prefix returns the length of the longest prefix of s that has at most n bytes
// and ends with a whole rune.
func Prefix(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// appendQuoted appends a string as JSON, with as few escapes as possible, because
// they count against the size of the attribute.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(append(b, s[from:i]...), '\\')
		from = i + 1
		if k := strings.IndexByte("\"\\\n\t\r", c); k >= 0 {
			b = append(b, `"\ntr`[k])
		} else {
			b = fmt.Appendf(b, "u%04x", c)
		}
	}
	return append(append(b, s[from:]...), '"')
}
