package agent

import (
	"bytes"
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

// isoTime reads an instant such as "2026-08-09T19:08:20.940Z".
func isoTime(r *jsonscan.Reader) Instant {
	t, err := time.Parse(time.RFC3339Nano, string(r.Str()))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0
	}
	return Instant(t.UnixNano())
}

// trimLine removes a byte order mark and white space around a line.
func trimLine(text []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
}
