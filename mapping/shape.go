package mapping

import "bytes"

// A shape is a delta line but for its text and its timestamp. An agent writes
// deltas by the hundred thousand, and each is the one before with two other
// values: comparing the rest is five times as fast as reading it.
type shape struct {
	line        []byte
	event       event // of that line, pointing into it
	words       words // of the line that was read last
	text, stamp place // in line
}

// A place is where a value stands in a line.
type place struct{ start, end int }

// learn makes the line that l was read from the shape to compare with, if it
// is a delta.
func (s *shape) learn(line []byte, l *cursorLine) {
	s.text = place{}
	if l.kind != textDelta && l.kind != thinkingDelta || l.texts != 1 || l.stampAt.start < l.textAt.end {
		return
	}
	s.line = append(s.line[:0], line...)
	var again cursorLine
	if !decodeCursor(&reader{b: s.line}, &again) {
		return
	}
	s.event, s.event.words = again.event, &s.words
	s.text, s.stamp = again.textAt, again.stampAt
}

// read reads a line of the same shape.
func (s *shape) read(line []byte, ev *event) bool {
	if s.text.end == 0 || !bytes.HasPrefix(line, s.line[:s.text.start]) {
		return false
	}
	r := reader{b: line, i: s.text.start - 1}
	text := r.quoted()
	between := s.line[s.text.end:s.stamp.start]
	if r.bad || !bytes.HasPrefix(line[r.i-1:], between) {
		return false
	}
	digits := line[r.i-1+len(between):]
	ms := int64(0)
	for len(digits) > 0 && '0' <= digits[0] && digits[0] <= '9' && ms < maxMillis {
		ms, digits = 10*ms+int64(digits[0]-'0'), digits[1:]
	}
	if ms == 0 || ms >= maxMillis || !bytes.Equal(digits, s.line[s.stamp.end:]) {
		return false
	}
	*ev = s.event
	s.words.text = text
	ev.bytes, ev.stamp = unquotedLen(text), instant(ms)*1e6
	return true
}
