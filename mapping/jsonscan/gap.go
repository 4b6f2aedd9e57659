package jsonscan

import (
	"bytes"
	"strconv"
)

const gapMark = '#'

// MinHead is the smallest number of bytes before a gap. An earlier match is an agent's
// invalid escape, and shorter texts have no gaps.
const MinHead = 512 << 10

// AppendGap appends a gap, which stands for a part of a string that was left out:
// \#42,40; is 42 bytes, 40 when unescaped. JSON has no such escape. At least
// [MinHead] bytes of the string must come before it. [Len] and [UnquotedLen] count
// what was left out, and [Unquote] ignores the gap.
func AppendGap(b []byte, length, unquoted int) []byte {
	b = append(b, '\\', gapMark)
	b = append(strconv.AppendInt(b, int64(length), 10), ',')
	return append(strconv.AppendInt(b, int64(unquoted), 10), ';')
}

// Len returns the length of a text, including the parts that were left out.
func Len(s []byte) int {
	length := len(s)
	if length < MinHead {
		return length
	}
	for at := MinHead; ; {
		i := bytes.Index(s[at:], []byte{'\\', gapMark})
		if i < 0 {
			return length
		}
		at += i
		missing, _, size := gap(s, at)
		length += missing - size
		at += max(size, 2)
	}
}

// gap reads the gap that begins at s[at]. Its size is 0 if there is none.
func gap(s []byte, at int) (length, unquoted, size int) {
	if at < MinHead || len(s) < at+2 || s[at] != '\\' || s[at+1] != gapMark {
		return 0, 0, 0
	}
	s = s[at:]
	text, _, ok := bytes.Cut(s[2:min(len(s), 2+maxGap)], []byte{';'})
	a, b, _ := bytes.Cut(text, []byte{','})
	missing, err := strconv.ParseUint(string(a), 10, 32)
	bare, err2 := strconv.ParseUint(string(b), 10, 32)
	if !ok || err != nil || err2 != nil {
		return 0, 0, 0
	}
	return int(missing), int(bare), 2 + len(text) + 1
}

// maxGap is the maximum length of a gap after its mark.
const maxGap = 40
