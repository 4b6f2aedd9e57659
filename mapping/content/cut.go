package content

import (
	"fmt"
	"math"
	"slices"
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
// many bytes it cut: first from the ends of the longest strings, then from the ends of the
// longest arrays and objects.
func (v Value) cut(limit int) (short Value, lost int) {
	const shortest = 16
	tooLong := func(longest, most int) bool { return len(v.append(nil, longest, most, limit)) > limit }
	longest, most := shortest, math.MaxInt
	if tooLong(shortest, most) {
		most = sort.Search(maxItems, func(n int) bool { return tooLong(shortest, n+1) })
	} else {
		longest += sort.Search(limit, func(n int) bool { return tooLong(shortest+n+1, most) })
	}
	short, lost = v.shorten(longest, most)
	if size := short.size(); size > limit {
		return fixedValue(Truncated), lost + size
	}
	return short, lost
}

// size returns how many bytes v takes.
func (v *Value) size() int { return len(v.append(nil, math.MaxInt, math.MaxInt, math.MaxInt)) }

// shorten returns a copy of v with all strings cut to longest bytes, and all arrays and
// objects to most items. It also returns how many bytes that cuts.
func (v Value) shorten(longest, most int) (short Value, lost int) {
	if v.kind == text && !v.fixed {
		n := shortened(v.text, longest)
		lost = len(v.text) - n
		v.text, v.open = v.text[:n], v.open || lost > 0
	}
	shown := v.shown(most)
	for i := range v.items[shown:] {
		lost += v.items[shown+i].size()
	}
	v.open = v.open || shown < len(v.items) && !v.typed
	v.items = slices.Clone(v.items[:shown])
	for i := range v.items {
		var n int
		v.items[i], n = v.items[i].shorten(longest, most)
		lost += n
	}
	return v, lost
}

// shown returns how many items are left if arrays and objects are cut to most.
func (v *Value) shown(most int) int {
	if v.fixed {
		return len(v.items)
	}
	return min(most, len(v.items))
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
