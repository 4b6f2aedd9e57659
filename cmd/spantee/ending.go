package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	defaultFlushTimeout = 2 * time.Second

	// mapperGrace is how long a mapper that nobody makes wait may not advance at
	// the end before it is taken to hang.
	mapperGrace = stallLimit

	// countGrace is how long the disk has to tell how much was not traced.
	countGrace = time.Second
)

// end ends the trace. It waits for the mapper as long as that advances, and then
// delivers what it can within the flush timeout.
func (t *tracing) end(interrupted bool) {
	defer t.open.feed.Close()
	if t.tap == nil {
		t.deliverAll(t.flushTimeout) // nothing
		return
	}
	t.tap.close(!interrupted)
	patience := t.flushTimeout
	if !t.live && !interrupted {
		patience = math.MaxInt64 // for the exporter, which knows when a collector takes nothing
	}
	timeout := t.flushTimeout
	if !t.tap.wait(patience) {
		// It may wait for the exporter, which lets it go once it delivers nothing more.
		timeout = 0
		t.deliver(timeout)
		if !t.tap.wait(mapperGrace) {
			t.say.hangs(t.lost())
			t.endMetrics(0)
			return // the mapper is not to be touched
		}
	}
	t.say.stats = t.mapper.Stats()
	t.say.failure, t.say.lost = t.tap.err(), t.untraced
	t.endDrawings()
	t.deliverAll(timeout)
}

// endDrawings completes what is drawn of the traces.
func (t *tracing) endDrawings() {
	if t.tree != nil {
		if err := t.tree.Close(); err != nil {
			t.say.problem(fmt.Errorf("the tree: %w", err))
		}
	}
	if t.step != nil {
		if err := t.step.end(t.say.cfg); err != nil {
			t.say.problem(fmt.Errorf("the step summary: %w", err))
		}
	}
}

// deliverAll gives a collector what is left of timeout for the metrics: they tell
// what became of the spans.
func (t *tracing) deliverAll(timeout time.Duration) {
	start := time.Now()
	t.deliver(timeout)
	if t.live {
		timeout -= time.Since(start)
	}
	t.endMetrics(timeout)
}

// lost is what a mapper that hangs has not seen. The disk may be why it hangs.
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

// deliver closes the exporter. A live stream gives the collector timeout in all;
// a recording gives it as much for each answer.
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

// whileTaken returns a context that ends when the collector takes nothing for
// timeout.
func (t *tracing) whileTaken(timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for before := -1; t.exporter.Settled() != before; {
			before = t.exporter.Settled()
			select {
			case <-ctx.Done():
			case <-time.After(timeout):
			}
		}
	}()
	return ctx, cancel
}
