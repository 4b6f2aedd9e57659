package content

// A scratch is what a Capture uses again, and what it remembers.
type scratch struct {
	buf        []byte
	unfinished []Value           // the items of the arrays and objects that are being read
	harmless   map[string]string // names of members, as written, in which there is no secret
	recent     recent
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

// recent are the values that were read last: agents write the arguments of a call
// down when it starts and again when it ends.
type recent struct {
	values [8]struct {
		raw   string
		value Value
		lost  int
	}
	next int
}

func (r *recent) find(raw []byte) (v Value, lost int, ok bool) {
	for i := range r.values {
		if known := &r.values[i]; known.raw == string(raw) && len(raw) > 0 {
			return known.value.Clone(), known.lost, true
		}
	}
	return Value{}, 0, false
}

// add remembers a value that will not be cut.
func (r *recent) add(raw string, v Value, lost int) {
	const longest = 8 << 10
	if raw == "" || len(raw) > longest {
		return
	}
	known := &r.values[r.next]
	known.raw, known.value, known.lost = raw, v, lost
	r.next = (r.next + 1) % len(r.values)
}
