package agent

import (
	"bytes"
	"strconv"
	"time"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// maxMillis keeps a time in milliseconds within an Instant.
const maxMillis = 1 << 63 / 1000000

// millis reads an instant in milliseconds.
func millis(r *jsonscan.Reader) Instant {
	if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
		return Instant(ms) * Milliseconds
	}
	return 0
}

// trimLine removes a byte order mark and white space around a line.
func trimLine(text []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
}

// readObjects appends the events of every JSON object of a line. read reads one;
// it returns false if the object is no line of the agent's.
func readObjects(line Line, dst []Event, read func(*jsonscan.Reader, []Event) ([]Event, bool)) []Event {
	r := jsonscan.Reader{B: trimLine(line.Text)}
	for !r.End() {
		from := len(dst)
		ok := r.Peek() == '{'
		if ok {
			dst, ok = read(&r, dst)
		}
		if !ok || r.Bad && line.Tail == nil {
			return append(dst[:from], Event{Kind: Malformed})
		}
		for i := from; i < len(dst); i++ {
			dst[i].Arrival = line.Arrival
		}
	}
	return dst
}

// isoTime reads an instant as ISO 8601 has it.
func isoTime(r *jsonscan.Reader) Instant {
	t, err := time.Parse(time.RFC3339Nano, string(r.Str()))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0
	}
	return Instant(t.UnixNano())
}

// readCount reads a number of tokens.
func readCount(r *jsonscan.Reader, to *int64, known *bool) {
	if n, ok := r.Int(); ok && n >= 0 {
		*to, *known = n, true
	}
}

// readCost reads a sum in USD.
func readCost(r *jsonscan.Reader, u *Usage) {
	v, err := strconv.ParseFloat(string(r.Raw()), 64)
	if err == nil && v >= 0 && v < 1e9 {
		u.Cost, u.CostKnown = v, true
	}
}
