package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// A Journal holds what a running process would lose if it were killed: open spans,
// as they would end now, and ended spans that are not delivered. It is a log file
// (log.go) that is never synced: the page cache outlives the process. What is not
// delivered when the process ends stays in the log, which is renamed to wait with
// the requests.
//
// The stream comes in pieces. What a piece adds is buffered until Commit or
// Checkpoint, then becomes one frame: a kill loses only pieces that had not
// reached the kernel. A separate goroutine writes (writer.go).
type Journal struct {
	note []byte
	w    *logWriter

	mu     sync.Mutex
	heads  [][]byte // each a ResourceSpans without spans
	next   uint64   // number of the next span
	live   []entry
	weight int // bytes of live
	piece  []byte
	first  uint64 // number of the first span in piece
	head   int    // of the last span in piece
	size   int    // bytes of the log once all is written
	begun  bool   // there was a Checkpoint
	closed bool
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

// slack is how many bytes a log may exceed twice its live contents by before it
// is compacted.
const slack = 256 << 10

// NewJournal returns a journal for this process. head, an ExportTraceServiceRequest
// without spans, holds the resource and the scope of spans with head 0. Nothing is
// on disk before the first Checkpoint.
func (s Spool) NewJournal(to Destination, head []byte) *Journal {
	host, _ := os.Hostname()
	note, err := encodeNote(Note{Destination: to, Host: host, PID: os.Getpid()})
	return &Journal{note: note, w: newLogWriter(s, to, err), heads: [][]byte{head}}
}

// AddHead adds another resource or scope, as in NewJournal, and returns the
// number of this head.
func (j *Journal) AddHead(head []byte) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heads = append(j.heads, head)
	if j.begun && !j.closed { // else the first Checkpoint has it
		j.append(head, 0)
	}
	return len(j.heads) - 1
}

// Append adds a span that has ended, as it appears in a ScopeSpans, to the current
// piece. It returns the span's number. wire must not change any more.
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
	if !j.begun { // the first Checkpoint writes all that is live
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
		j.w.fail(errBehind)
	}
	return n
}

// Commit ends a piece in which no run began, ended or changed its ids.
func (j *Journal) Commit() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.piece) > 0 && !j.closed {
		j.append(newFrame(j.takePiece()...), j.next)
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
	records := append(j.takePiece(), b)
	failed := j.w.retry()
	if !j.begun || failed != nil || j.size+sizeRecords(records) > min(2*(j.weight+len(b))+slack, maxLog) {
		j.begun = true
		j.compact(b)
	} else {
		j.append(newFrame(records...), j.next)
	}
	return failed
}

// takePiece returns the records of the current piece, and begins another. They are
// valid until the next Append.
func (j *Journal) takePiece() (records [][]byte) {
	if len(j.piece) > 0 {
		records = [][]byte{appendFirst(nil, j.first), j.piece}
	}
	j.piece = j.piece[:0]
	return records
}

// append queues bytes for the writer. The spans below upTo are on disk once they are.
func (j *Journal) append(b []byte, upTo uint64) {
	j.size += len(b)
	j.w.append(b, upTo, maxQueued+j.weight)
}

// compact queues a new log with only what is still needed. It does not copy spans,
// because there may be megabytes of them.
func (j *Journal) compact(open []byte) {
	records := [][]byte{nil}
	head := 0
	for i, e := range j.live {
		if i == 0 || e.number != j.live[i-1].number+1 {
			records = append(records, appendFirst(nil, e.number))
		}
		if e.head != head {
			records = append(records, appendHead(nil, e.head))
			head = e.head
		}
		records = append(records, e.wire)
	}
	records = append(records, open)
	size := sizeRecords(records)
	if size > maxFrame {
		j.w.fail(errTooBig)
		return
	}
	records[0] = appendFrameHeader(slices.Concat(append([][]byte{bytes.Clone(j.note)}, j.heads...)...), size)
	j.size = len(records[0]) + size
	j.w.replace(records, j.next)
}

// Done marks the spans numbered from up to, but not including, to: they need no
// recovery.
func (j *Journal) Done(from, to uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if from >= to || j.closed {
		return
	}
	j.live = slices.DeleteFunc(j.live, func(e entry) bool {
		done := from <= e.number && e.number < to
		if done {
			j.weight -= len(e.wire)
		}
		return done
	})
	if j.begun {
		j.append(newFrame(appendDone(nil, from, to)), 0)
	}
}

// Written reports whether the spans below number may be sent: they are on disk,
// along with the open spans that belong to them, or the journal does not promise
// that they will be. If not, moved is closed when that may have changed. A span that
// is sent earlier would have a root with another id after a kill.
func (j *Journal) Written(number uint64) (done bool, moved <-chan struct{}) {
	j.mu.Lock()
	unused := !j.begun || j.closed
	j.mu.Unlock()
	written, moved, err := j.w.progress()
	return unused || err != nil || written >= number, moved
}

// Err returns why the log is not being written, or nil.
func (j *Journal) Err() error {
	_, _, err := j.w.progress()
	return err
}

// TakeEvicted returns what was evicted for the journal since the last call.
func (j *Journal) TakeEvicted() Evicted { return j.w.takeEvicted() }

// Close ends the journal. It removes the log, or, given a reason why spans were not
// delivered, leaves those spans in it for another process to send. If the log has all of
// them, Close returns the number that comes after the last one. It returns shortly after
// ctx has ended, even if the disk does not answer.
func (j *Journal) Close(ctx context.Context, reason string) (below uint64, kept bool) {
	j.mu.Lock()
	keep := reason != "" && len(j.live) > 0
	j.mu.Unlock()
	if keep {
		_ = j.Checkpoint(nil) // on failure, more is recovered than necessary
	}
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	end := ending{spans: len(j.live)}
	all := j.next
	j.mu.Unlock()
	if closed {
		return 0, false
	}
	if keep {
		end.note, _ = encodeNote(Note{Reason: reason}) // a note without an endpoint is always valid
	}
	stopped := j.w.close(end)
	_, _ = within(ctx, func() (struct{}, error) { <-stopped; return struct{}{}, nil })
	// A log that was written and could not be renamed in time is recovered all the same.
	written, _, err := j.w.progress()
	if end.note == nil || err != nil || written < all {
		return 0, false
	}
	return all, true
}

// errBehind says that the disk is too slow for the stream.
var errBehind = errors.New("the disk is too slow")

func journalBase() string { return fmt.Sprintf("%d-%s", os.Getpid(), random()) }
