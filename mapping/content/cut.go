package content

import (
	"math"
	"unicode/utf8"
)

// cut makes v take no more than limit bytes and tells how many went: first the
// ends of its longest strings, then whole elements and members, the last first.
func (v *Value) cut(limit int) (lost int) {
	before := v.size(limit + 1)
	if before <= limit {
		return 0
	}
	const shortest = 16
	low, high := shortest, limit // low is short enough, or as short as it gets
	for low < high {
		if middle := (low + high + 1) / 2; v.size(middle) <= limit {
			low = middle
		} else {
			high = middle - 1
		}
	}
	lost = v.shorten(low)
	if full := v.size(math.MaxInt); full > limit {
		if left, ok := v.prune(limit); ok {
			lost += full - left
		} else {
			*v = Value{text: "null"}
			lost += full
		}
	}
	return lost
}

// size is how many bytes v takes with its strings cut to longest.
func (v *Value) size(longest int) int {
	switch v.kind {
	case literal:
		return len(v.text)
	case text:
		if v.fixed {
			return quotedLen(v.text)
		}
		return quotedLen(v.text[:Prefix(v.text, longest)])
	}
	n := 2 + max(0, len(v.items)-1)
	for i := range v.items {
		if v.kind == object {
			n += quotedLen(v.names[i]) + 1
		}
		n += v.items[i].size(longest)
	}
	return n
}

// shorten cuts all strings to longest and tells how many bytes went.
func (v *Value) shorten(longest int) (lost int) {
	if v.kind == text && !v.fixed {
		n := Prefix(v.text, longest)
		lost = len(v.text) - n
		v.text = v.text[:n]
	}
	for i := range v.items {
		lost += v.items[i].shorten(longest)
	}
	return lost
}

// prune leaves away what does not fit into room. It returns the size of what is
// left, and false if nothing can be.
func (v *Value) prune(room int) (size int, ok bool) {
	if v.kind < array {
		size = v.size(math.MaxInt)
		return size, size <= room
	}
	size = 2
	kept := 0
	for i := range v.items {
		own := 0
		if kept > 0 {
			own++ // the comma
		}
		if v.kind == object {
			own += quotedLen(v.names[i]) + 1
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
		if v.kind == object {
			v.names[kept] = v.names[i]
		}
		kept++
	}
	v.items = v.items[:kept]
	if v.kind == object {
		v.names = v.names[:kept]
	}
	return size, size <= room
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

// quotedLen is the length of what appendQuoted appends.
func quotedLen(s string) int {
	n := len(s) + 2
	for i := range len(s) {
		n += int(escapeLen[s[i]])
	}
	return n
}

// escapeLen is how many bytes more than one appendQuoted makes of a byte.
var escapeLen = func() (lengths [256]uint8) {
	for c := range ' ' {
		lengths[c] = 5
	}
	for _, c := range "\"\\\n\t\r" {
		lengths[c] = 1
	}
	return lengths
}()
