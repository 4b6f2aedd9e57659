package exporter

import (
	"cmp"
	"context"
	"errors"
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

// errAbandoned ends delivery early: further attempts would fail too.
var errAbandoned = errors.New("waiting for the receiver is pointless")

// run sends one request after another until Close has been called and the queue is
// empty.
func (e *Exporter) run() {
	defer close(e.done)
	defer e.cancel(nil)

	broken := attempt(e.ctx, e.cfg.Client.Start)
	for b := e.next(); b != nil; b = e.next() {
		e.awaitJournal(b)
		var done, unread bool
		if broken != nil {
			done = e.spoolOrDrop(b.request(), broken)
		} else {
			done, unread = e.deliver(b.request())
		}
		if done {
			e.markDone(b)
		}
		if !unread || e.journal != nil && e.journal.ReadsDone() { // a log that is begun from here on leaves b out
			b = nil
		}
		e.requestDone(b)
	}
	e.count(func(*Report) { e.drainUntil = time.Now().Add(drainGrace) })
	e.draining.Wait()
	_ = attempt(e.ctx, e.cfg.Client.Stop) // the queue is empty, so an error loses nothing
}

// next waits for a full request, for a span that has waited long enough, or
// for Close. It returns nil after the last request.
func (e *Exporter) next() *batch {
	for {
		b, due, last := e.nextBatch()
		if b != nil || last {
			return b
		}
		select {
		case <-e.wake:
		case <-due:
		case <-e.closing:
		}
	}
}

// nextBatch returns the next request if it is due. Otherwise due fires when it will
// be, or last reports that there are no more.
func (e *Exporter) nextBatch() (b *batch, due <-chan time.Time, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil, nil, e.closed
	}
	left := e.cfg.Interval - time.Since(e.queue[0].at)
	if left > 0 && !e.isFull() && !e.closed {
		return nil, time.After(left), false
	}
	b = e.dequeue()
	e.inFlight, e.since = b.size(), time.Now()
	return b, nil, false
}

// maxSpares is how many batches are kept to use again: one is filled while another one
// is sent. A [sync.Pool] would lose them at each garbage collection.
const maxSpares = 2

// requestDone makes room: the request in flight was delivered or abandoned. spare is
// its batch, nil if somebody may still read it.
func (e *Exporter) requestDone(spare *batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if spare != nil && mayReuse(spare.wire) && len(e.spares) < maxSpares {
		e.spares = append(e.spares, spare)
	}
	e.inFlight = 0
	e.wakeWaiting()
}

// wakeWaiting wakes every Export that waits for room. It is called with e.mu
// held.
func (e *Exporter) wakeWaiting() {
	close(e.roomMade)
	e.roomMade = make(chan struct{})
}

// deliver retries a request until its spans are accepted or rejected, or until
// waiting is pointless. It reports whether the spans no longer need recovery from
// the journal, and whether nobody reads them any more: a client that did not answer
// in time may.
func (e *Exporter) deliver(r request) (done, unread bool) {
	backoff := minBackoff
	for attempts := 1; e.awaitDelay(); attempts++ {
		closing := e.closing // nil once Close has begun, so that Close cuts only one wait short
		select {
		case <-closing:
			closing = nil
		default:
		}

		out := e.sender.send(e.ctx, r)
		e.applyOutcome(r, out)
		r = r.with(out.left)
		if len(r.Spans) == 0 {
			return true, attempts == 1 && out.why == nil
		}
		e.setLastFailure(out.why)
		switch {
		case out.why.Verdict == Misconfigured: // waiting does not help
			return e.spoolOrDrop(r, out.why), false
		case out.why.Verdict == Unreachable && closing == nil:
			e.cancel(errAbandoned) // the requests behind this one would fail, too
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
			backoff = min(2*backoff, maxBackoff)
		case <-closing:
			backoff = minBackoff
		case <-e.ctx.Done():
		}
	}
	return e.spoolOrDrop(r, e.whyUndelivered()), false
}

// awaitDelay waits out the delay that the receiver asked for, and reports whether a
// request may be sent now. If the delay would outlast Close, it does not wait, and
// no more requests are sent.
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
				e.cancel(errAbandoned)
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

// applyOutcome counts the spans with a final outcome, and keeps rejected ones apart.
func (e *Exporter) applyOutcome(r request, out outcome) {
	for _, rejected := range out.rejected {
		e.reject(r.with(rejected.spans), rejected.why)
	}
	e.count(func(r *Report) {
		r.Delivered += out.delivered
		r.Dropped += out.lost
		if out.lost > 0 {
			r.blame(out.why)
		}
		if out.delivered > 0 {
			e.lastFailure, e.since = nil, time.Now()
		}
	})
	if out.delivered > 0 {
		e.drain()
	}
}

// spoolOrDropBatch removes the spans of a batch from memory: they are spooled or
// dropped.
func (e *Exporter) spoolOrDropBatch(b *batch, why *UploadError) {
	if e.spoolOrDrop(b.request(), why) {
		e.markDone(b)
	}
}

// spoolOrDrop spools spans that are not delivered now, or drops them. If Close has
// no time left for the disk, the spans stay in the journal and it returns false.
func (e *Exporter) spoolOrDrop(r request, why *UploadError) (done bool) {
	return e.keep(r, why, spool.Spool.Put, &e.report.Spooled)
}

// reject keeps and counts spans that the receiver will never accept.
func (e *Exporter) reject(r request, why *UploadError) {
	e.keep(r, why, spool.Spool.Reject, &e.report.Rejected)
}

type putFunc func(spool.Spool, context.Context, spool.Destination, spool.Request, string) (spool.Evicted, error)

func (e *Exporter) keep(req request, why *UploadError, put putFunc, kept *int) (done bool) {
	var evicted spool.Evicted
	var err error
	if e.cfg.Spool != nil {
		ctx, cancel := e.diskContext()
		defer cancel()
		evicted, err = keep(ctx, *e.cfg.Spool, e.cfg.Client.Destination(), req, why, put)
	}
	if kept == &e.report.Spooled && e.journal != nil && e.isClosed() && errors.Is(err, spool.ErrFrozen) {
		return false
	}
	e.count(func(r *Report) {
		if e.cfg.Spool == nil || err != nil {
			kept = &r.Dropped
		}
		*kept += len(req.Spans)
		r.AddEvicted(evicted)
		r.blame(why)
		if r.NotKept == nil {
			r.NotKept = err
		}
	})
	return true
}

func keep(ctx context.Context, s spool.Spool, to spool.Destination, r request, why *UploadError, put putFunc) (spool.Evicted, error) {
	return put(s, ctx, to, r.body(), why.Error())
}

func (e *Exporter) count(f func(*Report)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.report)
}

func (e *Exporter) setLastFailure(why *UploadError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lastFailure == nil || e.ctx.Err() == nil { // a canceled attempt says nothing new
		e.lastFailure = why
	}
	e.wakeWaiting()
}

func (e *Exporter) whyUndelivered() *UploadError {
	e.mu.Lock()
	defer e.mu.Unlock()
	return cmp.Or(e.lastFailure, errTimeout)
}

const (
	// drainGrace is how long Close goes on sending spooled requests once this
	// process's own are done.
	drainGrace = 200 * time.Millisecond

	// drainRest is the shortest pause after a spooled request failed, or after
	// another process was found draining the spool. When a receiver comes back, one
	// process of many tries first and no other follows soon.
	drainRest = 5 * time.Second

	// maxPause bounds the pause between two spooled requests. The backlog may take
	// half of the receiver's time; the other half is for new spans.
	maxPause = time.Second
)

// drain sends the spool's backlog in the background, so that new spans need not
// wait. It starts once the collector is known to be there.
func (e *Exporter) drain() {
	if e.cfg.Spool == nil || !e.mayDrain(0) || !e.drainMu.TryLock() {
		return
	}
	e.draining.Go(func() {
		defer e.drainMu.Unlock()
		d := drain{
			spool: *e.cfg.Spool, to: e.cfg.Client.Destination(), sender: &e.sender,
			more:  e.mayDrain,
			retry: func(time.Duration) bool { return false },
		}
		// Close leaves this goroutine behind, so the disk may take its time.
		disk := context.Background()
		r, _ := d.spool.RecoverDue(disk) // if there is no room for it, sending the rest makes some
		d.recovered(r)
		err := d.sendAll(e.ctx, disk) // what fails stays in the spool
		e.count(func(r *Report) {
			r.addDrained(d.drained)
			if err != nil {
				e.drainFrom = time.Now().Add(drainRest + rand.N(drainRest))
			}
		})
	})
}

// mayDrain reports whether another spooled request may be sent, after one that took
// this long.
func (e *Exporter) mayDrain(took time.Duration) bool {
	if took > 0 {
		select {
		case <-time.After(rand.N(min(2*took, maxPause))):
		case <-e.closing:
		case <-e.ctx.Done():
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx.Err() == nil && e.sender.delay() == 0 && !time.Now().Before(e.drainFrom) &&
		(e.drainUntil.IsZero() || time.Now().Before(e.drainUntil))
}
