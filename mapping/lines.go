package mapping

import (
	"bytes"
	"runtime"
	"slices"
)

const (
	// maxLine is how much of a line is kept for parsing. Lines of 27 MB have been
	// reported: a diff in a tool's result.
	maxLine = 64 << 20

	// maxTail is how much is kept of the end of a line past maxLine: Cursor
	// writes session_id and timestamp_ms last.
	maxTail = 4 << 10
)

// lines splits a stream into lines, however it is chunked.
type lines struct {
	max  int
	line func(line, tail []byte) // tail is nil unless the line is longer than max: then line is its head

	buf, tail []byte
	cut       bool // the current line is past max
	short     shortener
}

// Write implements io.Writer. The slices it hands to line are valid only
// during the call.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		head, rest, whole := bytes.Cut(p, []byte{'\n'})
		if whole && len(l.buf) == 0 && len(head) <= l.max {
			l.line(head, nil) // the common case: no copy
		} else {
			l.keep(head)
			if whole {
				l.flush()
			}
		}
		p = rest
	}
	return n, nil
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

// grow returns a copy of b with room for n bytes more. It lets go of the processor
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
