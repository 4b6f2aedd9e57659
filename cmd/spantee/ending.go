package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

const (
	defaultFlushTimeout = 2 * time.Second

	// mapperGrace is how long a mapper that is not waiting for anything may make no
	// progress at the end before it counts as hanging.
	mapperGrace = stallLimit

	// countGrace is how long counting the untraced lines may take, which reads from
	// disk.
	countGrace = time.Second
)

// end ends the trace. It waits for the mapper as long as the mapper makes progress,
// and then delivers what it can within the flush timeout.
func (t *tracing) end(interrupted bool) {
	defer t.open.feed.Close()
	if t.tap == nil {
		t.deliverAll(t.flushTimeout) // nothing
		return
	}
	t.tap.close(!interrupted)
	patience := t.flushTimeout
	if !t.live && !interrupted {
		patience = math.MaxInt64 // leave it to the exporter, which notices when a collector accepts nothing
	}
	timeout := t.flushTimeout
	if !t.tap.wait(patience) {
		// The mapper may be waiting for the exporter, which releases it once the
		// exporter delivers nothing more.
		timeout = 0
		t.deliver(timeout)
		if !t.tap.wait(mapperGrace) {
			t.say.hangs(t.tap.err(), t.lost())
			t.endMetrics(0)
			return // the mapper must not be used any more
		}
	}
	t.say.stats = t.mapper.Stats()
	t.say.failure, t.say.lost = t.tap.err(), t.untraced
	t.endAll(timeout)
}

// endAll completes the text trees, and delivers the rest. Writing the step
// summary may take as long as delivery, and no longer, because the disk may hang.
func (t *tracing) endAll(timeout time.Duration) {
	if t.tree != nil {
		if err := t.tree.Close(); err != nil {
			t.say.problem(fmt.Errorf("the tree: %w", err))
		}
	}
	if t.step == nil {
		t.deliverAll(timeout)
		return
	}
	written := make(chan error, 1)
	go func() { written <- t.step.end(t.say.cfg) }()
	late := time.After(max(t.flushTimeout, minPatience))
	t.deliverAll(timeout)
	var err error
	select {
	case err = <-written:
	case <-late:
		select { // both may have happened during the delivery
		case err = <-written:
		default:
			err = spool.ErrFrozen
		}
	}
	if err != nil {
		t.say.problem(fmt.Errorf("cannot write the step summary: %w", err))
	}
}

// deliverAll delivers the spans, and then the metrics in what is left of timeout,
// because metrics include what became of the spans.
func (t *tracing) deliverAll(timeout time.Duration) {
	start := time.Now()
	t.deliver(timeout)
	if t.live {
		timeout -= time.Since(start)
	}
	t.endMetrics(timeout)
}

// lost returns what a hanging mapper has not seen, if the disk, which may be why it
// hangs, answers in time.
func (t *tracing) lost() untraced {
	counted := make(chan untraced, 1)
	go func() { counted <- t.tap.lost() }()
	select {
	case lost := <-counted:
		return lost
	case <-time.After(countGrace):
		return untraced{}
	}
}

// deliver closes the exporter. For a live stream, timeout bounds the whole
// delivery; for a recording, each answer of the collector.
func (t *tracing) deliver(timeout time.Duration) {
	if t.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	if !t.live {
		cancel()
		ctx, cancel = t.whileTaken(timeout)
	}
	defer cancel()
	t.say.delivery = t.exporter.Close(ctx)
}

// whileTaken returns a context that ends when the collector has accepted nothing
// for timeout.
func (t *tracing) whileTaken(timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for before := -1; t.exporter.Finished() != before; {
			before = t.exporter.Finished()
			select {
			case <-ctx.Done():
			case <-time.After(timeout):
			}
		}
	}()
	return ctx, cancel
}
