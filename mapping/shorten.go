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
	head     int // how much of it is kept, if the rest is dropped
	escape   jsonscan.Escape
	dropping bool
	unquoted int // bytes of what was dropped, unescaped
	out      []byte
}

// begin processes the beginning of a line that has become too long.
func (s *shortener) begin(line []byte) {
	*s = shortener{on: true, out: s.out}
	for _, c := range line {
		s.next(c)
	}
}

// next processes one byte. It returns how many unescaped bytes of a string the byte
// completes.
func (s *shortener) next(c byte) (unescaped int) {
	switch {
	case c == '"' && !s.inString:
		s.inString, s.length = true, 0
	case c == '"' && !s.escape.Quotes():
		s.inString = false
		return s.escape.End()
	case s.inString:
		s.length++
		return s.escape.Next(c)
	}
	return 0
}

// shorten returns what to keep of the next bytes. The result is valid until the
// next call.
func (s *shortener) shorten(p []byte) []byte {
	s.out = s.out[:0]
	for len(p) > 0 {
		if !s.inString {
			n := bytes.IndexByte(p, '"') + 1
			if n == 0 {
				n = len(p)
			} else {
				s.next('"')
			}
			s.out, p = append(s.out, p[:n]...), p[n:]
			continue
		}
		if !s.dropping && s.length >= maxHead && p[0] != '"' && !s.escape.Open() {
			s.dropping, s.head, s.unquoted = true, s.length, 0
		}
		if n := s.plain(p); n > 0 {
			if s.length += n; s.dropping {
				s.unquoted += n
			} else {
				s.out = append(s.out, p[:n]...)
			}
			p = p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		n := s.next(c)
		if s.dropping {
			s.unquoted += n
			if s.inString {
				continue
			}
			s.end()
		}
		s.out = append(s.out, c)
	}
	return s.out
}

// plain returns how many bytes at the start of p, within a string, need no further
// look.
func (s *shortener) plain(p []byte) (n int) {
	if s.escape.Open() {
		return 0
	}
	if !s.dropping {
		p = p[:min(len(p), max(0, maxHead-s.length))]
	}
	for n < len(p) && p[n] != '"' && p[n] != '\\' {
		n++
	}
	return n
}

// end ends a string that was shortened.
func (s *shortener) end() {
	if s.dropping {
		s.out = jsonscan.AppendGap(s.out, s.length-s.head, s.unquoted+s.escape.End())
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
