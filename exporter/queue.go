package exporter

import (
	"slices"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// maxPiece is the number of bytes by which the spans of a piece may overfill a queue
// that was full at the beginning of the piece.
const maxPiece = 1 << 20

const (
	// longPatience is how long a stream waits for room while the collector accepts
	// nothing: it may be slow, or say that it is busy.
	longPatience = time.Minute
	// patience is the same for a collector that does not answer.
	patience = 2 * time.Second
	// maxDelay is the longest delay asked for by a receiver that a stream or Flush waits
	// out.
	maxDelay = time.Minute
)

// A queue holds the spans that are not being sent yet, in batches, the oldest first.
type queue struct {
	limit     int           // bytes, with the batch in flight
	full      int           // bytes of spans that make a request
	interval  time.Duration // how long a span waits for others to join it
	recording bool
	delay     func() time.Duration // for which the receiver wants no requests
	closing   <-chan struct{}

	wake chan struct{} // there may be a batch to send

	mu         sync.Mutex
	batches    []*batch
	bytes      int
	inFlight   int          // bytes of the batch that is being delivered
	since      time.Time    // when delivery of inFlight began or last made progress
	failure    *UploadError // the last one; nil after a success
	roomMade   chan struct{}
	waits      bool // for room
	closed     bool
	inPiece    bool
	pieceLimit int // the limit during a piece
}

// A batch is a request's worth of spans of one origin. They are kept encoded:
// decoded, they would take several times the memory.
type batch struct {
	*origin
	wire    []byte    // of the spans
	ends    []int     // of each span, in wire
	numbers []uint64  // of each span, in the journal
	at      time.Time // when the first span arrived
}

// begin waits for room for a piece, which may then overfill the queue.
func (q *queue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inPiece {
		return
	}
	q.awaitRoom(1)
	q.inPiece, q.pieceLimit = true, q.limit+maxPiece
	if q.hasRoom(1, q.limit) {
		q.pieceLimit = q.bytes + q.inFlight + 1<<40
	}
}

func (q *queue) endPiece() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inPiece = false
}

// add adds a span. It returns the batches evicted for it: the oldest are evicted
// first, because the root ends last, and a trace without its root is worth little.
func (q *queue) add(o *origin, span []byte, j *spool.Journal) (evicted []*batch) {
	size := spool.SizeSpan(span)
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.pieceLimit
	if !q.inPiece {
		limit = q.limit
		q.awaitRoom(size)
	}
	for len(q.batches) > 0 && !q.hasRoom(size, limit) {
		evicted = append(evicted, q.take())
	}
	b := o.filling
	if b == nil || len(b.wire)+size > q.full {
		b = &batch{origin: o, at: time.Now()}
		o.filling = b
		q.batches = append(q.batches, b)
	}
	start := len(b.wire)
	b.add(span, size)
	q.bytes += size
	if j != nil {
		b.numbers = append(b.numbers, j.Append(b.wire[start:], o.head))
		if !q.inPiece {
			j.Commit()
		}
	}
	if len(b.ends) == 1 || q.isFull() {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return evicted
}

// awaitRoom waits, if the queue waits at all, until size more bytes fit or the collector
// has accepted nothing for too long. Nothing else waits for room. It is called, and
// returns, with q.mu held.
func (q *queue) awaitRoom(size int) {
	for q.waits && !q.closed && !q.hasRoom(size, q.limit) {
		left := longPatience
		if f := q.failure; f != nil && (f.Verdict == Unreachable || f == errTimeout) {
			left = patience
			if !q.recording {
				return // a live stream may wait for us
			}
		}
		if q.inFlight > 0 {
			left -= time.Since(q.since)
		}
		if delay := q.delay(); delay > 0 && delay <= maxDelay {
			left = max(left, delay+patience)
		}
		if left <= 0 {
			return
		}
		roomMade := q.roomMade
		q.mu.Unlock()
		select {
		case <-roomMade:
		case <-q.closing:
		case <-time.After(left):
		}
		q.mu.Lock()
	}
}

func (q *queue) hasRoom(size, limit int) bool { return q.bytes+q.inFlight+size <= limit }

func (q *queue) isFull() bool {
	return len(q.batches) > 0 && q.batches[0].overhead+q.bytes >= q.full
}

// setWait sets whether the stream waits for room, and releases one that waits.
func (q *queue) setWait(waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = waits
	q.wakeWaiting()
}

// wakeWaiting is called with q.mu held.
func (q *queue) wakeWaiting() {
	close(q.roomMade)
	q.roomMade = make(chan struct{})
}

// take takes the oldest batch, nil if there is none. It is called with q.mu held.
func (q *queue) take() *batch {
	if len(q.batches) == 0 {
		return nil
	}
	b := q.batches[0]
	q.batches = slices.Delete(q.batches, 0, 1)
	q.bytes -= len(b.wire)
	if b.filling == b {
		b.filling = nil
	}
	return b
}

// next waits for a full batch, for one that has waited long enough, or for the end. It
// returns nil after the last batch.
func (q *queue) next() *batch {
	for {
		b, due, last := q.nextDue()
		if b != nil || last {
			return b
		}
		select {
		case <-q.wake:
		case <-due:
		case <-q.closing:
		}
	}
}

// nextDue returns the next batch if it is due. Otherwise due fires when it will be, or
// last reports that there are no more.
func (q *queue) nextDue() (b *batch, due <-chan time.Time, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return nil, nil, q.closed
	}
	left := q.interval - time.Since(q.batches[0].at)
	if left > 0 && !q.isFull() && !q.closed {
		return nil, time.After(left), false
	}
	b = q.take()
	q.inFlight, q.since = len(b.wire), time.Now()
	return b, nil, false
}

// done makes room: the batch in flight was delivered or abandoned.
func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight = 0
	q.wakeWaiting()
}

// progressed records that the receiver accepted something.
func (q *queue) progressed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failure, q.since = nil, time.Now()
}

func (q *queue) failed(why *UploadError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failure = why
	q.wakeWaiting()
}

func (q *queue) lastFailure() *UploadError {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failure
}

func (q *queue) close() (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first = !q.closed
	q.closed = true
	return first
}

// takeAll takes what the sender left behind.
func (q *queue) takeAll() (all []*batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for b := q.take(); b != nil; b = q.take() {
		all = append(all, b)
	}
	return all
}

// smallRequest is how many bytes of spans a small request has.
const smallRequest = 32 << 10

// add adds a span. A buffer that is not small grows to a full request at once,
// because the journal keeps the former buffers in memory.
func (b *batch) add(span []byte, size int) {
	if cap(b.wire)-len(b.wire) < size {
		more := max(size, len(b.wire))
		if more > smallRequest {
			more = max(size, fullRequest-len(b.wire))
		}
		b.wire = slices.Grow(b.wire, more)
	}
	b.wire = spool.AppendSpan(b.wire, span)
	b.ends = append(b.ends, len(b.wire))
}

// request returns the request that the batch is sent in.
func (b *batch) request() request {
	r := b.with(make([][]byte, len(b.ends)))
	start := 0
	for i, end := range b.ends {
		r.Spans[i] = b.wire[start:end]
		start = end
	}
	return r
}

// from returns a request of the spans from a number in the journal on.
func (b *batch) from(number uint64) request {
	r := b.request()
	first, _ := slices.BinarySearch(b.numbers, number)
	return r.with(r.Spans[min(first, len(r.Spans)):])
}
