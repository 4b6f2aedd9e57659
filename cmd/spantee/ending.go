package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/receipts"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// An ending delivers what is left when a stream has ended, and says what became of it.
type ending struct {
	sinks    *sinks
	reporter *reporter
	timeout  time.Duration // of --flush-timeout

	deadline time.Time // of everything at the end
	result   result
}

// endBy sets the deadline. For a live stream, it is also that of an stderr that nobody
// reads.
func (e *ending) endBy(timeout time.Duration) {
	e.deadline = time.Now().Add(timeout)
	if e.sinks.common.Live {
		e.reporter.w.EndBy(e.deadline)
	}
}

// endAll delivers the rest, and completes the log and the tree at the same time: stderr may be
// full. spent is how much of the flush timeout was spent.
func (e *ending) endAll(spent time.Duration) {
	e.endBy(e.timeout - min(spent, e.timeout))
	treeDone := make(chan error, 1)
	go func() {
		if e.sinks.activity.log != nil {
			e.sinks.activity.log.Close()
		}
		if e.sinks.tree == nil {
			treeDone <- nil
			return
		}
		treeDone <- e.sinks.tree.Close()
	}()
	if e.sinks.exporter == nil { // which otherwise ends the metrics after the spans, which they count
		e.endMetrics(exporter.Report{})
	}
	e.deliverSpans()
	e.sinks.claims.Wait(e.deadline)
	if err := <-treeDone; err != nil { // stderr has a deadline of its own
		e.reporter.problem(fmt.Errorf("the tree: %w", err))
	}
}

// deliverSpans closes the exporter. For a live stream, the deadline bounds the whole
// delivery; for a recording, each answer of the collector.
func (e *ending) deliverSpans() {
	if e.sinks.exporter == nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), e.deadline)
	if !e.sinks.common.Live {
		cancel()
		ctx, cancel = e.whileAccepting()
	}
	defer cancel()
	e.result.delivery = e.sinks.exporter.Close(ctx)
	e.result.metricsSpooled = e.result.metricsSpooled && e.result.delivery.NotKept == nil
	if !e.sinks.common.Live {
		e.endBy(e.timeout)
		if ctx.Err() != nil { // the collector has used up what an stderr that nobody reads would get
			e.reporter.w.EndBy(time.Now())
		}
	}
}

// whileAccepting returns a context that ends when the collector has accepted nothing
// for as long as it is until the deadline.
func (e *ending) whileAccepting() (context.Context, context.CancelFunc) {
	patience := time.Until(e.deadline)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for before := -1; e.sinks.exporter.Finished() != before; {
			before = e.sinks.exporter.Finished()
			select {
			case <-ctx.Done():
			case <-time.After(patience):
			}
		}
	}()
	return ctx, cancel
}

// endMetrics gives a collector what is left of the time for the metrics, and returns those
// that were not delivered. spans says what became of the spans.
func (e *ending) endMetrics(spans exporter.Report) (left []byte) {
	ctx, cancel := context.WithDeadline(context.Background(), e.deadline)
	defer cancel()
	left, e.result.metrics = e.sinks.metrics.close(ctx, spans)
	e.result.metricsSpooled = len(left) > 0 && e.sinks.exporter != nil && e.sinks.cfg.spool != nil
	return left
}

// finish reports, and serves the page, if there is one, until a signal. Without signals, it
// closes the page at once.
func (e *ending) finish(end proc.Status, signals <-chan os.Signal, disarm func()) error {
	end = e.conclude(end)
	e.reporter.print(e.result, e.sinks.any())
	if e.sinks.page == nil {
		disarm()
		return end.Err()
	}
	if signals != nil && !end.Interrupted() {
		disarm()
		e.stay(signals)
	}
	e.closePage()
	return end.Err()
}

// conclude writes the receipt and what GitHub Actions reads, after everything is delivered. It
// returns how to end.
func (e *ending) conclude(end proc.Status) proc.Status {
	if e.sinks.receipts == nil {
		return end
	}
	unusual, fails := e.sinks.receipts.Write(receipts.End{
		Status: end, Complete: e.result.failure == nil, Hangs: e.result.hangs, Delivery: e.result.delivery,
		Unknown: e.reporter.unknownTypes(nil), Deadline: e.deadline,
	}, e.reporter.problem)
	if e.sinks.activity.log == nil { // else the log has said it
		e.reporter.unusual = unusual
	}
	if fails && end == (proc.Status{}) {
		end.Code = proc.StatusFailed
	}
	return end
}

// stay keeps serving the page after a stream that ended by itself, until a signal.
func (e *ending) stay(signals <-chan os.Signal) {
	go func() { // a signal must not wait for the disk
		e.sinks.page.queue.Close() // the page has all spans
		e.reporter.say("serving the page until Ctrl-C")
	}()
	for !proc.IsDeadly(<-signals) { // exec gets others, too
	}
	proc.DieOfNext(signals)
}

// closePage stores what the page has not stored yet.
func (e *ending) closePage() {
	lost, err := spool.Await(func() (int, error) { return e.sinks.page.close(), nil })
	if err != nil {
		e.reporter.failed(fmt.Errorf("the last spans may not be stored for the page: %w", err))
	}
	if lost > 0 {
		e.reporter.failed(fmt.Errorf("%s could not be stored for the page", count(lost, "span")))
	}
	e.reporter.w.Flush()
}
