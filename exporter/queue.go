package exporter

import (
	"slices"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

const (
	// shortPatience is the longest patience if nothing listens at the collector's address.
	shortPatience = 2 * time.Second
	// leastPatience is the least without a log to leave spans in: they would be lost. It is less
	// than the time after which a stream goes on without its mapper.
	leastPatience = time.Second
	// maxDelay is the longest delay asked for by a receiver that a stream or Flush waits
	// out.
	maxDelay = time.Minute
	// maxDelays is how long a stream waits for a receiver that asks for one delay after
	// another, and accepts nothing.
	maxDelays = 5 * time.Minute
)

// A queue holds the spans that are not being sent yet, in batches, the oldest first.
type queue struct {
	limit    int                  // bytes, with the batch in flight
	full     int                  // bytes of spans that make a request
	interval time.Duration        // how long a span waits for others to join it
	delay    func() time.Duration // for which the receiver wants no requests

	closing chan struct{} // closed when Close has begun
	wake    chan struct{} // there may be a batch to send

	mu       sync.Mutex
	batches  []*batch
	bytes    int
	inFlight int          // bytes of the batch that is being delivered
	progress time.Time    // when delivery of inFlight began or last made progress
	failure  *UploadError // the last one; nil after a success
	roomMade chan struct{}
	ending   bool      // of the stream: the limit applies no more
	deadline time.Time // of attempts, once Close has begun; zero for none
}

// A batch is a request's worth of spans. They are kept encoded: decoded, they would take
// several times the memory.
type batch struct {
	spans []*spool.Span
	bytes int
	at    time.Time // when the first span arrived
}

// add adds spans. Unless they may overfill the queue, it makes room for them, and returns the older
// ones that were evicted: the root ends last, and a trace without its root is worth little.
func (q *queue) add(spans []*spool.Span, mayOverfill bool) (evicted []*spool.Span) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wake := len(q.batches) == 0
	for _, s := range spans {
		size := len(s.Wire)
		if !mayOverfill && q.bytes+q.inFlight+size > q.limit+q.limit/4 { // which an earlier piece may have overfilled
			for half := q.bytes / 2; len(q.batches) > 0 && q.bytes > half; { // each eviction writes a log
				evicted = append(evicted, q.take().spans...)
			}
		}
		if n := len(q.batches); n == 0 || q.batches[n-1].bytes+size > q.full {
			q.batches = append(q.batches, &batch{at: time.Now()})
		}
		b := q.batches[len(q.batches)-1]
		b.spans = append(b.spans, s)
		b.bytes += size
		q.bytes += size
	}
	if wake || q.isFull() {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return evicted
}

// awaitRoom waits until there is room, or the collector has accepted nothing for too long. It
// reports whether there is room: the spans of one piece may then overfill the queue.
func (q *queue) awaitRoom(patience time.Duration) bool {
	for {
		fits, left, roomMade := q.room(patience)
		if fits || left <= 0 {
			return fits
		}
		select {
		case <-roomMade:
		case <-time.After(left):
		}
	}
}

// room reports whether there is room, and if not, how much longer it makes sense to
// wait until roomMade is closed.
func (q *queue) room(patience time.Duration) (fits bool, left time.Duration, roomMade <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+q.inFlight < q.limit || q.ending {
		return true, 0, nil
	}
	short := min(patience, shortPatience)
	left = patience
	if q.failure != nil && q.failure.Verdict == Unreachable {
		left = short
	}
	if q.inFlight > 0 {
		left -= time.Since(q.progress)
	}
	if delay := q.delay(); delay > 0 && delay <= patience && time.Since(q.progress) < maxDelays {
		left = max(left, delay+short)
	}
	if q.isClosed() {
		left = 0
	}
	return false, left, q.roomMade
}

func (q *queue) isFull() bool { return q.bytes >= q.full }

// endStream ends the wait for room.
func (q *queue) endStream() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending = true
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
	q.bytes -= b.bytes
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
		return nil, nil, q.isClosed()
	}
	left := q.interval - time.Since(q.batches[0].at)
	if left > 0 && !q.isFull() && !q.isClosed() {
		return nil, time.After(left), false
	}
	b = q.take()
	q.inFlight, q.progress = b.bytes, time.Now()
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
	q.failure, q.progress = nil, time.Now()
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

// close ends the queue. Attempts to deliver what is left end at the deadline of the first
// call.
func (q *queue) close(deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed() {
		q.deadline = deadline
		close(q.closing)
	}
	q.wakeWaiting()
}

func (q *queue) isClosed() bool {
	select {
	case <-q.closing:
		return true
	default:
		return false
	}
}

// closeDeadline returns when attempts end, if Close has begun.
func (q *queue) closeDeadline() (deadline time.Time, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deadline, q.isClosed()
}
