package exporter

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// Flushed is what became of a spool's backlog for one destination.
type Flushed struct {
	To spool.Destination
	Earlier
	Err error // why spans still wait; may be an *Error
}

// A flusher sends a spool's backlog for one destination.
type flusher struct {
	backlog
	result *Flushed
}

// Flush sends a spool's backlog, each log with the clients that dial returns for its spans
// and its metrics. done, if not nil, is called with the number of spans that no longer wait.
//
// For a file, dial is not told the name, because a name found in a spool must not
// be written to. dial returns a client if the user has named a file again, and nil
// otherwise.
func Flush(ctx context.Context, s spool.Spool, dial func(spool.Destination) (Client, error), done func(spans int)) (results []*Flushed, unreadable error) {
	byDestination := map[spool.Destination]*flusher{}
	for c, err := range s.Claims(math.MaxInt) {
		if err != nil {
			return results, err
		}
		f := byDestination[c.SpansTo]
		if f == nil {
			f = newFlusher(ctx, c.SpansTo, dial)
			byDestination[c.SpansTo], results = f, append(results, f.result)
		}
		if f.client == nil || f.stopped() {
			_ = c.Close()
			continue
		}
		f.useMetricsOf(c, dial)
		sum := f.send(ctx, c)
		f.result.add(sum)
		if done != nil {
			done(sum.Delivered + sum.Rejected + sum.Dropped)
		}
	}
	for _, f := range byDestination {
		f.end(ctx)
	}
	return results, nil
}

func newFlusher(ctx context.Context, to spool.Destination, dial func(spool.Destination) (Client, error)) *flusher {
	f := &flusher{result: &Flushed{To: to}}
	if f.client, f.result.Err = dialTrusted(to, dial); f.result.Err != nil {
		f.client = nil
		return f
	}
	f.sender = &sender{client: f.client}
	f.more = func(time.Duration) bool { return ctx.Err() == nil && sleep(ctx, f.sender.delay.Left()) }
	f.retry = func(after time.Duration) bool { return sleep(ctx, after) }
	return f
}

func dialTrusted(to spool.Destination, dial func(spool.Destination) (Client, error)) (Client, error) {
	if to.Protocol == spool.File {
		to.Endpoint = ""
	}
	client, err := dial(to)
	if client == nil && err == nil {
		return nil, &Error{errors.New("spans wait for this file"), "name it again: spantee flush --to FILE"}
	}
	return client, err
}

// useMetricsOf makes sure that there is a client for the metrics of a claim.
func (f *flusher) useMetricsOf(c *spool.Claim, dial func(spool.Destination) (Client, error)) {
	if len(c.Metrics) == 0 || f.metrics != nil && f.metrics.Destination() == c.MetricsTo {
		return
	}
	f.stopMetrics()
	client := f.client
	if client.Destination() != c.MetricsTo {
		client, _ = dial(c.MetricsTo) // without one, the metrics wait
	}
	f.metrics, _ = client.(MetricsClient)
}

func (f *flusher) stopMetrics() {
	if f.metrics != nil && f.metrics != f.client {
		_ = attempt(context.Background(), f.metrics.Stop)
	}
}

// end says why spans still wait, and closes the connections.
func (f *flusher) end(ctx context.Context) {
	if f.client == nil {
		return
	}
	switch {
	case f.why != nil:
		f.result.Err = f.why
	case f.whyMetrics != nil:
		f.result.Err = f.whyMetrics
	}
	f.result.Err = errors.Join(f.result.Err, ctx.Err())
	f.stopMetrics()
	if stopped := attempt(context.WithoutCancel(ctx), f.client.Stop); f.result.Err == nil && stopped != nil {
		f.result.Err = stopped
	}
}

// sleep waits for delay, unless that exceeds maxDelay or ctx ends first, and
// reports whether it did.
func sleep(ctx context.Context, delay time.Duration) bool {
	if delay > maxDelay {
		return false
	}
	select {
	case <-time.After(delay):
		return true
	case <-ctx.Done():
		return false
	}
}
