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

// A queue holds the spans that are not being sent yet, the oldest first. They are kept encoded:
// decoded, they would take several times the memory.
type queue struct {
	limit    int                  // bytes, with the request in flight
	full     int                  // bytes of spans that make a request, if it has several
	interval time.Duration        // how long a span waits for others to join it
	delay    func() time.Duration // for which the receiver wants no requests

	closing chan struct{} // closed when Close has begun
	wake    chan struct{} // there may be a request to send

	mu       sync.Mutex
	spans    []*spool.Span
	bytes    int          // of spans
	since    time.Time    // when the first one came, or became the first one
	inFlight int          // bytes of the request that is being delivered
	progress time.Time    // when delivery of inFlight began or last made progress
	failure  *UploadError // the last one; nil after a success
	roomMade chan struct{}
	ending   bool      // of the stream: the limit applies no more
	deadline time.Time // of attempts, once Close has begun; zero for none
}

// add adds spans. Unless they may overfill the queue, it makes room for them, and returns the older
// ones that were evicted: the root ends last, and a trace without its root is worth little.
func (q *queue) add(spans []*spool.Span, mayOverfill bool) (evicted []*spool.Span) {
	q.mu.Lock()
	defer q.mu.Unlock()
	empty := len(q.spans) == 0
	for _, s := range spans {
		if !mayOverfill && q.bytes+q.inFlight+len(s.Wire) > q.limit+q.limit/4 { // which an earlier piece may have overfilled
			evicted = append(evicted, q.take(q.bytes/2)...) // each eviction writes a log
		}
		q.spans = append(q.spans, s)
		q.bytes += len(s.Wire)
	}
	if empty {
		q.since = time.Now()
	}
	if empty || q.isFull() {
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

// take takes the oldest spans that have at most this many bytes together, or else the oldest
// one, if there is one. It is called with q.mu held.
func (q *queue) take(most int) (taken []*spool.Span) {
	n, bytes := 0, 0
	for n < len(q.spans) && (n == 0 || bytes+len(q.spans[n].Wire) <= most) {
		bytes += len(q.spans[n].Wire)
		n++
	}
	taken = slices.Clone(q.spans[:n]) // whose memory is free once they are sent
	q.spans = slices.Delete(q.spans, 0, n)
	q.bytes -= bytes
	q.since = time.Now()
	return taken
}

// next waits until the spans fill a request, the first one has waited long enough, or the queue
// is closed. It returns the spans of the request, none after the last one.
func (q *queue) next() []*spool.Span {
	for {
		spans, due, last := q.nextDue()
		if len(spans) > 0 || last {
			return spans
		}
		select {
		case <-q.wake:
		case <-due:
		case <-q.closing:
		}
	}
}

// nextDue returns the spans of the next request if it is due. Otherwise due fires when it will
// be, or last reports that there is none.
func (q *queue) nextDue() (spans []*spool.Span, due <-chan time.Time, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.spans) == 0 {
		return nil, nil, q.isClosed()
	}
	left := q.interval - time.Since(q.since)
	if left > 0 && !q.isFull() && !q.isClosed() {
		return nil, time.After(left), false
	}
	before := q.bytes
	spans = q.take(q.full)
	q.inFlight, q.progress = before-q.bytes, time.Now()
	return spans, nil, false
}

// done makes room: the request in flight was delivered or abandoned.
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
