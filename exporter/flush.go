package exporter

import (
	"context"
	"errors"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// Flushed is what became of a spool's backlog for one destination.
type Flushed struct {
	To spool.Destination
	Earlier
	Err error // why spans still wait; may be an *Error
}

// Flush sends a spool's backlog, each request with the client that dial returns for
// its destination. A client for metrics must be a [MetricsUploader]. done, if not
// nil, is called with the number of spans that no longer wait.
//
// For a file, dial is not told the name, because a name found in a spool must not
// be written to. dial returns a client if the user has named a file again, and nil
// otherwise.
func Flush(ctx context.Context, s spool.Spool, dial func(spool.Destination) (Client, error), done func(spans int)) ([]Flushed, error) {
	if dial == nil {
		return nil, errors.New("exporter: Flush without dial")
	}
	if done == nil {
		done = func(int) {}
	}
	recovered, err := s.Recover(ctx)
	all := []Flushed{}
	if err != nil || recovered > 0 {
		all = append(all, Flushed{Earlier: Earlier{Recovered: recovered}, Err: err})
	}
	destinations, unreadable := s.Destinations(ctx)
	for _, to := range destinations {
		f := Flushed{To: to}
		client, err := dialTrusted(to, dial)
		switch uploader, ok := client.(MetricsUploader); {
		case err != nil:
		case to.Signal != spool.Metrics:
			err = flush(ctx, s, to, client, &f.Earlier, done)
		case ok:
			err = flushMetrics(ctx, s, to, client, uploader, &f.Earlier)
		default:
			err = errors.New("metrics cannot be sent there")
		}
		f.Err = err
		all = append(all, f)
	}
	return all, unreadable
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

func flush(ctx context.Context, s spool.Spool, to spool.Destination, client Client, sum *Earlier, done func(spans int)) error {
	before := 0
	d := drain{spool: s, to: to, sender: &sender{client: client}}
	d.more = func(time.Duration) bool {
		now := d.others.Delivered + d.others.Rejected + d.others.Dropped
		done(now - before)
		before = now
		return ctx.Err() == nil && sleep(ctx, d.sender.delay())
	}
	d.retry = func(after time.Duration) bool { return sleep(ctx, after) }
	defer func() {
		*sum = d.others
		sum.addEvicted(d.evicted)
	}()
	return stop(ctx, client, d.sendAll(ctx, ctx))
}

// stop stops a client, and returns why not everything was sent: err, or else the error of
// stopping.
func stop(ctx context.Context, client Client, err error) error {
	stopped := attempt(context.WithoutCancel(ctx), client.Stop)
	if err == nil && stopped != nil {
		return stopped
	}
	return errors.Join(err, ctx.Err())
}

// flushMetrics is flush for metrics.
func flushMetrics(ctx context.Context, s spool.Spool, to spool.Destination, client Client, uploader MetricsUploader, sum *Earlier) error {
	b := MetricsBacklog{
		Spool: s, To: to, Client: uploader,
		More:  func() bool { return ctx.Err() == nil },
		Retry: func(after time.Duration) bool { return sleep(ctx, after) },
	}
	err := b.Send(ctx, ctx)
	*sum = Earlier{Metrics: b.Earlier}
	sum.addEvicted(b.Evicted)
	return stop(ctx, client, err)
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
