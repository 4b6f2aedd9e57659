package agent

import (
	"bytes"
	"strconv"
	"time"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// maxMillis is the largest time in milliseconds that fits into an Instant.
const maxMillis = 1 << 63 / 1000000

// millis reads an instant in milliseconds.
func millis(r *jsonscan.Reader) Instant {
	if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
		return Instant(ms) * Milliseconds
	}
	return 0
}

// isoTime reads an instant such as "2026-08-09T19:08:20.940Z".
func isoTime(r *jsonscan.Reader) Instant {
	t, err := time.Parse(time.RFC3339Nano, string(r.Str()))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0
	}
	return Instant(t.UnixNano())
}

// readID reads an id: a string, or a number as some programs write it.
func readID(r *jsonscan.Reader) []byte {
	switch c := r.Peek(); {
	case c == '"':
		return jsonscan.Unquote(r.Quoted())
	case '0' <= c && c <= '9':
		return r.Raw()
	}
	r.Skip()
	return nil
}

// unquoteID returns an unescaped id, in buf if the id has escapes. plain says that it has
// none.
func unquoteID(buf *[]byte, id []byte, plain bool) []byte {
	if plain || bytes.IndexByte(id, '\\') < 0 {
		return id
	}
	from := len(*buf)
	*buf = jsonscan.AppendUnquoted(*buf, id)
	return (*buf)[from:len(*buf):len(*buf)]
}

// trimLine removes a byte order mark and white space around a line.
func trimLine(text []byte) []byte {
	return bytes.TrimSpace(trimMark(text))
}

// trimMark removes a byte order mark before a line.
func trimMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\uFEFF")) }

// An objectReader appends the events of the next JSON object. It returns false if
// the object has no type.
type objectReader interface {
	read(*jsonscan.Reader, []Event) ([]Event, bool)
}

// A scanner walks lines. It is part of a Decoder so that no line has to allocate
// it, or the calls of tools.
type scanner struct {
	r    jsonscan.Reader
	pool calls
}

// readObjects appends the events of every JSON object of a line.
func (s *scanner) readObjects(line Line, dst []Event, reader objectReader) []Event {
	s.r, s.pool.used = jsonscan.Reader{B: trimLine(line.Text)}, 0
	r := &s.r
	for !r.End() {
		from := len(dst)
		ok := r.Peek() == '{'
		if ok {
			dst, ok = reader.read(r, dst)
		}
		if !ok || r.Bad && line.Tail == nil {
			return append(dst[:from], Event{Kind: Malformed})
		}
		for i := from; i < len(dst); i++ {
			if dst[i].Arrival == 0 { // the event was not held back
				dst[i].Arrival = line.Arrival
			}
		}
	}
	return dst
}

// number reads a count.
func (f *facts) number(r *jsonscan.Reader, key string) {
	if n, ok := r.Int(); ok && n >= 0 {
		f.int(key, n)
	}
}

// errorText reads what an error says: a text, or an object with a message.
func errorText(r *jsonscan.Reader) (text []byte) {
	if r.Peek() == '"' {
		return r.Str()
	}
	for key := range r.Members() {
		if string(key) == "message" {
			text = r.Str()
		} else {
			r.Skip()
		}
	}
	return text
}

// finishReasons maps providers' finish reasons to the conventions'.
var finishReasons = map[string]string{
	"stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "endTurn": "stop",
	"tool-calls": "tool_call", "tool_calls": "tool_call", "tool_use": "tool_call", "toolUse": "tool_call",
	"length": "length", "max_tokens": "length",
	"content-filter": "content_filter", "content_filter": "content_filter", "refusal": "content_filter",
	"error": "error",
}

// finishReason returns why a model stopped, "" if that is not known.
func finishReason(reason []byte) string { return finishReasons[string(reason)] }

// readCount reads a number of tokens.
func readCount(r *jsonscan.Reader, to *int64, known *bool) {
	if n, ok := r.Int(); ok && n >= 0 {
		*to, *known = n, true
	}
}

// readCost reads a sum in USD.
func readCost(r *jsonscan.Reader, u *Usage) {
	v, err := strconv.ParseFloat(string(bytes.Trim(r.Raw(), `"`)), 64)
	if err == nil && v >= 0 && v < 1e9 {
		u.Cost, u.CostKnown = v, true
	}
}
