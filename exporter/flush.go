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
// its destination. done, if not nil, is called with the number of spans that no
// longer wait.
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
	if err != nil || recovered != (spool.Recovered{}) {
		all = append(all, Flushed{Earlier: Earlier{Recovered: recovered.Spans, Dropped: recovered.Others}, Err: err})
	}
	destinations, unreadable := s.Destinations(ctx)
	for _, to := range destinations {
		f := Flushed{To: to}
		client, err := dialTrusted(to, dial)
		if err == nil {
			err = flush(ctx, s, to, client, &f.Earlier, done)
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
	if failed := attempt(ctx, client.Start); failed != nil {
		return failed
	}
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
		sum.Dropped += d.evicted.Others
	}()
	err := d.sendAll(ctx, ctx)
	stopped := attempt(context.WithoutCancel(ctx), client.Stop)
	if err == nil && stopped != nil {
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
