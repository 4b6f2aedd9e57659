package mapping

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// A runKey is what the ids of a run are derived from, so that the same capture
// gives the same ids whenever it is sent. It includes the run's first instant:
// a resumed session has the same id and may begin with the same call ids.
type runKey [sha256.Size]byte

func newRunKey(agent, session string, run int, first instant, replay bool) runKey {
	// A recording of a live run has other times, so it has to have other ids:
	// backends would mix the two.
	return digest("run", agent, session, strconv.Itoa(run), strconv.FormatInt(int64(first), 10), strconv.FormatBool(replay))
}

func (k runKey) traceID() []byte {
	sum := digest("trace", string(k[:]))
	return sum[:16]
}

// spanID derives the id of the nth span of a kind. Runs under one TRACEPARENT
// share a trace id, so a span's id depends on its run too.
func (k runKey) spanID(kind string, n int) []byte {
	sum := digest("span", string(k[:]), kind, strconv.Itoa(n))
	return sum[:8]
}

// digest hashes parts with their lengths: (12, 3) and (1, 23) must differ.
func digest(parts ...string) [sha256.Size]byte {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}
