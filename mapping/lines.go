package mapping

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
)

const (
	// maxLine is how much of a line is kept for parsing. Longer lines exist, such as a
	// diff of 27 MB in a tool's result, but only the beginning of such a text is ever
	// used.
	maxLine = 16 << 20

	// maxTail is how much is kept of the end of a line past maxLine: Cursor
	// writes session_id and timestamp_ms last.
	maxTail = 4 << 10
)

// lines splits a stream into lines, however it is chunked. The objects of a JSON array
// that begins a line are lines, too, wherever the array has line breaks.
type lines struct {
	max  int
	line func(line, tail []byte) // of a line over max, line is the head and tail the end; otherwise tail is nil

	buf, tail []byte
	opening   bool // buf may begin an array
	checked   int  // bytes of buf that are no whole object
	early     bool // the current line was passed on before its newline came
	array
}

// An array is the state of an array that is read.
type array struct {
	in      bool // the stream is in an array
	newLine bool // the last byte is a line break
	nesting      // in the current object
}

// A nesting says where in a JSON text its end is.
type nesting struct {
	depth    int  // of the brackets
	inString bool // the last byte is part of a string
	escaped  bool // the next byte of the string is
}

// read moves over a byte.
func (n *nesting) read(c byte) {
	switch {
	case n.escaped:
		n.escaped = false
	case n.inString:
		n.inString, n.escaped = c != '"', c == '\\'
	case c == '"':
		n.inString = true
	case c == '{' || c == '[':
		n.depth++
	case c == '}' || c == ']':
		n.depth--
	}
}

const (
	beforeArray = " \t\uFEFF"
	space       = " \t\r\n"

	// maxOpening is how many bytes may come before the first object of an array.
	maxOpening = 1 << 10
)

// Write takes the next bytes of the stream. The slices it hands to line are valid only
// during the call.
func (l *lines) Write(p []byte) {
	for len(p) > 0 {
		switch {
		case l.in:
			p = l.objects(p)
		case l.opening, len(l.buf) == 0 && strings.IndexByte(beforeArray+"[", p[0]) >= 0:
			p = l.openArray(p)
		default:
			head, rest, whole := bytes.Cut(p, newline)
			l.piece(head, whole)
			p = rest
		}
	}
}

var newline = []byte{'\n'}

// openArray takes the bytes of which it is unknown yet whether they begin an array,
// and returns the rest. An array begins with a bracket and an object.
func (l *lines) openArray(p []byte) []byte {
	for i, c := range p {
		before, bracket := beforeArray+"[", bytes.IndexByte(l.buf, '[') >= 0
		if bracket {
			before = space
		}
		if strings.IndexByte(before, c) >= 0 && len(l.buf) < maxOpening {
			l.buf = append(l.buf, c)
			continue
		}
		l.opening = false
		text := l.buf
		l.buf = nil
		if bracket && c == '{' {
			l.in = true
			return p[i:]
		}
		for line := range bytes.Lines(text) {
			head, whole := bytes.CutSuffix(line, newline)
			l.piece(head, whole)
		}
		return p[i:]
	}
	l.opening = true
	return nil
}

// objects takes the bytes of an array, passes on its objects, and returns what follows
// the array.
func (l *lines) objects(p []byte) []byte {
	from := 0 // of the current object
	for i, c := range p {
		lineBegins, inObject, inString := l.newLine, l.depth > 0, l.inString
		l.newLine = c == '\n'
		switch {
		case !inObject && c == '{':
			from = i
		case !inObject && c == ']':
			l.array = array{}
			return p[i+1:]
		case !inObject && strings.IndexByte(",nul"+space, c) < 0: // neither white space nor null
			l.array = array{}
			return p[i:]
		case inObject && lineBegins && c == '{': // the array was cut off, and this is a line of its own
			l.keep(p[from:i])
			l.flush()
			l.array = array{}
			return p[i:]
		case inObject && !inString && strings.IndexByte(space, c) >= 0: // is no part of a value's size
			l.keep(p[from:i])
			from = i + 1
		}
		if l.read(c); inObject && l.depth == 0 {
			l.keep(p[from : i+1])
			l.flush()
		}
	}
	if l.depth > 0 {
		l.keep(p[from:])
	}
	return nil
}

// piece takes the next piece of a line. whole says that the line ends with it.
func (l *lines) piece(p []byte, whole bool) {
	if l.early {
		if len(bytes.TrimSpace(p)) == 0 {
			l.early = !whole
			return
		}
		l.early = false // another line without a newline in between
	}
	if whole && len(l.buf) == 0 && len(p) <= l.max {
		l.line(p, nil) // the common case: no copy
		return
	}
	l.keep(p)
	if whole {
		l.flush()
	}
}

// endEarly passes on the last line if it is a whole event: the newline may never come.
func (l *lines) endEarly() {
	if len(l.buf) == l.checked || l.tail != nil || l.in {
		return
	}
	l.checked = len(l.buf)
	named := bytes.Contains(l.buf, []byte(`"type"`)) || bytes.Contains(l.buf, []byte(`"event"`)) // Antigravity's
	if !named || !bytes.HasSuffix(bytes.TrimRight(l.buf, space), []byte{'}'}) {
		return
	}
	r := jsonscan.Reader{B: l.buf}
	if r.Peek() != '{' {
		return
	}
	if r.Skip(); r.End() && !r.Bad {
		l.flush()
		l.early = true
	}
}

// end passes on a last line without a newline.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.flush()
	}
}

func (l *lines) keep(p []byte) {
	if room := l.max - len(l.buf); len(p) > room {
		l.buf, l.tail = append(l.buf, p[:room]...), append(l.tail, p[room:]...)
		l.tail = slices.Delete(l.tail, 0, max(0, len(l.tail)-maxTail))
		return
	}
	l.buf = append(l.buf, p...)
}

func (l *lines) flush() {
	l.line(l.buf, l.tail)
	l.buf, l.tail, l.checked = l.buf[:0], nil, 0
	if cap(l.buf) > 1<<20 {
		l.buf = nil // do not keep the memory of one huge line until the end
	}
}
