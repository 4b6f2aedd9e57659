package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/spool"
)

// endBy sets the deadline. For a live stream, it is also that of an stderr that nobody
// reads.
func (t *tracing) endBy(timeout time.Duration) {
	t.deadline = time.Now().Add(timeout)
	if t.to.Live {
		t.say.w.EndBy(t.deadline)
	}
}

// endAll delivers the rest, and completes the tree at the same time: stderr may be full.
func (t *tracing) endAll() {
	treeDone := make(chan error, 1)
	go func() {
		if t.tree == nil {
			treeDone <- nil
			return
		}
		treeDone <- t.tree.Close()
	}()
	t.deliver()
	if err := <-treeDone; err != nil { // stderr has a deadline of its own
		t.say.problem(fmt.Errorf("the tree: %w", err))
	}
}

// deliver delivers the spans, and then the metrics, because metrics include what became
// of the spans.
func (t *tracing) deliver() {
	t.deliverSpans()
	t.endMetrics()
	t.claims.wait(t.deadline)
}

// deliverSpans closes the exporter. For a live stream, the deadline bounds the whole
// delivery; for a recording, each answer of the collector.
func (t *tracing) deliverSpans() {
	e := t.to.Exporter
	if e == nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.deadline)
	if !t.to.Live {
		cancel()
		ctx, cancel = t.whileAccepting()
	}
	defer cancel()
	t.result.delivery = e.Close(ctx)
	if !t.to.Live {
		t.endBy(t.flushTimeout)
		if ctx.Err() != nil { // the collector has used up what an stderr that nobody reads would get
			t.say.w.EndBy(time.Now())
		}
	}
}

// whileAccepting returns a context that ends when the collector has accepted nothing
// for as long as it is until the deadline.
func (t *tracing) whileAccepting() (context.Context, context.CancelFunc) {
	patience := time.Until(t.deadline)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for before := -1; t.to.Exporter.Finished() != before; {
			before = t.to.Exporter.Finished()
			select {
			case <-ctx.Done():
			case <-time.After(patience):
			}
		}
	}()
	return ctx, cancel
}

// endMetrics gives a collector what is left of the time for the metrics.
func (t *tracing) endMetrics() {
	ctx, cancel := context.WithDeadline(context.Background(), t.deadline)
	defer cancel()
	o := &t.result
	o.metrics = t.metrics.close(ctx, o.delivery)
	o.delivery.AddLosses(o.metrics.Losses)
	o.delivery.Earlier.Add(o.metrics.Earlier)
}

// finish reports, and serves the page, if there is one, until a signal.
func (t *tracing) finish(end proc.Status, signals <-chan os.Signal, disarm func()) error {
	end = t.conclude(end)
	t.say.print(t.result, t.hasDestination())
	disarm()
	t.stay(end, signals)
	return end.Err()
}

// minWait is what the disk gets for the receipt, however long the delivery took.
const minWait = 500 * time.Millisecond

// conclude writes the receipt and what GitHub Actions reads, after everything is
// delivered. It returns how to end.
func (t *tracing) conclude(end proc.Status) proc.Status {
	a, o := t.account, &t.result
	if a == nil {
		return end
	}
	r := a.recorder.Receipt()
	r.Finish(tracer.Version(), end.ShellStatus(), o.failure == nil, o.delivery)
	r.UnknownTypes = tracer.UnknownTypes(t.say.unknownTypes(nil))
	err, written := proc.Unless(time.After(max(time.Until(t.deadline), minWait)), func() error { return a.write(r, o.hangs) })
	if !written {
		err = fmt.Errorf("cannot write the receipt or the step summary: %w", spool.ErrFrozen)
	}
	if err != nil {
		t.say.problem(err)
	}
	if a.failIf != nil && t.mustFail(r) && end == (proc.Status{}) {
		end.Code = proc.StatusFailed
	}
	return end
}

// mustFail reports whether the condition of --fail-if is true, and says so. What cannot be
// evaluated counts as true.
func (t *tracing) mustFail(r *receipt.Receipt) bool {
	c := t.account.failIf
	if name := c.Unstated(r); name != "" {
		t.say.problem(fmt.Errorf("--fail-if uses %s, which the agent did not state: it counts as 0", name))
	}
	holds, err := c.Holds(r)
	switch {
	case err != nil:
		t.say.problem(fmt.Errorf("cannot evaluate --fail-if %q: %w", t.failIf, err))
	case holds:
		t.say.problem(fmt.Errorf("--fail-if is true: %s", t.failIf))
	}
	return holds || err != nil
}

// stay keeps serving the page after a stream that ended by itself, until a signal.
func (t *tracing) stay(end proc.Status, signals <-chan os.Signal) {
	if t.page == nil {
		return
	}
	if !end.Interrupted() {
		go func() { // a signal must not wait for the disk
			t.page.queue.Close() // the page has all spans
			t.say.pageStays()
		}()
		for !proc.IsDeadly(<-signals) { // exec gets others, too
		}
	}
	proc.DieOfNext(signals)
	if lost := t.page.close(); lost > 0 {
		t.say.notStored(lost)
	}
}
