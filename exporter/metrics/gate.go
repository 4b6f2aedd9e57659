package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter"
)

// A Gate guards a receiver. It lets one request at a time through, and none
// before the receiver wants them again, whichever Recorders they are from.
type Gate struct {
	turn     chan struct{} // holds a value while a request is on its way
	notUntil atomic.Int64  // in nanoseconds
}

// NewGate returns a Gate that is open.
func NewGate() *Gate { return &Gate{turn: make(chan struct{}, 1)} }

// delay is how long the receiver wants no request.
func (g *Gate) delay() time.Duration { return time.Until(time.Unix(0, g.notUntil.Load())) }

// pass makes an attempt when it is its turn and the receiver wants requests, unless ctx
// ends before.
func (g *Gate) pass(ctx context.Context, attempt func() error) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return errNoTime
	}
	if err := wait(ctx, g.delay()); err != nil {
		return err
	}
	err := attempt()
	if upload, ok := errors.AsType[*exporter.UploadError](err); ok && upload.RetryAfter > 0 {
		g.notUntil.Store(time.Now().Add(upload.RetryAfter).UnixNano())
	}
	return err
}

// wait waits for delay, unless ctx would end before.
func wait(ctx context.Context, delay time.Duration) error {
	deadline, bounded := ctx.Deadline()
	switch {
	case delay > 0 && bounded && time.Until(deadline) < delay:
		return errDelay
	case ctx.Err() != nil:
		return errNoTime
	case delay <= 0:
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return errDelay
	}
}

// isNotSent reports whether an error is from pass, which did not make the attempt.
func isNotSent(err error) bool { return errors.Is(err, errDelay) || errors.Is(err, errNoTime) }

var (
	errDelay  error = &exporter.UploadError{Verdict: exporter.Retryable, Refused: true, Err: errors.New("the collector asked for a longer delay than there was time for")}
	errNoTime error = &exporter.UploadError{Verdict: exporter.Retryable, Refused: true, Err: errors.New("there was no time left to send them")}
)
