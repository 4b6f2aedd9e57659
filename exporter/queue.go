package exporter

import (
	"cmp"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A batch is a request's worth of spans of one origin. They are kept encoded:
// decoded, they would take several times the memory.
type batch struct {
	*origin
	wire    []byte     // room for the head of a request, then the spans
	ends    []int      // of each span, in wire
	numbers []interval // in the journal
	at      time.Time  // when the first span arrived
}

// An interval is a range of span numbers; to is excluded.
type interval struct{ from, to uint64 }

// enqueue adds a span to the queue. It returns the requests evicted for it, and why.
// It is called with e.mu held.
func (e *Exporter) enqueue(o *origin, span []byte) (evicted []*batch, why *UploadError) {
	size := spool.SizeSpan(span)
	if !e.inPiece { // Begin has waited for a piece
		e.waitForRoom(size)
	}
	// The oldest go first, a request at a time: the root ends last, and a trace
	// without its root is worth little.
	for len(e.queue) > 0 && !e.hasRoom(size) {
		evicted = append(evicted, e.dequeue())
	}
	why = cmp.Or(e.lastFailure, errTooSlow)

	b := e.batchFor(o, size)
	start := len(b.wire)
	b.add(span, size)
	e.queuedBytes += size
	if e.journal != nil {
		b.number(e.journal.Append(b.wire[start:], o.head))
		if !e.inPiece {
			e.journal.Commit()
		}
	}
	if len(b.ends) == 1 || e.isFull() {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return evicted, why
}

// batchFor returns the batch that a span of this size joins.
func (e *Exporter) batchFor(o *origin, size int) *batch {
	b := o.filling
	if b != nil && len(b.wire)+size <= e.batch {
		return b
	}
	b = new(batch)
	if last := len(e.spares) - 1; last >= 0 {
		b = e.spares[last]
		e.spares = e.spares[:last]
	}
	room := slices.Grow(b.wire[:0], o.overhead)[:o.overhead]
	*b = batch{origin: o, wire: room, ends: b.ends[:0], numbers: b.numbers[:0], at: e.arrival()}
	o.filling = b
	e.queue = append(e.queue, b)
	return b
}

// arrival returns when a span that is exported now arrived. The spans of a piece
// arrive together. It is called with e.mu held.
func (e *Exporter) arrival() time.Time {
	if e.inPiece {
		return e.pieceCame
	}
	return time.Now()
}

// SetWait sets whether Export waits for room as long as the collector accepts
// anything. SetWait(false) also releases an Export that is waiting.
func (e *Exporter) SetWait(wait bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wait = wait
	e.wakeWaiting()
}

// waitForRoom waits, if e.wait is set, until size more bytes fit or the collector
// has accepted nothing for too long. It is called, and returns, with e.mu held.
func (e *Exporter) waitForRoom(size int) {
	for e.wait && !e.closed && !e.hasRoom(size) {
		left := longPatience
		if f := e.lastFailure; f != nil && (f.Verdict == Unreachable || f == errTimeout) {
			left = patience
			if !e.cfg.Wait {
				return // a live stream may wait for us
			}
		}
		if e.inFlight > 0 {
			left -= time.Since(e.since)
		}
		if delay := e.sender.delay(); delay > 0 && delay <= maxDelay {
			left = max(left, delay+patience)
		}
		if left <= 0 {
			return
		}
		roomMade := e.roomMade
		e.mu.Unlock()
		select {
		case <-roomMade:
		case <-e.closing:
		case <-time.After(left):
		}
		e.mu.Lock()
	}
}

func (e *Exporter) hasRoom(size int) bool {
	limit := e.cfg.MaxQueue
	switch {
	case e.inPiece && e.pieceFits:
		return true
	case e.inPiece:
		limit += maxPiece
	}
	return e.queuedBytes+e.inFlight+size <= limit
}

func (e *Exporter) isFull() bool {
	return len(e.queue) > 0 && e.queue[0].overhead+e.queuedBytes >= e.batch
}

// dequeue takes the oldest batch from the queue, nil if there is none. It is called
// with e.mu held.
func (e *Exporter) dequeue() *batch {
	if len(e.queue) == 0 {
		return nil
	}
	b := e.queue[0]
	e.queue = slices.Delete(e.queue, 0, 1)
	e.queuedBytes -= b.size()
	if b.filling == b {
		b.filling = nil
	}
	return b
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

// size returns the number of bytes of the spans.
func (b *batch) size() int { return len(b.wire) - b.overhead }

// request returns the request that the batch is sent in.
func (b *batch) request() request {
	r := b.with(make([][]byte, len(b.ends)))
	start := b.overhead
	for i, end := range b.ends {
		r.Spans[i] = b.wire[start:end]
		start = end
	}
	r.wire = b.wire
	return r
}

// number records the next span's number in the journal.
func (b *batch) number(n uint64) {
	if last := len(b.numbers) - 1; last >= 0 && b.numbers[last].to == n {
		b.numbers[last].to++
		return
	}
	b.numbers = append(b.numbers, interval{n, n + 1})
}

// takeRemaining dequeues a request's worth of the spans that the sender left behind.
func (e *Exporter) takeRemaining() *batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dequeue()
}
