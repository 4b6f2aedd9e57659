package exporter

import (
	"cmp"
	"context"
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// maxStay is how long a span stays in memory once its time has come: a process
// that is killed takes with it what is there.
const maxStay = 2 * time.Second

// maxPiece is by how many bytes the spans of a piece may exceed the queue.
const maxPiece = 1 << 20

// Begin starts a piece of the stream: what is exported until Commit or Checkpoint
// goes to the journal in one write. A span exported outside of a piece is one by
// itself. Nothing is sent before the journal has it, so it is Begin that waits for
// room, if Config.Wait is set, and not an Export within the piece. A piece should
// therefore be short: 64 KiB of a stream.
func (e *Exporter) Begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.inPiece {
		e.waitForRoom(1)
	}
	e.inPiece = true
}

// An OpenSpan is a span that has not ended, as Export takes them once they have.
type OpenSpan struct {
	Span []byte
	From *resourcepb.Resource
}

// Commit ends a piece in which no run began, got other ids or ended.
func (e *Exporter) Commit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inPiece = false
	if e.journal != nil {
		e.journal.Commit()
	}
}

// Checkpoint ends a piece and prepares for the process to be killed, open being
// the spans that have not ended, as they would end now. It is due at the end of
// each piece in which a run began, got other ids or ended, and about once a
// second while open spans grow. It does not wait for the disk: it returns what
// went wrong there since the last one.
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
		b, why := e.overdue()
		if len(b.spans) == 0 {
			break
		}
		e.giveUp(b, why)
	}
	e.count(func(r *Report) { r.addEvicted(e.journal.TakeEvicted()) })
	return err
}

// overdue takes a request's worth of spans from the queue if the sender is too
// busy with another to have taken them in time.
func (e *Exporter) overdue() (batch, *UploadError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wait { // in a backlog spans are long in the queue, and in the journal
		return batch{}, nil
	}
	if len(e.queue) == 0 || time.Since(e.queue[0].at) < e.cfg.Interval+maxStay {
		return batch{}, nil
	}
	return e.dequeue(), cmp.Or(e.lastFailure, errTooSlow)
}

// journaled waits until the journal has the spans of a batch. A span that was
// sent before would be an orphan after a kill, if its root were still journaled
// by ids that have changed. A disk that does not answer in time costs the spans
// this protection, and is not waited for again until it answers.
func (e *Exporter) journaled(b batch) {
	if e.journal == nil {
		return
	}
	patience, closing := time.After(diskPatience), e.closing
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
				patience = time.After(time.Until(deadline) / 4) // the receiver needs the rest
			}
		case <-e.ctx.Done():
			return
		}
	}
}

// settled says that the spans of a batch need not be recovered any more.
func (e *Exporter) settled(b batch) {
	if e.journal == nil {
		return
	}
	for _, n := range b.numbers {
		e.journal.Done(n.from, n.to)
	}
}

// closeJournal removes the journal, or leaves in it what was not delivered and
// nothing else: it tells whether that can be recovered.
func (e *Exporter) closeJournal(keep bool) (kept bool) {
	if e.journal == nil {
		return false
	}
	err := e.journal.Err()
	if keep {
		_ = e.journal.Checkpoint(nil) // or else more is recovered than has to be
	}
	ctx, cancel := e.diskContext()
	defer cancel()
	kept = e.journal.Close(ctx, keep)
	e.count(func(r *Report) {
		r.addEvicted(e.journal.TakeEvicted())
		r.Unprotected = cmp.Or(r.Unprotected, err)
	})
	return kept
}

const (
	// diskPatience is how long a disk may take for one request.
	diskPatience = 2 * time.Second

	// diskReserve is how long before the context of Close ends all attempts end,
	// so that there is time to keep what is left. A disk has as long in any case.
	diskReserve = 200 * time.Millisecond
)

// diskContext bounds a call that keeps something.
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
