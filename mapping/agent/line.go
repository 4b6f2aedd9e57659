package agent

import (
	"bytes"

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
