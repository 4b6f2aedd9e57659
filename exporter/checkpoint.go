package exporter

import (
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// maxStay is how long a span stays in memory once its time has come: a process
// that is killed takes with it what is there.
const maxStay = 2 * time.Second

// Checkpoint prepares for the process to be killed: what it would lose is on
// disk, open being the spans that have not ended, as they would end now. It is
// for a live stream, about once a second. It returns why it could not.
func (e *Exporter) Checkpoint(open []*tracepb.Span) error {
	if e.journal == nil || e.isClosed() {
		return nil
	}
	for spans, why := e.overdue(); spans != nil; spans, why = e.overdue() {
		e.giveUp(spans, why)
	}
	e.mu.Lock()
	undelivered := append([][]byte(nil), e.flying...)
	for _, p := range e.queue {
		undelivered = append(undelivered, p.wire)
	}
	e.mu.Unlock()
	body, err := e.request.with(undelivered).body()
	if err != nil {
		return err
	}
	return e.journal.Checkpoint(body, open)
}

// overdue takes a request's worth of spans from the queue if the sender is too
// busy with another to have taken them in time.
func (e *Exporter) overdue() ([][]byte, *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 || time.Since(e.queue[0].at) < e.cfg.Interval+maxStay {
		return nil, nil
	}
	why := errTooSlow
	if e.stuck != nil {
		why = e.stuck
	}
	spans, _ := e.cut()
	return spans, why
}
