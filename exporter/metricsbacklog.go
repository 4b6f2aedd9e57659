package exporter

import (
	"context"
	"errors"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A MetricsUploader sends spooled metrics.
type MetricsUploader interface {
	// UploadMetrics makes one attempt to send an encoded
	// ExportMetricsServiceRequest. It returns an [UploadError], as a Client does, or
	// errors.ErrUnsupported if the receiver takes no metrics.
	UploadMetrics(ctx context.Context, request []byte) error
}

// A MetricsBacklog sends the metrics that other processes left in a spool.
//
// A request is sent whole or not at all. One of cumulative metrics may arrive twice,
// which does no harm. One of deltas is sent again only if the receiver certainly did
// not take it.
type MetricsBacklog struct {
	Spool  spool.Spool
	To     spool.Destination
	Client MetricsUploader
	More   func() bool                    // reports whether to send another request
	Retry  func(after time.Duration) bool // waits for after, and reports whether to retry a request

	Earlier EarlierMetrics // what became of the requests
	Evicted spool.Evicted  // to make room for rejected ones
}

// Send sends the backlog until ctx ends. disk bounds the waits for the disk. Its
// error says why metrics still wait.
func (b *MetricsBacklog) Send(ctx, disk context.Context) error {
	box, err := b.Spool.Outbox(disk, b.To)
	if box == nil || err != nil {
		return err
	}
	defer box.Close()
	for b.More() {
		claim, corrupt, err := box.Next(disk)
		b.Earlier.Dropped += corrupt
		if claim == nil || err != nil {
			return err
		}
		if claim.Own { // this process has reported it as spooled
			_ = claim.Release() // on failure, the next process to hold the lock finds it unchanged
			continue
		}
		switch why, err := b.send(ctx, claim); {
		case err != nil:
			return err
		case why != nil:
			return why
		}
	}
	return nil
}

// send sends one request. why is not nil if the receiver takes no requests now.
func (b *MetricsBacklog) send(ctx context.Context, claim *spool.Claim) (why *UploadError, err error) {
	for {
		unwanted := false
		why = attempt(ctx, func(ctx context.Context) error {
			err := b.Client.UploadMetrics(ctx, claim.Body)
			unwanted = errors.Is(err, errors.ErrUnsupported)
			return err
		})
		switch {
		case unwanted:
			b.Earlier.Unwanted += claim.Points
			return nil, claim.Done()
		case why == nil:
			b.Earlier.Delivered += claim.Points
			return nil, claim.Done()
		}
		if why.RetryAfter == 0 || !b.Retry(why.RetryAfter) {
			return b.settle(claim, why)
		}
	}
}

// settle decides about a request that the receiver did not accept.
func (b *MetricsBacklog) settle(claim *spool.Claim, why *UploadError) (*UploadError, error) {
	switch {
	case why.Verdict == Partial:
		lost := min(max(why.Rejected, 0), claim.Points)
		b.Earlier.Delivered += claim.Points - lost
		b.Earlier.Dropped += lost
		return nil, claim.Done()
	case why.Verdict == Permanent, why.Verdict == TooLarge:
		// No context: a request that was sent must be removed even after the deadline.
		evicted, err := claim.Room().Reject(context.Background(), b.To, spool.Request{Body: claim.Body, Points: claim.Points}, why.Error())
		b.Evicted.Add(evicted)
		if err != nil {
			b.Earlier.Dropped += claim.Points
		} else {
			b.Earlier.Rejected += claim.Points
		}
		return nil, claim.Done()
	case claim.Delta && !why.Refused:
		b.Earlier.Dropped += claim.Points
		return why, claim.Done()
	}
	_ = claim.Release() // on failure, the next process to hold the lock finds it unchanged
	return why, nil
}
