package exporter

import (
	"cmp"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// maxStay is how long a span stays in memory once its time has come: a process
// that is killed takes with it what is there.
const maxStay = 2 * time.Second

// Checkpoint prepares for the process to be killed: what it would lose is on
// disk, open being the spans that have not ended, as they would end now. It is
// for a live stream, about once a second, and not while Export is called. It
// returns why it could not.
func (e *Exporter) Checkpoint(open []*tracepb.Span) error {
	if e.journal == nil || e.isClosed() {
		return nil
	}
	for spans, why := e.overdue(); spans != nil; spans, why = e.overdue() {
		e.spoolOrDrop(spans, why)
	}
	e.mu.Lock()
	undelivered, err := e.undelivered()
	e.mu.Unlock()
	if err != nil {
		return err
	}
	return e.journal.Checkpoint(undelivered, open)
}

// Settled is how many spans are out of memory: once it has grown a Checkpoint is
// out of date.
func (e *Exporter) Settled() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.report.Delivered + e.report.Spooled + e.report.Rejected + e.report.Dropped
}

// undelivered is all that is in memory. It is called with e.mu held.
func (e *Exporter) undelivered() (spool.Request, error) {
	spans := append([][]byte(nil), e.inFlight...)
	for _, q := range e.queue {
		spans = append(spans, q.wire)
	}
	return e.request.with(spans).body()
}

// closeJournal removes the journal, or leaves in it what the sender still has
// and nothing else: it tells whether that can be recovered. It is called with
// e.mu held.
func (e *Exporter) closeJournal(keep bool) (kept bool) {
	if e.journal == nil {
		return false
	}
	if keep {
		if undelivered, err := e.undelivered(); err == nil {
			_ = e.journal.Checkpoint(undelivered, nil) // or else more is recovered than has to be
		}
	}
	return e.journal.Close(keep)
}

// overdue takes a request's worth of spans from the queue if the sender is too
// busy with another to have taken them in time.
func (e *Exporter) overdue() ([][]byte, *UploadError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 || time.Since(e.queue[0].at) < e.cfg.Interval+maxStay {
		return nil, nil
	}
	spans, _ := e.dequeue()
	return spans, cmp.Or(e.lastFailure, errTooSlow)
}
