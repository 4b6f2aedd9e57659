package mapping

import (
	"bytes"
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
	short     shortener

	opening bool // the current line may begin an array
	inArray bool // the stream is in an array
	arrayObject
}

// An arrayObject is the state of an array's current object.
type arrayObject struct {
	depth    int  // of its brackets, 0 between objects
	inString bool // the last byte is part of a string
	escaped  bool // the next byte of the string is
	last     byte // outside of strings and white space
	fits     bool // the last bracket may stand where it does
	newLine  int  // how many of the last bytes match the beginning of newLineObject
	inner    int  // where in buf its last member or element begins that began a line
}

const (
	beforeArray   = " \t\uFEFF"
	space         = " \t\r\n"
	newLineObject = "\n{\"" // a line of its own within an object: the array may have been cut off
)

// Write implements io.Writer. The slices it hands to line are valid only
// during the call.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		switch {
		case l.inArray:
			p = l.objects(p)
		case l.opening, len(l.buf) == 0 && strings.IndexByte(beforeArray+"[", p[0]) >= 0:
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
	known := len(l.buf)
	text := append(l.buf, p[:min(len(p), maxOpening-known)]...)
	at, begins := firstObject(text)
	if l.opening = at < 0 && len(text) < maxOpening; l.opening {
		l.buf = text
		return nil
	}
	if begins {
		l.inArray, l.arrayObject, l.buf = true, arrayObject{depth: 1, last: '{'}, append(l.buf[:0], '{')
		return p[max(0, at+1-known):]
	}
	if at < 0 {
		at = len(text)
	}
	at = max(at, known)
	before := bytes.Clone(text[:at])
	l.buf = l.buf[:0]
	for line := range bytes.Lines(before) {
		head, whole := bytes.CutSuffix(line, newline)
		l.piece(head, whole)
	}
	return p[at-known:]
}

// maxOpening is how many bytes may come before the first object of an array.
const maxOpening = 1 << 10

// firstObject returns where an array's first object with members begins, or where it
// shows that a text begins no array, or -1 if that takes more of the text.
func firstObject(text []byte) (at int, begins bool) {
	for at < len(text) && strings.IndexByte(beforeArray, text[at]) >= 0 {
		at++
	}
	if at < len(text) && text[at] != '[' {
		return at, false
	}
	for at++; at < len(text); {
		rest := bytes.TrimLeft(text[at:], space+",")
		at = len(text) - len(rest)
		object, inner := bytes.CutPrefix(rest, []byte{'{'})
		object = bytes.TrimLeft(object, space)
		switch {
		case bytes.HasPrefix([]byte("null"), rest), inner && len(object) == 0:
			return -1, false
		case bytes.HasPrefix(rest, []byte("null")):
			at += len("null")
		case inner && object[0] == '}':
			at = len(text) - len(object) + 1
		default:
			return at, inner && object[0] == '"'
		}
	}
	return -1, false
}

// objects takes the bytes of an array, passes on its objects, and returns what follows
// the array.
func (l *lines) objects(p []byte) []byte {
	from := 0 // of the current object
	for i, c := range p {
		if l.depth == 0 {
			switch c {
			case '{':
				l.arrayObject, from = arrayObject{depth: 1, last: c}, i
			case ',', ' ', '\n', '\r', '\t', 'n', 'u', 'l':
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
		case c == newLineObject[0]:
			l.newLine = 1
		case 0 < l.newLine && l.newLine < len(newLineObject) && c == newLineObject[l.newLine]:
			l.newLine++
		default:
			l.newLine = 0
		}
		switch {
		case l.newLine == len(newLineObject) && (l.inString || !l.fits):
			l.keep(p[from:i])
			l.breakOff()
			return p[i:]
		case l.escaped:
			l.escaped = false
		case l.inString:
			l.inString, l.escaped = c != '"', c == '\\'
		case c == ' ' || c == '\n' || c == '\r' || c == '\t': // is no part of a value's size
			l.keep(p[from:i])
			from = i + 1
		case c == '"':
			l.inString, l.last = true, c
		case c == '{' || c == '[':
			l.depth++
			l.fits = l.last == ':' || l.last == ',' || l.last == '['
			if l.newLine > 0 && l.fits && !l.short.on {
				l.inner = len(l.buf) + i - from
			}
			l.last = c
		case c == '}' || c == ']':
			if l.last = c; l.depth == 1 {
				l.keep(p[from : i+1])
				l.flush()
			}
			l.depth--
		default:
			l.last = c
		}
	}
	if l.depth > 0 {
		l.keep(p[from:])
	}
	return nil
}

// breakOff ends an array within an object, where an object begins that is a line of its
// own. If the last object within it began a line, too, the array was cut off before that.
func (l *lines) breakOff() {
	if i := l.inner; 0 < i && i < len(l.buf) && !l.short.on {
		inner := bytes.Clone(bytes.TrimSuffix(l.buf[i:], []byte{'{'}))
		l.buf = l.buf[:i]
		l.flush()
		l.buf = append(l.buf, inner...)
	}
	l.flush()
	l.inArray, l.arrayObject = false, arrayObject{}
	l.buf = append(l.buf, '{')
}

// piece takes the next piece of a line. whole says that the line ends with it.
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
		l.buf = l.short.begin(l.buf)
	}
	if l.short.on {
		p = l.short.shorten(p, maxHead)
	}
	l.add(p)
}

func (l *lines) add(p []byte) {
	if room := l.max - len(l.buf); len(p) > room {
		l.buf, l.tail = append(l.buf, p[:room]...), append(l.tail, p[room:]...)
		l.tail = slices.Delete(l.tail, 0, max(0, len(l.tail)-maxTail))
		return
	}
	l.buf = append(l.buf, p...)
}

func (l *lines) flush() {
	if l.short.on {
		l.add(l.short.finish())
	}
	l.line(l.buf, l.tail)
	l.buf, l.tail = l.buf[:0], nil
	if cap(l.buf) > 1<<20 {
		l.buf = nil // do not keep the memory of one huge line until the end
	}
}
