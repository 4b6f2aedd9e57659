package exporter

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A disk keeps what is not delivered.
type disk struct {
	journal *spool.Journal // nil for a recording, which can be sent again

	mu     sync.Mutex
	ctx    context.Context // of all calls
	cancel context.CancelFunc
	kept   uint64 // the spans below this number, which were not delivered, are in the journal
}

// endBy makes all calls end at a deadline, or zero for none.
func (d *disk) endBy(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.cancel
	if d.ctx, d.cancel = context.WithCancel(context.Background()); !deadline.IsZero() {
		d.ctx, d.cancel = context.WithDeadline(context.Background(), deadline)
	}
	context.AfterFunc(d.ctx, before)
}

// diskContext returns the context for an operation that saves spans.
func (e *Exporter) diskContext() (context.Context, context.CancelFunc) {
	e.disk.mu.Lock()
	defer e.disk.mu.Unlock()
	if e.queue.isClosed() {
		return context.WithCancel(e.disk.ctx)
	}
	return context.WithTimeout(e.disk.ctx, diskPatience)
}

// has reports whether the journal, closed, has the span of a number.
func (d *disk) has(number uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return number < d.kept
}

// markDone marks the spans of a batch as needing no recovery from the journal.
func (e *Exporter) markDone(b *batch) {
	if e.disk.journal == nil {
		return
	}
	ctx, cancel := e.diskContext()
	defer cancel()
	e.disk.journal.Done(ctx, b.numbers)
}

// closeJournal removes the journal, or leaves the undelivered spans in it.
func (e *Exporter) closeJournal(why *UploadError) {
	j := e.disk.journal
	if j == nil {
		return
	}
	unprotected := j.Err()
	reason := ""
	if r := e.tally.snapshot(); r.undecided() > 0 {
		reason = why.Error()
	}
	ctx, cancel := e.diskContext()
	defer cancel()
	kept := j.Close(ctx, reason)
	e.disk.mu.Lock()
	e.disk.kept = max(e.disk.kept, kept)
	e.disk.mu.Unlock()
	evicted := j.TakeEvicted()
	e.tally.count(func(r *Report) {
		r.AddEvicted(evicted)
		r.Unprotected = cmp.Or(r.Unprotected, unprotected)
	})
}

// spoolOrDrop spools spans that are not delivered now, or drops them.
func (e *Exporter) spoolOrDrop(p spool.Part, why *UploadError) {
	e.keep(p, why, false)
}

// reject keeps and counts spans that the receiver will never accept.
func (e *Exporter) reject(p spool.Part, why *UploadError) {
	e.keep(p, why, true)
}

// keep spools spans, and counts what became of them.
func (e *Exporter) keep(p spool.Part, why *UploadError, rejected bool) {
	var evicted spool.Evicted
	var err error
	if e.cfg.Spool != nil {
		ctx, cancel := e.diskContext()
		defer cancel()
		req := p.Request()
		req.Rejected = rejected
		evicted, err = e.cfg.Spool.Put(ctx, e.cfg.Client.Destination(), req, why.Error())
	}
	e.tally.count(func(r *Report) {
		n := &r.Spooled
		switch {
		case e.cfg.Spool == nil || err != nil:
			n = &r.Dropped
		case rejected:
			n = &r.Rejected
		}
		*n += len(p.Spans)
		r.AddEvicted(evicted)
		r.blame(why)
		if r.NotKept == nil {
			r.NotKept = err
		}
	})
}

const (
	// diskPatience is how long a disk may take for one call. It is less than the flush
	// timeout usually is: spans that the disk does not take can still be delivered.
	diskPatience = 1500 * time.Millisecond

	// diskReserve is how long before the deadline of Close all attempts end, which
	// leaves time for spooling. The disk gets at least this long in any case.
	diskReserve = 200 * time.Millisecond
)

// Deadlines returns when delivery attempts must end, so that undelivered data can be
// written to disk before ctx ends, and when disk writes must end. The disk gets some
// time even if ctx has ended. Deadlines returns false if ctx has no deadline.
func Deadlines(ctx context.Context) (attempts, disk time.Time, bounded bool) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return time.Time{}, time.Time{}, false
	}
	now := time.Now()
	disk = now.Add(diskReserve)
	if disk.Before(end) {
		disk = end
	}
	return end.Add(-min(diskReserve, max(0, end.Sub(now)/4))), disk, true
}
