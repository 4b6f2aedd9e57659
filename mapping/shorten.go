package mapping

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
)

const (
	// maxWhole is how long a line may be before its long strings are shortened: a
	// tool's output may have hundreds of megabytes, but only its length and its
	// beginning are ever used.
	maxWhole = 4 << 20

	// maxHead is how much of such a string is kept. It is more than an attribute
	// may have.
	maxHead = max(jsonscan.MinHead, 2*MaxAttribute)
)

// A shortener shortens the strings of a line as the line comes in. It puts a gap
// (see [jsonscan.AppendGap]) where it drops a part of a string.
type shortener struct {
	on       bool
	inString bool
	length   int // of the string
	kept     int // how much of it is kept, if the rest is dropped
	escape   jsonscan.Escape
	dropping bool
	unquoted int // bytes of what was dropped, unescaped
	out      []byte
}

// begin processes the beginning of a line that has become too long. That beginning is
// kept whole.
func (s *shortener) begin(line []byte) {
	*s = shortener{on: true, out: s.out}
	s.scan(line, len(line))
}

// next processes one byte that skip has left. It returns how many unescaped bytes of a
// string the byte completes.
func (s *shortener) next(c byte) (unescaped int) {
	switch {
	case !s.inString: // a backslash, which is not JSON
		return 0
	case c == '"' && !s.escape.Quotes():
		s.inString = false
		return s.escape.End()
	}
	s.length++
	return s.escape.Next(c)
}

// shorten returns what to keep of the next bytes. The result is p or the shortener's
// memory: it is valid until the next call, and as long as p is.
func (s *shortener) shorten(p []byte) []byte { return s.scan(p, maxHead) }

// scan processes p, and returns p with each string cut after its first head bytes.
func (s *shortener) scan(p []byte, head int) []byte {
	s.out = s.out[:0]
	from := 0 // p[:from] is already in out, or was dropped
	for i := 0; i < len(p); {
		if !s.escape.Open() {
			if s.inString && !s.dropping && s.length >= head && p[i] != '"' {
				s.dropping, s.kept, s.unquoted = true, s.length, 0
				s.out = append(s.out, p[from:i]...)
			}
			if n := s.skip(p[i:], head); n > 0 {
				i += n
				continue
			}
		}
		n := s.next(p[i])
		if s.dropping {
			s.unquoted += n
			if !s.inString {
				s.end()
				from = i
			}
		}
		i++
	}
	switch {
	case s.dropping:
		return s.out
	case from == 0 && len(s.out) == 0:
		return p
	}
	s.out = append(s.out, p[from:]...)
	return s.out
}

// skip processes bytes without looking at each of them, and returns how many. In a
// string it stops at the next quote or backslash. Outside of strings it stops at the next
// backslash, and counts the quotes before it: the strings there are too short to be cut.
func (s *shortener) skip(p []byte, head int) (n int) {
	switch {
	case s.dropping:
		n = jsonscan.PlainLen(p)
		s.unquoted += n
	case s.inString:
		n = jsonscan.PlainLen(p[:min(len(p), max(0, head-s.length))])
	default:
		p = p[:min(len(p), head)]
		if n = bytes.IndexByte(p, '\\'); n >= 0 {
			p = p[:n]
		}
		s.inString = bytes.Count(p, quote)%2 != 0
		s.length = len(p) - bytes.LastIndexByte(p, '"') - 1 // unused if no string is open
		return len(p)
	}
	s.length += n
	return n
}

var quote = []byte{'"'}

// end ends a string that was shortened.
func (s *shortener) end() {
	if s.dropping {
		s.out = jsonscan.AppendGap(s.out, s.length-s.kept, s.unquoted+s.escape.End())
		s.dropping = false
	}
}

// finish returns what to append at the end of the line.
func (s *shortener) finish() []byte {
	s.out = s.out[:0]
	s.end()
	s.on = false
	return s.out
}
