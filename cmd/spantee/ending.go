package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tee"
)

const (
	defaultFlushTimeout = 2 * time.Second

	// mapperReserve is the part of the flush timeout that is left for a mapper that has
	// waited for the exporter all the time. With a flush timeout under a second, a mapper
	// that makes no progress gets this long in addition to half of that.
	mapperReserve = 500 * time.Millisecond
)

// end ends the trace. All of it, whatever is waited for, ends by one deadline: the flush
// timeout after the stream ended or, if the mapper had a backlog, after the mapper made
// its last progress.
func (t *tracing) end(interrupted bool) {
	defer t.open.feed.Close()
	if t.pump == nil { // exec could not start the agent
		t.endBy(t.flushTimeout)
		t.deliver()
		return
	}
	idle, ok := t.awaitMapper(interrupted)
	t.endBy(t.flushTimeout - min(idle, t.flushTimeout))
	o, stream := &t.result, t.pump.tee
	if !ok {
		o.failure, o.lost, o.hangs = cmp.Or(stream.Err(), tee.ErrStalled), stream.Lost(), true
		t.endMetrics()
		return
	}
	o.stats, o.unprotected = t.stream.Mapper.Stats(), t.pump.unprotected
	if err := stream.Err(); !errors.Is(err, errUnneeded) {
		o.failure, o.lost = err, t.pump.lost
	}
	t.endAll()
}

// endBy sets the deadline. For a live stream, it is also that of an stderr that nobody
// reads.
func (t *tracing) endBy(timeout time.Duration) {
	t.deadline = time.Now().Add(timeout)
	if t.to.Live {
		t.say.w.EndBy(t.deadline)
	}
}

// awaitMapper waits for the mapper as long as the mapper makes progress. It returns
// whether the mapper has finished, and how much of the flush timeout was spent.
func (t *tracing) awaitMapper(interrupted bool) (spent time.Duration, finished bool) {
	stream, done := t.pump.tee, t.pump.done
	stream.End(!interrupted)
	if !t.to.Live && !interrupted { // leave it to the exporter, which notices when a collector accepts nothing
		_, finished = stream.Await(done, math.MaxInt64)
		return 0, finished
	}
	patience := max(t.flushTimeout-mapperReserve, t.flushTimeout/2)
	t.endBy(patience / 2) // the mapper may be waiting for stderr
	if spent, finished = stream.Await(done, patience); finished {
		return spent, true
	}
	// The mapper may be waiting for the exporter, which releases it once the
	// exporter delivers nothing more.
	t.endBy(0)
	t.deliverSpans()
	_, finished = stream.Await(done, mapperReserve)
	return t.flushTimeout, finished
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
	if t.metrics == nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.deadline)
	defer cancel()
	o := &t.result
	o.metrics = t.metrics.close(ctx, o.delivery)
	o.delivery.AddEvicted(o.metrics.Evicted)
	o.delivery.Earlier.Add(o.metrics.Earlier)
}
