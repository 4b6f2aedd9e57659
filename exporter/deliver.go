package exporter

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// Between two attempts to deliver a request; it doubles from one to the other.
const (
	minWait = 100 * time.Millisecond
	maxWait = 5 * time.Second
)

// run is the sender: one request after the other until Close has begun and
// nothing is left.
func (e *Exporter) run() {
	defer close(e.done)
	defer e.cancel()

	broken := attempt(e.ctx, e.cfg.Client.Start)
	for spans := e.next(); spans != nil; spans = e.next() {
		if broken != nil {
			e.giveUp(spans, broken)
		} else {
			e.deliver(spans)
		}
		e.landed()
	}
	e.count(func(*Report) { e.drainUntil = time.Now().Add(drainGrace) })
	e.draining.Wait()
	_ = attempt(e.ctx, e.cfg.Client.Stop) // nothing is left that it could lose
}

// next waits for a full request, for a span that has waited long enough, or
// for Close. It returns nil after the last request.
func (e *Exporter) next() [][]byte {
	for {
		spans, due, last := e.takeOff()
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

// takeOff returns the next request if its time has come, or else when it will,
// or that there will be no more.
func (e *Exporter) takeOff() (spans [][]byte, due <-chan time.Time, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil, nil, e.closed
	}
	left := e.cfg.Interval - time.Since(e.queue[0].at)
	if left > 0 && !e.full() && !e.closed {
		return nil, time.After(left), false
	}
	spans, size := e.cut()
	e.flying, e.flyingSize, e.since = spans, size, time.Now()
	return spans, nil, false
}

// landed makes room: the request in flight is done with.
func (e *Exporter) landed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flying, e.flyingSize = nil, 0
	e.broadcast()
}

// broadcast wakes every Export that waits for room.
func (e *Exporter) broadcast() {
	close(e.moved)
	e.moved = make(chan struct{})
}

// deliver sends spans until they are taken, refused for good, or given up.
func (e *Exporter) deliver(spans [][]byte) {
	wait := minWait
	for e.ctx.Err() == nil {
		closing := e.closing // nil once Close has begun: it cuts a wait short only once
		select {
		case <-closing:
			closing = nil
		default:
		}

		out := send(e.ctx, e.cfg.Client, e.request.with(spans))
		e.settle(out)
		spans = out.left
		if len(spans) == 0 {
			return
		}
		e.setStuck(out.why)
		switch {
		case out.why.verdict == refusing: // waiting does not help
			e.giveUp(spans, out.why)
			return
		case out.why.verdict == unreachable && closing == nil:
			e.cancel() // nor would the requests behind this one get through
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
			wait = min(2*wait, maxWait)
		case <-closing:
			wait = minWait
		case <-e.ctx.Done():
		}
	}
	e.giveUp(spans, e.whyStuck())
}

// settle counts what is done with.
func (e *Exporter) settle(out outcome) {
	for _, r := range out.refused {
		e.reject(r.spans, r.why)
	}
	e.count(func(r *Report) {
		r.Delivered += out.delivered
		r.Dropped += out.lost
		if out.lost > 0 {
			r.blame(out.why)
		}
		if out.delivered > 0 {
			e.stuck, e.since = nil, time.Now()
		}
		e.flying = out.left
	})
	if out.delivered > 0 {
		e.drain()
	}
}

// giveUp is where spans end that are not delivered now: in the spool, or
// nowhere.
func (e *Exporter) giveUp(spans [][]byte, why *failure) {
	e.keep(spans, why, spool.Spool.Put, &e.report.Spooled)
}

// reject is where spans end that the receiver does not want.
func (e *Exporter) reject(spans [][]byte, why *failure) {
	e.keep(spans, why, spool.Spool.Reject, &e.report.Rejected)
}

type putFunc func(spool.Spool, spool.Destination, spool.Request, string) (spool.Evicted, error)

func (e *Exporter) keep(spans [][]byte, why *failure, put putFunc, kept *int) {
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
		r.evicted(evicted)
		r.blame(why)
		if r.NotKept == nil {
			r.NotKept = err
		}
	})
}

func keep(s spool.Spool, to spool.Destination, r request, why *failure, put putFunc) (spool.Evicted, error) {
	body, err := r.body()
	if err != nil {
		return spool.Evicted{}, err
	}
	return put(s, to, body, why.cause.Error())
}

func (e *Exporter) count(f func(*Report)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.report)
}

func (e *Exporter) setStuck(f *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stuck == nil || e.ctx.Err() == nil { // an attempt that was broken off tells nothing new
		e.stuck = f
	}
	e.broadcast()
}

func (e *Exporter) whyStuck() *failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	return cmp.Or(e.stuck, errTimeout)
}

// drainGrace is for how long Close sends requests of the spool once those of
// this process are done with.
const drainGrace = 200 * time.Millisecond

// drain sends what waits in the spool, now that the collector is known to be
// there: on the side, so that new spans need not wait.
func (e *Exporter) drain() {
	if e.cfg.Spool == nil || !e.idle.TryLock() {
		return
	}
	e.draining.Go(func() {
		defer e.idle.Unlock()
		var sum drained
		// What fails stays where it is, for the next time.
		_ = drain(e.ctx, *e.cfg.Spool, e.cfg.Client.Destination(), e.cfg.Client, &sum, e.mayDrain)
		e.count(func(r *Report) { r.drained(sum) })
	})
}

// mayDrain tells whether there is time for one more request of the spool.
func (e *Exporter) mayDrain() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx.Err() == nil && (e.drainUntil.IsZero() || time.Now().Before(e.drainUntil))
}
