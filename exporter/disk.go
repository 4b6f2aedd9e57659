package exporter

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A disk keeps what is not delivered.
type disk struct {
	journal *spool.Journal // nil for a recording, which can be sent again
	late    bool           // the journal has not kept up; only the sender uses it

	mu       sync.Mutex
	closed   bool
	deadline time.Time // once closed; zero for none
	keeps    bool      // the journal, closed, has what was not delivered
}

func (d *disk) close(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.deadline = true, deadline
}

// context returns the context for an operation that saves spans.
func (d *disk) context() (context.Context, context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.closed:
		return context.WithTimeout(context.Background(), diskPatience)
	case d.deadline.IsZero():
		return context.Background(), func() {}
	}
	return context.WithDeadline(context.Background(), d.deadline)
}

// markDone marks the spans of a batch as needing no recovery from the journal.
func (d *disk) markDone(b *batch) {
	for i := 0; i < len(b.numbers); {
		from := b.numbers[i]
		to := from
		for ; i < len(b.numbers) && b.numbers[i] == to; i++ {
			to++
		}
		d.journal.Done(from, to)
	}
}

// kept reports whether the journal has what was not delivered.
func (d *disk) kept() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keeps
}

// awaitJournal waits until the spans of a batch are in the journal. If a span were
// sent earlier and the process then killed, the span would be an orphan, because its
// root may still be journaled under ids that have changed since. If the disk does
// not answer in time, the spans go without this protection, and awaitJournal does
// not wait again until the disk answers. Spans that will only be spooled wait, too: a
// killed process would leave another version of an open span in its journal.
func (e *Exporter) awaitJournal(b *batch) {
	if e.disk.journal == nil {
		return
	}
	patience, closing, over := time.After(diskPatience), e.closing, e.ctx.Done()
	for {
		written, moved := e.disk.journal.Written(b.numbers[len(b.numbers)-1] + 1)
		if written || e.disk.late {
			e.disk.late = !written
			return
		}
		select {
		case <-moved:
		case <-patience:
			e.disk.late = true
		case <-closing:
			closing = nil
			if deadline, _ := e.closeDeadline(); !deadline.IsZero() {
				patience = time.After(time.Until(deadline) * 3 / 4) // the receiver needs the rest
			}
		case <-over:
			if !errors.Is(context.Cause(e.ctx), errAbandoned) {
				return
			}
			over = nil
		}
	}
}

// closeJournal removes the journal, or leaves the undelivered spans in it. It returns the
// number of the first span that the journal does not keep.
func (e *Exporter) closeJournal(why *UploadError) (below uint64) {
	j := e.disk.journal
	if j == nil {
		return 0
	}
	unprotected := j.Err()
	reason := ""
	if r := e.tally.snapshot(); r.undecided() > 0 {
		reason = why.Error()
	}
	ctx, cancel := e.disk.context()
	defer cancel()
	below, kept := j.Close(ctx, reason)
	e.disk.mu.Lock()
	e.disk.keeps = e.disk.keeps || kept
	e.disk.mu.Unlock()
	e.tally.count(func(r *Report) {
		r.AddEvicted(j.TakeEvicted())
		r.Unprotected = cmp.Or(r.Unprotected, unprotected)
	})
	return below
}

// spoolOrDrop spools spans that are not delivered now, or drops them.
func (e *Exporter) spoolOrDrop(r request, why *UploadError) {
	e.keep(r, why, spool.Spool.Put, func(r *Report) *int { return &r.Spooled })
}

// reject keeps and counts spans that the receiver will never accept.
func (e *Exporter) reject(r request, why *UploadError) {
	e.keep(r, why, spool.Spool.Reject, func(r *Report) *int { return &r.Rejected })
}

type putFunc func(spool.Spool, context.Context, spool.Destination, spool.Request, string) (spool.Evicted, error)

func (e *Exporter) keep(req request, why *UploadError, put putFunc, fate func(*Report) *int) {
	var evicted spool.Evicted
	var err error
	if e.cfg.Spool != nil {
		ctx, cancel := e.disk.context()
		defer cancel()
		evicted, err = put(*e.cfg.Spool, ctx, e.cfg.Client.Destination(), req.body(), why.Error())
	}
	e.tally.count(func(r *Report) {
		n := fate(r)
		if e.cfg.Spool == nil || err != nil {
			n = &r.Dropped
		}
		*n += len(req.Spans)
		r.AddEvicted(evicted)
		r.blame(why)
		if r.NotKept == nil {
			r.NotKept = err
		}
	})
}

const (
	// diskPatience is how long a disk may take for one request.
	diskPatience = 2 * time.Second

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
