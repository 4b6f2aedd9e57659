package exporter

import (
	"cmp"
	"context"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// diskContext returns the context for an operation that saves spans.
func (e *Exporter) diskContext() (context.Context, context.CancelFunc) {
	if e.queue.isClosed() {
		return context.WithCancel(e.disk)
	}
	return context.WithTimeout(e.disk, diskPatience)
}

// markDone marks the spans of a batch as needing no recovery from the journal.
func (e *Exporter) markDone(b *batch) {
	if e.journal == nil {
		return
	}
	ctx, cancel := e.diskContext()
	defer cancel()
	e.journal.Done(ctx, b.spans)
}

// closeJournal removes the journal, or leaves the undelivered spans in it, and reports
// whether it has all of them.
func (e *Exporter) closeJournal(why *UploadError) (kept bool) {
	j := e.journal
	if j == nil {
		return false
	}
	unprotected := j.Err()
	reason := ""
	if r := e.tally.snapshot(); r.undecided() > 0 {
		reason = why.Error()
	}
	ctx, cancel := e.diskContext()
	defer cancel()
	e.tally.count(func(r *Report) { r.Unprotected = cmp.Or(r.Unprotected, unprotected) })
	return j.Close(ctx, reason)
}

// spoolOrDrop spools spans that are not delivered now, or drops them.
func (e *Exporter) spoolOrDrop(spans []*spool.Span, why *UploadError) {
	e.keep(spans, why, false)
}

// reject keeps and counts spans that the receiver will never accept.
func (e *Exporter) reject(spans []*spool.Span, why *UploadError) {
	e.keep(spans, why, true)
}

// keep spools spans, and counts what became of them.
func (e *Exporter) keep(spans []*spool.Span, why *UploadError, rejected bool) {
	var err error
	if e.cfg.Spool != nil {
		ctx, cancel := e.diskContext()
		defer cancel()
		req := spool.RequestOf(spans)
		req.Rejected = rejected
		err = e.cfg.Spool.Put(ctx, e.cfg.Client.Destination(), req, why.Error())
	}
	e.tally.count(func(r *Report) {
		n := &r.Spooled
		switch {
		case e.cfg.Spool == nil || err != nil:
			n = &r.Dropped
		case rejected:
			n = &r.Rejected
		}
		*n += len(spans)
		r.blame(why)
		if r.NotKept == nil {
			r.NotKept = err
		}
	})
}

// drop counts spans that nothing is left of.
func (e *Exporter) drop(spans int, why *UploadError) {
	e.tally.count(func(r *Report) {
		r.Dropped += spans
		r.blame(why)
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

// Deadlines returns the context of attempts to deliver, which ends early enough to write
// what is undelivered to disk before ctx ends, and that of the disk, which gets some time
// even if ctx has ended.
func Deadlines(ctx context.Context) (attempts, disk context.Context, cancel context.CancelFunc) {
	disk = context.WithoutCancel(ctx)
	end, bounded := ctx.Deadline()
	if !bounded {
		return ctx, disk, func() {}
	}
	now := time.Now()
	attempts, cancelAttempts := context.WithDeadline(ctx, end.Add(-min(diskReserve, max(0, end.Sub(now)/4))))
	disk, cancelDisk := context.WithTimeout(disk, max(diskReserve, end.Sub(now)))
	return attempts, disk, func() {
		cancelAttempts()
		cancelDisk()
	}
}
