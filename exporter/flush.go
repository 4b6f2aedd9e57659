package exporter

import (
	"context"
	"errors"
	"fmt"

	"github.com/spantee/spantee/exporter/spool"
)

// Flushed is what became of the requests that waited for one destination.
type Flushed struct {
	To spool.Destination
	Earlier
	Err error // why some still wait, which may be an *Error
}

// Flush sends all that waits in a spool, each request to where it was meant
// for, or all of them to the endpoint of cfg if it has one. The headers and
// certificates of cfg and of the environment go nowhere but to the endpoint
// they belong to. done is told of spans that wait no longer.
func Flush(ctx context.Context, s spool.Spool, cfg OTLP, done func(spans int)) ([]Flushed, error) {
	recovered, evicted, err := s.Recover()
	all := []Flushed{}
	if err != nil || recovered+evicted.Others > 0 {
		all = append(all, Flushed{Earlier: Earlier{Recovered: recovered, GivenUp: evicted.Others}, Err: err})
	}
	destinations, unreadable := s.Destinations()
	for _, to := range destinations {
		f := Flushed{To: to}
		client, err := clientFor(to, cfg)
		if err == nil {
			err = flush(ctx, s, to, client, &f.Earlier, done)
		}
		if f.Err = err; err != nil {
			f.Err = hinted(err)
		}
		all = append(all, f)
	}
	return all, unreadable
}

func flush(ctx context.Context, s spool.Spool, to spool.Destination, client Client, sum *Earlier, done func(spans int)) error {
	if f := attempt(ctx, client.Start); f != nil {
		return f
	}
	before := 0
	all := drained{}
	defer func() {
		*sum = all.others
		sum.GivenUp += all.evicted.Others
	}()
	err := drain(ctx, s, to, client, &all, func() bool {
		now := all.others.Delivered + all.others.Rejected + all.others.GivenUp
		done(now - before)
		before = now
		return ctx.Err() == nil
	})
	stopped := attempt(context.WithoutCancel(ctx), client.Stop)
	if err == nil && stopped != nil {
		return stopped
	}
	return errors.Join(err, ctx.Err())
}

// clientFor returns a client that reaches a destination.
func clientFor(to spool.Destination, cfg OTLP) (Client, error) {
	if to.Protocol == protocolFile && cfg.Endpoint == "" {
		return NewFile(to.Endpoint)
	}
	s, err := cfg.settings()
	if cfg.Endpoint != "" || err == nil && s.destination() == to {
		if err != nil {
			return nil, err
		}
		return s.client(), nil
	}
	s, err = plainSettings(to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.Endpoint, err)
	}
	return s.client(), nil
}

// hinted makes of a failure an error that knows what to try.
func hinted(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return &Error{f.cause, f.hint}
	}
	return err
}
