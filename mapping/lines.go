package mapping

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
)

const (
	// maxLine is how much of a line is kept for parsing. Lines of 27 MB have been
	// reported: a diff in a tool's result.
	maxLine = 64 << 20

	// maxTail is how much is kept of the end of a line past maxLine: Cursor
	// writes session_id and timestamp_ms last.
	maxTail = 4 << 10
)

// lines splits a stream into lines, however it is chunked. The objects of a JSON array
// that begins a line are lines, too, wherever the array has line breaks.
type lines struct {
	max  int
	line func(line, tail []byte) // tail is nil unless the line is longer than max: then line is its head

	buf, tail []byte
	cut       bool // the current line is past max
	short     shortener

	opening  bool // the current line may begin an array
	opened   int  // how much of arrayStart it has matched
	inArray  bool // the stream is in an array
	depth    int  // of the brackets in the array's current object, 0 between objects
	inString bool // of the object
	escaped  bool // the next byte of the string is
	broken   int  // how many of the last bytes match the beginning of brokenArray
}

const (
	arrayStart  = `[{"` // with white space in between
	beforeArray = " \t\uFEFF"
	brokenArray = "\n{\"" // a line of its own within an object: the array was cut off
)

// Write implements io.Writer. The slices it hands to line are valid only
// during the call.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		switch {
		case l.inArray:
			p = l.objects(p)
		case l.opening, len(l.buf) == 0 && strings.IndexByte(beforeArray+arrayStart[:1], p[0]) >= 0:
			p = l.openArray(p)
		default:
			head, rest, whole := bytes.Cut(p, newline)
			l.piece(head, whole)
			p = rest
		}
	}
	return n, nil
}

var newline = []byte{'\n'}

// openArray takes the bytes of which it is unknown yet whether they begin an array,
// and returns the rest.
func (l *lines) openArray(p []byte) []byte {
	l.opening = true
	for i, c := range p {
		switch {
		case c == arrayStart[l.opened]:
			if l.opened++; l.opened < len(arrayStart) {
				continue
			}
			l.opening, l.opened, l.inArray, l.depth, l.buf = false, 0, true, 1, append(l.buf[:0], '{')
			return p[i:]
		case len(l.buf)+i >= 1<<10:
		case l.opened > 0 && (c == ' ' || c == '\n' || c == '\r' || c == '\t'), l.opened == 0 && strings.IndexByte(beforeArray, c) >= 0:
			continue
		}
		before := append(bytes.Clone(l.buf), p[:i]...)
		l.opening, l.opened, l.buf = false, 0, l.buf[:0]
		for line := range bytes.Lines(before) {
			head, whole := bytes.CutSuffix(line, newline)
			l.piece(head, whole)
		}
		return p[i:]
	}
	l.buf = append(l.buf, p...)
	return nil
}

// objects takes the bytes of an array, passes on its objects, and returns what follows
// the array.
func (l *lines) objects(p []byte) []byte {
	from := 0 // of the current object
	for i, c := range p {
		if l.depth == 0 {
			switch c {
			case '{':
				l.depth, from = 1, i
			case ',', ' ', '\n', '\r', '\t':
			case ']':
				l.inArray = false
				return p[i+1:]
			default:
				l.inArray = false
				return p[i:]
			}
			continue
		}
		switch {
		case c == '\n':
			l.broken = 1
		case l.broken > 0 && c == brokenArray[l.broken]:
			l.broken++
		default:
			l.broken = 0
		}
		switch {
		case l.broken == len(brokenArray):
			l.keep(p[from:i])
			l.flush()
			l.inArray, l.depth, l.inString, l.escaped, l.broken = false, 0, false, false, 0
			l.buf = append(l.buf, '{')
			return p[i:]
		case l.escaped:
			l.escaped = false
		case l.inString:
			l.inString, l.escaped = c != '"', c == '\\'
		case c == '"':
			l.inString = true
		case c == ' ' || c == '\n' || c == '\r' || c == '\t': // is no part of a value's size
			l.keep(p[from:i])
			from = i + 1
		case c == '{' || c == '[':
			l.depth++
		case c == '}' || c == ']':
			if l.depth--; l.depth == 0 {
				l.keep(p[from : i+1])
				l.flush()
			}
		}
	}
	if l.depth > 0 {
		l.keep(p[from:])
	}
	return nil
}

// piece takes a piece of a line, or all the rest of it.
func (l *lines) piece(p []byte, whole bool) {
	if whole && len(l.buf) == 0 && len(p) <= l.max {
		l.line(p, nil) // the common case: no copy
		return
	}
	l.keep(p)
	if whole {
		l.flush()
	}
}

// end passes on a last line without a newline.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.flush()
	}
}

func (l *lines) keep(p []byte) {
	if !l.short.on && len(l.buf)+len(p) > maxWhole {
		l.short.begin(l.buf)
	}
	if l.short.on {
		p = l.short.shorten(p)
	}
	l.add(p)
}

func (l *lines) add(p []byte) {
	if room := l.max - len(l.buf); len(p) > room {
		l.cut = true
		l.buf, p = append(l.buf, p[:room]...), p[room:]
		if len(p) > maxTail {
			l.tail, p = l.tail[:0], p[len(p)-maxTail:]
		}
		l.tail = append(l.tail, p...)
		if over := len(l.tail) - maxTail; over > 0 {
			l.tail = append(l.tail[:0], l.tail[over:]...)
		}
		return
	}
	if len(p) > cap(l.buf)-len(l.buf) { // double it: append alone would copy megabytes again and again
		l.buf = grow(l.buf, min(max(len(p), len(l.buf)), l.max-len(l.buf)))
	}
	l.buf = append(l.buf, p...)
}

// grow returns a copy of b with room for n bytes more. It yields the processor
// between pieces: a goroutine that copies cannot be stopped, and while it copies
// megabytes, the garbage collector spins.
func grow(b []byte, n int) []byte {
	bigger := make([]byte, 0, len(b)+n)
	for piece := range slices.Chunk(b, 256<<10) {
		bigger = append(bigger, piece...)
		runtime.Gosched()
	}
	return bigger
}

func (l *lines) flush() {
	if l.short.on {
		l.add(l.short.finish())
	}
	if l.cut {
		l.line(l.buf, l.tail)
	} else {
		l.line(l.buf, nil)
	}
	l.buf, l.tail, l.cut = l.buf[:0], l.tail[:0], false
	if cap(l.buf) > 1<<20 {
		l.buf = nil // do not keep the memory of one huge line until the end
	}
}
