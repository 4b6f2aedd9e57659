package exporter

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// The time between two attempts to deliver a request doubles from minBackoff to
// maxBackoff.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// run sends one request after another until Close has been called and the queue is
// empty.
func (e *Exporter) run() {
	defer close(e.done)
	defer e.cancel()

	for spans := e.queue.next(); len(spans) > 0; spans = e.queue.next() {
		left, why := e.deliver(spans)
		if e.queue.isClosed() && len(left) == len(spans) { // nothing more can be sent
			break // Close leaves the rest in the log
		}
		e.release(left, why)
		e.queue.done()
	}
	e.draining.finish()
	e.sendReleased()
	_ = attempt(e.ctx, e.cfg.Client.Stop) // what is queued is not sent, so an error loses nothing
}

// deliver sends spans again and again until they are accepted or rejected, or until waiting
// is pointless. It returns those that are left, and why.
func (e *Exporter) deliver(spans []*spool.Span) (left []*spool.Span, why *UploadError) {
	backoff := minBackoff
	for e.awaitDelay() {
		closed := e.queue.isClosed()
		out := e.sender.send(e.ctx, spans, 0)
		e.applyOutcome(out)
		if spans = out.left; len(spans) == 0 {
			return nil, nil
		}
		if e.ctx.Err() == nil || e.queue.lastFailure() == nil { // a canceled attempt says nothing new
			e.queue.failed(out.why)
		}
		switch {
		case out.why.Verdict == Misconfigured: // waiting does not help
			return spans, out.why
		case out.why.Verdict == Unreachable && closed:
			e.cancel() // the requests behind this one would fail, too
		}
		if e.pause(backoff/2+rand.N(backoff), closed) {
			backoff = min(2*backoff, maxBackoff)
		} else {
			backoff = minBackoff
		}
	}
	return spans, e.whyUndelivered()
}

// pause waits, and reports whether it did so for the whole time. Close cuts the wait short,
// unless Close had begun before.
func (e *Exporter) pause(d time.Duration, closed bool) bool {
	closing := e.queue.closing
	if closed {
		closing = nil
	}
	select {
	case <-time.After(d):
		return true
	case <-closing:
	case <-e.ctx.Done():
	}
	return false
}

// awaitDelay waits out the delay that the receiver asked for, and reports whether a
// request may be sent now. If the delay would outlast Close, it does not wait, and
// no more requests are sent.
func (e *Exporter) awaitDelay() bool {
	for e.ctx.Err() == nil {
		delay := e.sender.delay.Left()
		if delay == 0 {
			return true
		}
		deadline, closed := e.queue.closeDeadline()
		if closed && !deadline.IsZero() && time.Until(deadline) <= delay {
			e.cancel()
			return false
		}
		e.pause(delay, closed)
	}
	return false
}

// applyOutcome counts the spans with a final outcome, and keeps rejected ones apart.
func (e *Exporter) applyOutcome(out outcome) {
	for _, rejected := range out.rejected {
		e.reject(rejected.spans, rejected.why)
	}
	if e.log != nil && len(out.done) > 0 {
		e.log.Done(out.done)
	}
	e.tally.count(func(r *Report) {
		r.Delivered += out.delivered
		if r.Dropped += out.lost; out.lost > 0 {
			r.blame(out.why)
		}
	})
	if out.delivered > 0 {
		e.queue.progressed()
		e.drain()
	}
}

func (e *Exporter) whyUndelivered() *UploadError { return cmp.Or(e.queue.lastFailure(), errTimeout) }

const (
	// drainGrace is how long Close goes on sending spooled requests once this
	// process's own are done.
	drainGrace = 200 * time.Millisecond

	// drainRest is the shortest pause between two walks through the spool.
	drainRest = 5 * time.Second

	// maxPause bounds the pause between two spooled requests. The backlog may take
	// half of the receiver's time; the other half is for new spans.
	maxPause = time.Second
)

// A drain is the state of sending the spool's backlog in the background.
type drain struct {
	running sync.WaitGroup
	one     sync.Mutex // held while the spool is drained

	mu    sync.Mutex
	from  time.Time // no draining before this time
	until time.Time // when Close stops draining; zero until all own spans are done
}

func (d *drain) rest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from = time.Now().Add(drainRest + rand.N(drainRest))
}

// finish waits for the draining to end.
func (d *drain) finish() {
	d.mu.Lock()
	d.until = time.Now().Add(drainGrace)
	d.mu.Unlock()
	d.running.Wait()
}

func (d *drain) mayRun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !time.Now().Before(d.from) && (d.until.IsZero() || time.Now().Before(d.until))
}

// drain sends the spool's backlog in the background, so that new spans need not
// wait. It starts once the collector is known to be there.
func (e *Exporter) drain() {
	if e.cfg.Spool == nil || !e.mayDrain(0) || !e.draining.one.TryLock() {
		return
	}
	e.draining.running.Go(func() {
		defer e.draining.one.Unlock()
		e.sendBacklog(e.mayDrain, func(string) bool { return true })
		e.draining.rest()
	})
}

// sendReleased sends what left the queue for the spool because the collector was slower than
// the stream.
func (e *Exporter) sendReleased() {
	if e.cfg.Spool == nil || e.tally.snapshot().Spooled == 0 || e.queue.lastFailure() != nil {
		return
	}
	e.sendBacklog(func(time.Duration) bool { return e.ctx.Err() == nil && e.sender.delay.Left() == 0 }, e.log.Owns)
}

// sendBacklog sends the logs in the spool that are for the same destination and wanted.
func (e *Exporter) sendBacklog(more func(last time.Duration) bool, wanted func(log string) bool) {
	b := backlog{client: e.sender.client, sender: &e.sender, more: more}
	for c, err := range e.cfg.Spool.Claims(mostRunning) {
		switch {
		case err != nil: // the next process looks
		case c.SpansTo != e.cfg.Client.Destination() || b.stopped() || !wanted(c.Log):
			_ = c.Close()
		default:
			if b.metrics = nil; e.cfg.Metrics != nil && e.cfg.Metrics.Destination() == c.MetricsTo {
				b.metrics = e.cfg.Metrics
			}
			out := b.send(e.ctx, c)
			e.tally.count(func(r *Report) { r.addEarlier(out, e.log.Owns(c.Log)) })
		}
		if err != nil || b.stopped() {
			break
		}
	}
}

// mostRunning is how many logs of running processes the exporter passes by. Running
// processes have the newest logs.
const mostRunning = 100

// mayDrain reports whether another spooled request may be sent, after one that took
// this long.
func (e *Exporter) mayDrain(took time.Duration) bool {
	if took > 0 {
		e.pause(rand.N(min(2*took, maxPause)), false)
	}
	return e.ctx.Err() == nil && e.sender.delay.Left() == 0 && e.draining.mayRun()
}
