package exporter

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// The time between two attempts to deliver a request doubles from minBackoff to
// maxBackoff.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// run sends one request after the other until Close has begun and nothing is
// left.
func (e *Exporter) run() {
	defer close(e.done)
	defer e.cancel()

	broken := attempt(e.ctx, e.cfg.Client.Start)
	for spans := e.next(); spans != nil; spans = e.next() {
		if broken != nil {
			e.spoolOrDrop(spans, broken)
		} else {
			e.deliver(spans)
		}
		e.requestDone()
	}
	e.count(func(*Report) { e.drainUntil = time.Now().Add(drainGrace) })
	e.draining.Wait()
	_ = attempt(e.ctx, e.cfg.Client.Stop) // nothing is left that it could lose
}

// next waits for a full request, for a span that has waited long enough, or
// for Close. It returns nil after the last request.
func (e *Exporter) next() [][]byte {
	for {
		spans, due, last := e.nextBatch()
		if spans != nil || last {
			return spans
		}
		select {
		case <-e.wake:
		case <-due:
		case <-e.closing:
		}
	}
}

// nextBatch returns the next request if it is due, or else when it will be, or
// that there will be no more.
func (e *Exporter) nextBatch() (spans [][]byte, due <-chan time.Time, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil, nil, e.closed
	}
	left := e.cfg.Interval - time.Since(e.queue[0].at)
	if left > 0 && !e.isFull() && !e.closed {
		return nil, time.After(left), false
	}
	spans, size := e.dequeue()
	e.inFlight, e.inFlightSize, e.since = spans, size, time.Now()
	return spans, nil, false
}

// requestDone makes room: the request in flight is delivered, or was given up.
func (e *Exporter) requestDone() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight, e.inFlightSize = nil, 0
	e.wakeWaiting()
}

// wakeWaiting wakes every Export that waits for room. It is called with e.mu
// held.
func (e *Exporter) wakeWaiting() {
	close(e.roomMade)
	e.roomMade = make(chan struct{})
}

// deliver sends spans until they are accepted or rejected, or until waiting
// makes no sense.
func (e *Exporter) deliver(spans [][]byte) {
	backoff := minBackoff
	for e.awaitDelay() {
		closing := e.closing // nil once Close has begun: it cuts only one wait short
		select {
		case <-closing:
			closing = nil
		default:
		}

		out := e.sender.send(e.ctx, e.request.with(spans))
		e.settle(out)
		spans = out.left
		if len(spans) == 0 {
			return
		}
		e.setLastFailure(out.why)
		switch {
		case out.why.Verdict == Misconfigured: // waiting does not help
			e.spoolOrDrop(spans, out.why)
			return
		case out.why.Verdict == Unreachable && closing == nil:
			e.cancel() // nor would the requests behind this one get through
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
			backoff = min(2*backoff, maxBackoff)
		case <-closing:
			backoff = minBackoff
		case <-e.ctx.Done():
		}
	}
	e.spoolOrDrop(spans, e.whyUndelivered())
}

// awaitDelay waits for as long as the receiver wants no requests. It tells
// whether one may be sent now. If the wait would outlast Close, it is not
// begun, and no more requests are sent.
func (e *Exporter) awaitDelay() bool {
	for e.ctx.Err() == nil {
		delay := e.sender.delay()
		if delay == 0 {
			return true
		}
		closing := e.closing
		if deadline, closed := e.closeDeadline(); closed {
			closing = nil
			if !deadline.IsZero() && time.Until(deadline) <= delay {
				e.cancel()
				return false
			}
		}
		select {
		case <-time.After(delay):
		case <-closing:
		case <-e.ctx.Done():
		}
	}
	return false
}

func (e *Exporter) closeDeadline() (deadline time.Time, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deadline, e.closed
}

// settle counts spans with a final outcome.
func (e *Exporter) settle(out outcome) {
	for _, r := range out.rejected {
		e.reject(r.spans, r.why)
	}
	e.count(func(r *Report) {
		r.Delivered += out.delivered
		r.Dropped += out.lost
		if out.lost > 0 {
			r.blame(out.why)
		}
		if out.delivered > 0 {
			e.lastFailure = nil
		}
		e.inFlight = out.left
	})
	if out.delivered > 0 {
		e.drain()
	}
}

// spoolOrDrop is where spans end that are not delivered now.
func (e *Exporter) spoolOrDrop(spans [][]byte, why *UploadError) {
	e.keep(spans, why, spool.Spool.Put, &e.report.Spooled)
}

// reject is where spans end that the receiver will never accept.
func (e *Exporter) reject(spans [][]byte, why *UploadError) {
	e.keep(spans, why, spool.Spool.Reject, &e.report.Rejected)
}

type putFunc func(spool.Spool, spool.Destination, spool.Request, string) (spool.Evicted, error)

func (e *Exporter) keep(spans [][]byte, why *UploadError, put putFunc, kept *int) {
	var evicted spool.Evicted
	var err error
	if e.cfg.Spool != nil {
		evicted, err = keep(*e.cfg.Spool, e.cfg.Client.Destination(), e.request.with(spans), why, put)
	}
	e.count(func(r *Report) {
		if e.cfg.Spool == nil || err != nil {
			kept = &r.Dropped
		}
		*kept += len(spans)
		r.addEvicted(evicted)
		r.blame(why)
		if r.NotKept == nil {
			r.NotKept = err
		}
	})
}

func keep(s spool.Spool, to spool.Destination, r request, why *UploadError, put putFunc) (spool.Evicted, error) {
	body, err := r.body()
	if err != nil {
		return spool.Evicted{}, err
	}
	return put(s, to, body, why.Error())
}

func (e *Exporter) count(f func(*Report)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.report)
}

func (e *Exporter) setLastFailure(why *UploadError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lastFailure == nil || e.ctx.Err() == nil { // an attempt that was broken off tells nothing new
		e.lastFailure = why
	}
	e.wakeWaiting()
}

func (e *Exporter) whyUndelivered() *UploadError {
	e.mu.Lock()
	defer e.mu.Unlock()
	return cmp.Or(e.lastFailure, errTimeout)
}

// drainGrace is for how long Close sends requests of the spool once this
// process's own are done.
const drainGrace = 200 * time.Millisecond

// drain sends the spool's backlog, now that the collector is known to be there:
// in the background, so that new spans need not wait.
func (e *Exporter) drain() {
	if e.cfg.Spool == nil || !e.idle.TryLock() {
		return
	}
	e.draining.Go(func() {
		defer e.idle.Unlock()
		d := drain{
			spool: *e.cfg.Spool, to: e.cfg.Client.Destination(), sender: &e.sender,
			more:  e.mayDrain,
			retry: func(time.Duration) bool { return false },
		}
		_ = d.run(e.ctx) // what fails stays in the spool
		e.count(func(r *Report) { r.addDrained(d.drained) })
	})
}

// mayDrain tells whether one more request of the spool may be sent.
func (e *Exporter) mayDrain() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx.Err() == nil && e.sender.delay() == 0 && (e.drainUntil.IsZero() || time.Now().Before(e.drainUntil))
}
