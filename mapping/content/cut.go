package content

import (
	"fmt"
	"math"
	"slices"
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
	low, high := shortest, limit // low is short enough, or as short as it gets
	var b []byte
	for low < high {
		middle := (low + high + 1) / 2
		if b = v.append(b[:0], middle, limit); len(b) <= limit {
			low = middle
		} else {
			high = middle - 1
		}
	}
	short, lost = v.shorten(low)
	full := short.size()
	if full <= limit {
		return short, lost
	}
	if left, ok := short.prune(limit); ok {
		return short, lost + full - left
	}
	return fixedValue(Truncated), lost + full
}

// size returns how many bytes v takes.
func (v *Value) size() int { return len(v.append(nil, math.MaxInt, math.MaxInt)) }

// shorten returns a copy of v with all strings cut to longest, and how many bytes that
// cuts.
func (v Value) shorten(longest int) (short Value, lost int) {
	if v.kind == text && !v.fixed {
		n := shortened(v.text, longest)
		lost = len(v.text) - n
		v.text, v.open = v.text[:n], v.open || lost > 0
	}
	v.items = slices.Clone(v.items)
	for i := range v.items {
		var n int
		v.items[i], n = v.items[i].shorten(longest)
		lost += n
	}
	return v, lost
}

// prune removes what does not fit into room. It returns the size of the rest, and
// false if nothing fits.
func (v *Value) prune(room int) (size int, ok bool) {
	if v.kind < array {
		size = v.size()
		return size, size <= room
	}
	mark := 0
	if !v.fixed && !v.typed && (v.open || v.size() > room) {
		mark = len(`,"[truncated]":true`)
		room -= mark
	}
	size = 2
	kept := 0
	for i := range v.items {
		own := 0
		if kept > 0 {
			own++ // the comma
		}
		if v.kind == object {
			own += len(appendQuoted(nil, v.items[i].name)) + 1
		}
		n, fits := v.items[i].prune(room - size - own)
		if !fits || size+own+n > room {
			if v.fixed {
				return 0, false
			}
			continue
		}
		size += own + n
		v.items[kept] = v.items[i]
		kept++
	}
	v.open = v.open || kept < len(v.items) && mark > 0
	if v.items = v.items[:kept]; v.open {
		size = v.size()
	}
	return size, size <= room+mark
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
