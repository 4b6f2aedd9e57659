package mapping

import (
	"bytes"
	"math"

	"github.com/spantee/spantee/mapping/jsonscan"
)

const (
	// maxWhole is how long a line may be before its long strings are shortened: a
	// tool's output may have hundreds of megabytes, but only its length and its
	// beginning are ever used.
	maxWhole = 4 << 20

	// minHead is how much of such a string is kept at least. It is more than an attribute
	// may have.
	minHead = max(jsonscan.MinHead, 2*MaxAttribute)

	// maxHead is how much is kept at most: see [jsonscan.WholeEscapes].
	maxHead = minHead + 18
)

// A shortener shortens the strings of a line as the line comes in. It puts a gap
// (see [jsonscan.AppendGap]) where it drops a part of a string.
type shortener struct {
	on       bool
	inString bool
	kept     int    // bytes of the string
	dropped  int    // bytes of it after those
	unquoted int    // the same, unescaped
	rest     []byte // the last bytes, which may be the beginning of an escape
	out      []byte
}

// begin processes the beginning of a line that has become too long. It returns the same
// memory without the rest, because that beginning is kept whole.
func (s *shortener) begin(line []byte) []byte {
	*s = shortener{on: true, out: line}
	line = s.shorten(line, len(line))
	s.out = nil
	return line
}

// shorten returns what to keep of the next bytes: of each string no more than its first
// head bytes. The result is valid until the next call.
func (s *shortener) shorten(p []byte, head int) []byte {
	if len(s.rest) > 0 {
		p, s.rest = append(s.rest, p...), nil
	}
	s.out = s.out[:0]
	for len(p) > 0 {
		if !s.inString {
			n := bytes.IndexByte(p, '"') + 1
			if s.inString = n > 0; !s.inString {
				n = len(p)
			}
			s.out, p = append(s.out, p[:n]...), p[n:]
			continue
		}
		n := jsonscan.ClosingQuote(p)
		if n < 0 {
			n = jsonscan.WholeEscapes(p, len(p))
			s.text(p[:n], head)
			s.rest = bytes.Clone(p[n:])
			break
		}
		s.text(p[:n], head)
		s.end()
		s.out, p = append(s.out, '"'), p[n+1:]
	}
	return s.out
}

// text takes the next bytes of a string, which hold whole escapes.
func (s *shortener) text(p []byte, head int) {
	if s.dropped == 0 {
		n := min(len(p), max(0, head-s.kept))
		if n < len(p) {
			n = jsonscan.WholeEscapes(p, n)
		}
		s.out = append(s.out, p[:n]...)
		s.kept += n
		p = p[n:]
	}
	s.dropped += len(p)
	s.unquoted += jsonscan.UnquotedLen(p)
}

// end ends a string.
func (s *shortener) end() {
	if s.dropped > 0 {
		s.out = jsonscan.AppendGap(s.out, s.dropped, s.unquoted)
	}
	s.inString, s.kept, s.dropped, s.unquoted = false, 0, 0, 0
}

// finish returns what to append at the end of the line.
func (s *shortener) finish() []byte {
	s.out = s.out[:0]
	s.text(s.rest, math.MaxInt)
	s.end()
	s.on = false
	return s.out
}
