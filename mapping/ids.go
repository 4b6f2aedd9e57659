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

// An operation is a kind of span.
type operation uint8

const (
	noOperation operation = iota
	invokeAgent
	chat
	deltas
	executeTool
	background
	approval
)

// A spanRef identifies a span of a run: the nth span of an operation. The root is
// invokeAgent 0.
type spanRef struct {
	operation operation
	n         int
}

var rootRef = spanRef{operation: invokeAgent}

// newRunKey derives a key. A recording of a live run has other times, and another
// content level gives spans other attributes, so both must have other ids: backends
// would mix the spans or show both.
func newRunKey(agent, session string, run int, first instant, opts *Options) runKey {
	return digest("run", agent, session, strconv.Itoa(run), strconv.FormatInt(int64(first), 10),
		strconv.FormatBool(opts.replay()), string(opts.Content), string(opts.Deltas))
}

func (k *runKey) traceID() [16]byte {
	sum := digest("trace", string(k[:]))
	return [16]byte(sum[:16])
}

// idsPerDigest is how many span ids are taken from one digest.
const idsPerDigest = sha256.Size / 8

// spanIDs are the ids that one digest gives: of spans n to n+3 of an operation.
type spanIDs struct {
	known bool
	block int
	sum   [sha256.Size]byte
}

// spanID derives the id of a span. Runs under one TRACEPARENT share a trace id,
// so the id of a span depends on its run too.
func (r *run) spanID(ref spanRef) [8]byte {
	ids := &r.ids[ref.operation]
	if block := ref.n / idsPerDigest; !ids.known || ids.block != block {
		var b [sha256.Size + 1 + 8]byte
		copy(b[:], r.key[:])
		b[sha256.Size] = byte(ref.operation)
		binary.LittleEndian.PutUint64(b[sha256.Size+1:], uint64(block))
		*ids = spanIDs{true, block, sha256.Sum256(b[:])}
	}
	return [8]byte(ids.sum[ref.n%idsPerDigest*8:])
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
