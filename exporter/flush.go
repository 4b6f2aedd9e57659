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
	if done == nil {
		done = func(int) {}
	}
	s.Losses = new(spool.LossCounter)
	var ofAny Flushed // for whatever destination
	ofAny.Recovered, ofAny.Err = s.Recover(ctx)
	destinations, unreadable := s.Destinations(ctx)
	ofAny.addLosses(s.Losses.Take())
	all := []Flushed{}
	if ofAny.Err != nil || ofAny.Recovered+ofAny.Dropped+ofAny.Metrics.Dropped > 0 {
		all = append(all, ofAny)
	}
	for _, to := range destinations {
		f := Flushed{To: to}
		client, err := dialTrusted(to, dial)
		uploader, ok := client.(MetricsUploader)
		switch {
		case err != nil:
		case to.Signal == spool.Metrics && !ok:
			err = errors.New("metrics cannot be sent there")
		default:
			err = flush(ctx, &Backlog{Spool: s, To: to, Metrics: uploader, sender: &sender{client: client}}, &f.Earlier, done)
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

func flush(ctx context.Context, b *Backlog, sum *Earlier, done func(spans int)) error {
	before := 0
	b.More = func(time.Duration) bool {
		b.Earlier.addLosses(b.Spool.Losses.Take())
		now := b.Earlier.Delivered + b.Earlier.Rejected + b.Earlier.Dropped
		done(now - before)
		before = now
		return ctx.Err() == nil && sleep(ctx, b.sender.delay())
	}
	b.Retry = func(after time.Duration) bool { return sleep(ctx, after) }
	err := b.Send(ctx, ctx)
	b.Earlier.addLosses(b.Spool.Losses.Take())
	*sum = b.Earlier
	if stopped := attempt(context.WithoutCancel(ctx), b.sender.client.Stop); err == nil && stopped != nil {
		return stopped
	}
	return errors.Join(err, ctx.Err())
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
