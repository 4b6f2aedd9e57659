package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// A Journal holds what a running process would lose if it were killed: open spans,
// as they would end now, and ended spans that are not delivered. It is a log file
// (log.go) that is never synced: the page cache outlives the process.
//
// The stream comes in pieces. What a piece adds is buffered until Commit or
// Checkpoint, then becomes one frame: a kill loses only pieces that had not
// reached the kernel. A separate goroutine writes.
//
// The process holds a lock file beside the log for as long as it lives. Its process
// id would not do, because ids are reused.
type Journal struct {
	s         Spool
	dir, base string
	note      []byte

	wake    chan struct{} // there is something to write
	stopped chan struct{} // the writer has returned; nil before it starts

	mu      sync.Mutex
	heads   [][]byte // each a ResourceSpans without spans
	next    uint64   // number of the next span
	live    []entry
	weight  int // bytes of live
	piece   []byte
	first   uint64 // number of the first span in piece
	head    int    // of the last span in piece
	open    []byte // of the last Checkpoint
	queued  batch
	spares  [][]byte      // empty chunks, for the next batches
	writing batch         // what the writer is doing
	written uint64        // spans below this number are on disk
	moved   chan struct{} // closed, and replaced, when written changes or err does
	size    int           // bytes of the log once queued is written
	evicted Evicted
	err     error // why the log is not being written; the next Checkpoint begins anew
	begun   bool  // there was a Checkpoint
	closed  bool
	keep    bool // leave the log in place when closed
	kept    bool

	out output // used by the writer only
}

// An entry is a span that has ended and is not delivered.
type entry struct {
	number uint64
	head   int
	wire   []byte
}

// An OpenSpan is an encoded span that has not ended.
type OpenSpan struct {
	Wire []byte
	Head int
}

// A batch is what the writer does next. It is in chunks, because a single buffer would
// leave more garbage, as it grows, than all spans take.
type batch struct {
	chunks [][]byte
	size   int    // bytes in them
	anew   bool   // write a new log instead of appending
	upTo   uint64 // spans below this number are in it or were before
}

const (
	// slack is how many bytes a log may exceed twice its live contents by before it
	// is compacted.
	slack = 256 << 10

	// maxQueued is how far a disk may fall behind, in bytes.
	maxQueued = 8 << 20

	// maxChunk is how many bytes of frames a chunk holds, unless a single frame is
	// larger.
	maxChunk = 128 << 10

	// maxSpares is how many chunks are kept to use again.
	maxSpares = 8
)

// errBehind says that the disk is too slow for the stream.
var errBehind = errors.New("the disk is too slow")

// NewJournal returns a journal for this process. head, an ExportTraceServiceRequest
// without spans, holds the resource and the scope of spans with head 0. Nothing is
// on disk before the first Checkpoint.
func (s Spool) NewJournal(to Destination, head []byte) *Journal {
	host, _ := os.Hostname()
	note, err := encodeNote(Note{Destination: to, Host: host, PID: os.Getpid()})
	return &Journal{
		s:     s,
		base:  fmt.Sprintf("%d-%s", os.Getpid(), random()),
		note:  note,
		heads: [][]byte{head},
		wake:  make(chan struct{}, 1),
		moved: make(chan struct{}),
		err:   err,
	}
}

// AddHead adds another resource or scope, as in NewJournal, and returns the
// number of this head.
func (j *Journal) AddHead(head []byte) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heads = append(j.heads, head)
	if j.begun && j.err == nil && !j.closed { // else the next Checkpoint has it
		j.queue(len(head), func(chunk []byte) []byte { return append(chunk, head...) })
	}
	return len(j.heads) - 1
}

// Append adds a span that has ended, as it appears in a ScopeSpans, to the current
// piece. It returns the span's number. wire must not change until the span is done and
// ReadsDone returns false.
func (j *Journal) Append(wire []byte, head int) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.next
	j.next++
	if j.closed {
		return n
	}
	j.live = append(j.live, entry{n, head, wire})
	j.weight += len(wire)
	if !j.begun || j.err != nil { // the next Checkpoint writes all that is live
		return n
	}
	if len(j.piece) == 0 {
		j.first, j.head = n, 0
	}
	if head != j.head {
		j.piece, j.head = appendHead(j.piece, head), head
	}
	if j.piece = append(j.piece, wire...); len(j.piece) > maxQueued {
		j.piece = nil
		j.fail(errBehind)
	}
	return n
}

// Commit ends a piece in which no run began, ended or changed its ids.
func (j *Journal) Commit() {
	j.mu.Lock()
	defer j.mu.Unlock()
	first, piece := j.takePiece()
	if len(piece) > 0 && j.begun && j.err == nil && !j.closed { // else the next Checkpoint has it
		j.enqueue(first, piece)
	}
}

// Checkpoint ends a piece. open holds the spans that have not ended, encoded.
// Checkpoint does not wait for the disk: it returns the error of an earlier write.
func (j *Journal) Checkpoint(open []OpenSpan) error {
	b := encodeOpen(open)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	before := j.err
	j.begun, j.open = true, b
	first, piece := j.takePiece()
	if j.stopped == nil || j.err != nil || j.size+len(piece)+len(b) > 2*(j.weight+len(b))+slack {
		j.err = nil
		j.compact()
	} else {
		j.enqueue(first, piece, b)
	}
	if j.stopped == nil {
		j.stopped = make(chan struct{})
		go j.write()
	}
	return before
}

// takePiece returns the records of the current piece, and begins another. They are
// valid until the next Append.
func (j *Journal) takePiece() (first, piece []byte) {
	if piece = j.piece; len(piece) > 0 {
		first = appendFirst(nil, j.first)
	}
	j.piece = piece[:0]
	return first, piece
}

// enqueue queues a frame of records for the writer.
func (j *Journal) enqueue(records ...[]byte) {
	added := j.queue(maxFrameHeader+sizeRecords(records), func(chunk []byte) []byte { return appendFrame(chunk, records...) })
	j.queued.upTo = j.next
	if j.queued.size > maxQueued+j.weight || added > maxFrame {
		j.fail(errBehind)
	}
}

// queue adds up to size bytes, which add appends, to one chunk for the writer. It
// returns how many they are.
func (j *Journal) queue(size int, add func(chunk []byte) []byte) (added int) {
	q := &j.queued
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last])+size > maxChunk {
		var c []byte
		if spare := len(j.spares) - 1; spare >= 0 {
			c = j.spares[spare]
			j.spares = j.spares[:spare]
		} else if last >= 0 { // the disk has fallen behind
			c = make([]byte, 0, maxChunk)
		}
		q.chunks = append(q.chunks, c)
		last++
	}
	before := len(q.chunks[last])
	q.chunks[last] = add(q.chunks[last])
	added = len(q.chunks[last]) - before
	q.size += added
	j.size += added
	j.notify()
	return added
}

// compact queues a new log with only what is still needed. It does not copy spans, of
// which there may be megabytes. Call it right after a Checkpoint: the open spans of an
// older one may have ended and been delivered since.
func (j *Journal) compact() {
	head := bytes.Clone(j.note)
	for _, h := range j.heads {
		head = append(head, h...)
	}
	chunks := append(make([][]byte, 0, len(j.live)+4), head)
	var marks []byte // between spans
	mark := func(b []byte) {
		chunks = append(chunks, b[len(marks):])
		marks = b
	}
	last := 0
	for i, e := range j.live {
		if i == 0 || e.number != j.live[i-1].number+1 {
			mark(appendFirst(marks, e.number))
		}
		if e.head != last {
			mark(appendHead(marks, e.head))
			last = e.head
		}
		chunks = append(chunks, e.wire)
	}
	chunks = append(chunks, j.open)
	size := sizeRecords(chunks[1:])
	if size > maxFrame {
		j.fail(errTooBig)
		return
	}
	chunks[0] = appendFrameHeader(head, size)
	size += len(chunks[0])
	chunks = append(chunks, nil) // what comes next must not be appended to a span
	j.queued = batch{chunks: chunks, size: size, anew: true, upTo: j.next}
	j.size = size
	j.notify()
}

// ReadsDone reports whether the journal may still read spans that are done: then their
// memory must not be used again.
func (j *Journal) ReadsDone() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.queued.anew || j.writing.anew
}

func (j *Journal) notify() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// fail discards what is queued. Nothing is written until the next Checkpoint.
func (j *Journal) fail(err error) {
	j.err, j.queued = err, batch{}
	j.broadcast()
}

func (j *Journal) broadcast() {
	close(j.moved)
	j.moved = make(chan struct{})
}

// Done marks the spans numbered from up to, but not including, to: they need no
// recovery.
func (j *Journal) Done(from, to uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if from >= to || j.closed {
		return
	}
	kept := j.live[:0]
	for i, e := range j.live {
		if e.number >= to { // they are in order
			kept = append(kept, j.live[i:]...)
			break
		}
		if e.number < from {
			kept = append(kept, e)
			continue
		}
		j.weight -= len(e.wire)
	}
	clear(j.live[len(kept):])
	j.live = kept
	if j.begun && j.err == nil {
		j.enqueueDone(from, to)
	}
}

func (j *Journal) enqueueDone(from, to uint64) {
	upTo := j.queued.upTo
	j.enqueue(appendDone(nil, from, to))
	j.queued.upTo = max(upTo, j.written) // a piece may be half done
}

// Written reports whether the spans below number may be sent: they are on disk,
// along with the open spans that belong to them, or the journal does not promise
// that they will be. If not, moved is closed when that may have changed. A span that
// is sent earlier would have a root with another id after a kill.
func (j *Journal) Written(number uint64) (done bool, moved <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.begun || j.closed || j.err != nil || j.written >= number, j.moved
}

// Err returns why the log is not being written, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// TakeEvicted returns what was evicted for the journal since the last call.
func (j *Journal) TakeEvicted() Evicted {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.evicted
	j.evicted = Evicted{}
	return e
}

// Close ends the journal. With keep, a journal that holds undelivered spans stays
// on disk for another process to recover, and Close reports whether it holds all of
// them. Close returns when ctx ends, even if the disk does not answer.
func (j *Journal) Close(ctx context.Context, keep bool) (kept bool) {
	j.mu.Lock()
	j.closed, j.keep = true, keep
	j.broadcast()
	stopped := j.stopped
	j.mu.Unlock()
	if stopped == nil {
		return false
	}
	j.notify()
	select {
	case <-stopped:
	case <-ctx.Done():
		select {
		case <-stopped:
		default:
			return false
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.kept
}
