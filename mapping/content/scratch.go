package content

// A scratch is what a Capture uses again, and what it remembers.
type scratch struct {
	buf        []byte
	unfinished []Value           // the items of the arrays and objects that are being read
	harmless   map[string]string // names of members, as written, in which there is no secret
}

func newScratch() *scratch { return &scratch{harmless: map[string]string{}} }

// buffer returns an empty buffer.
func (s *scratch) buffer() []byte {
	const mostKept = 64 << 10
	if cap(s.buf) > mostKept {
		s.buf = nil
	}
	return s.buf[:0]
}
