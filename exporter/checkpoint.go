package exporter

import (
	"cmp"
	"context"
	"errors"
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// maxStay is how long a span may stay queued once it is due: a killed process loses
// the spans in its memory.
const maxStay = 2 * time.Second

// maxPiece is the number of bytes by which the spans of a piece may overfill a queue
// that was full at the beginning of the piece.
const maxPiece = 1 << 20

// Begin starts a piece of the stream: the spans exported until Commit or Checkpoint
// are journaled in one write. A span exported outside a piece is a piece of its
// own. No span is sent before it is journaled. Where Export would wait for room,
// Begin waits instead, and Export does not wait within the piece. Once there was
// room, the piece may overfill the queue. So keep pieces short: 64 KiB of the stream.
func (e *Exporter) Begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.inPiece {
		e.waitForRoom(1)
		e.pieceFits = e.hasRoom(1)
	}
	e.inPiece, e.pieceCame = true, time.Now()
}

// An OpenSpan is a span that has not ended, with the arguments that Export will get
// once it has.
type OpenSpan struct {
	Span []byte
	From *resourcepb.Resource
}

// Commit ends a piece in which no run began, ended or changed its ids.
func (e *Exporter) Commit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inPiece = false
	if e.journal != nil {
		e.journal.Commit()
	}
}

// Checkpoint ends a piece and saves what a killed process would lose. open holds
// the spans that have not ended, as they would end now. Call Checkpoint at the end
// of each piece in which a run began, ended or changed its ids, and about once a
// second while open spans grow. Checkpoint does not wait for the disk: it returns
// the error of an earlier write.
func (e *Exporter) Checkpoint(open []OpenSpan) error {
	e.mu.Lock()
	e.inPiece = false
	if e.journal == nil || e.closed {
		e.mu.Unlock()
		return nil
	}
	spans := make([]spool.OpenSpan, len(open))
	for i, s := range open {
		spans[i] = spool.OpenSpan{Wire: s.Span, Head: e.originOf(s.From).head}
	}
	e.mu.Unlock()
	err := e.journal.Checkpoint(spans)
	for {
		b, why := e.takeOverdue()
		if b == nil {
			break
		}
		e.spoolOrDropBatch(b, why)
	}
	e.count(func(r *Report) { r.AddEvicted(e.journal.TakeEvicted()) })
	return err
}

// takeOverdue dequeues a request's worth of spans that the sender, busy with
// another request, has not taken in time.
func (e *Exporter) takeOverdue() (*batch, *UploadError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wait { // in a backlog, spans stay queued for long, but they are journaled
		return nil, nil
	}
	if len(e.queue) == 0 || time.Since(e.queue[0].at) < e.cfg.Interval+maxStay {
		return nil, nil
	}
	return e.dequeue(), cmp.Or(e.lastFailure, errTooSlow)
}

// awaitJournal waits until the spans of a batch are in the journal. If a span were
// sent earlier and the process then killed, the span would be an orphan whenever
// its root was still journaled under ids that have changed since. If the disk does
// not answer in time, the spans go without this protection, and awaitJournal does
// not wait again until the disk answers. Spans that will only be spooled wait, too: a
// killed process would leave another version of an open span in its journal.
func (e *Exporter) awaitJournal(b *batch) {
	if e.journal == nil {
		return
	}
	patience, closing, over := time.After(diskPatience), e.closing, e.ctx.Done()
	for {
		written, moved := e.journal.Written(b.numbers[len(b.numbers)-1].to)
		if written || e.diskLate {
			e.diskLate = !written
			return
		}
		select {
		case <-moved:
		case <-patience:
			e.diskLate = true
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

// markDone marks the spans of a batch as needing no recovery from the journal.
func (e *Exporter) markDone(b *batch) {
	if e.journal == nil {
		return
	}
	for _, n := range b.numbers {
		e.journal.Done(n.from, n.to)
	}
}

// closeJournal removes the journal. With keep, it leaves exactly the undelivered
// spans in it instead, and reports whether they can be recovered.
func (e *Exporter) closeJournal(keep bool) (kept bool) {
	if e.journal == nil {
		return false
	}
	err := e.journal.Err()
	if keep {
		_ = e.journal.Checkpoint(nil) // on failure, more is recovered than necessary
	}
	ctx, cancel := e.diskContext()
	defer cancel()
	kept = e.journal.Close(ctx, keep)
	e.count(func(r *Report) {
		r.AddEvicted(e.journal.TakeEvicted())
		r.Unprotected = cmp.Or(r.Unprotected, err)
	})
	return kept
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

// diskContext returns the context for a disk operation that saves spans.
func (e *Exporter) diskContext() (context.Context, context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.closed:
		return context.WithTimeout(context.Background(), diskPatience)
	case e.diskDeadline.IsZero():
		return context.Background(), func() {}
	}
	return context.WithDeadline(context.Background(), e.diskDeadline)
}
