package mapping

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"go.opentelemetry.io/otel/trace"
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
	hook
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
		strconv.FormatBool(opts.Source != Pipe), string(opts.Content), string(opts.Deltas))
}

// maxRunKeys is how many keys are remembered.
const maxRunKeys = 1 << 16

// distinct returns key or, if an earlier run of the stream has that, one derived from it. An
// odd order of lines may give two runs the same session, number and first instant.
func (s *stream) distinct(key runKey) runKey {
	for s.keys[key] {
		key = digest("again", string(key[:]))
	}
	if s.copy {
		return key
	}
	if len(s.keys) >= maxRunKeys {
		clear(s.keys)
	}
	s.keys[key] = true
	return key
}

// idsPerDigest is how many span ids are taken from one digest.
const idsPerDigest = sha256.Size / 8

// ids are the ids of a run.
type ids struct {
	known bool
	key   runKey
	trace [16]byte // used if there is no parent
	root  [8]byte
}

func newIDs(key runKey) ids {
	traceID := digest("trace", string(key[:]))
	i := ids{known: true, key: key, trace: [16]byte(traceID[:16])}
	i.root = i.span(rootRef)
	return i
}

// span derives the id of a span. Runs under one TRACEPARENT share a trace id,
// so the id of a span depends on its run too.
func (i *ids) span(ref spanRef) [8]byte {
	if ref == rootRef && i.root != [8]byte{} { // of the run that this one continues
		return i.root
	}
	var b [sha256.Size + 1 + 8]byte
	copy(b[:], i.key[:])
	b[sha256.Size] = byte(ref.operation)
	binary.LittleEndian.PutUint64(b[sha256.Size+1:], uint64(ref.n/idsPerDigest))
	sum := sha256.Sum256(b[:])
	return [8]byte(sum[ref.n%idsPerDigest*8:])
}

// traceID returns the trace's id, which is the parent's if there is one.
func (i *ids) traceID(parent trace.SpanContext) [16]byte {
	if parent.IsValid() {
		return parent.TraceID()
	}
	return i.trace
}

// digest hashes parts with their lengths: (12, 3) and (1, 23) must differ.
func digest(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256) // on the stack
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}
