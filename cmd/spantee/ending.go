package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tee"
)

const (
	defaultFlushTimeout = 2 * time.Second

	// mapperGrace is how long a mapper that is not waiting for anything may make no
	// progress at the end before it counts as hanging.
	mapperGrace = tee.StallLimit
)

// end ends the trace. It waits for the mapper as long as the mapper makes progress,
// and then delivers what it can within the flush timeout.
func (t *tracing) end(interrupted bool) {
	defer t.open.feed.Close()
	if t.tee == nil { // exec could not start the agent
		t.deliverAll(t.flushTimeout)
		return
	}
	t.tee.End(!interrupted)
	patience := t.flushTimeout
	if !t.live && !interrupted {
		patience = math.MaxInt64 // leave it to the exporter, which notices when a collector accepts nothing
	}
	timeout := t.flushTimeout
	if !t.tee.Await(t.done, patience) {
		// The mapper may be waiting for the exporter, which releases it once the
		// exporter delivers nothing more.
		timeout = 0
		t.deliver(timeout)
		if !t.tee.Await(t.done, mapperGrace) {
			t.say.hangs(t.tee.Err(), t.tee.Lost())
			t.endMetrics(0)
			return // the mapper must not be used any more
		}
	}
	t.say.stats = t.mapper.Stats()
	if err := t.tee.Err(); !errors.Is(err, errUnneeded) {
		t.say.failure, t.say.lost = err, t.untraced
	}
	t.endAll(timeout)
}

// endAll delivers the rest, and completes the tree at the same time: stderr may be full.
func (t *tracing) endAll(timeout time.Duration) {
	t.late = time.Now().Add(t.patience())
	if t.live {
		t.say.w.EndBy(time.Now().Add(t.flushTimeout))
	}
	treeDone := make(chan error, 1)
	go func() {
		if t.tree == nil {
			treeDone <- nil
			return
		}
		treeDone <- t.tree.Close()
	}()
	t.deliverAll(timeout)
	if err := <-treeDone; err != nil { // stderr has a deadline of its own
		t.say.problem(fmt.Errorf("the tree: %w", err))
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

// deliver closes the exporter. For a live stream, timeout bounds the whole
// delivery; for a recording, each answer of the collector.
func (t *tracing) deliver(timeout time.Duration) {
	if t.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	if !t.live {
		cancel()
		ctx, cancel = t.whileAccepting(timeout)
	}
	defer cancel()
	t.say.delivery = t.exporter.Close(ctx)
}

// whileAccepting returns a context that ends when the collector has accepted nothing
// for timeout.
func (t *tracing) whileAccepting(timeout time.Duration) (context.Context, context.CancelFunc) {
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
