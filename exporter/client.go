package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A Client uploads requests to one destination. Packages exporter/otlp and
// exporter/file provide implementations.
type Client interface {
	// Stop is called once, after all uploads.
	Stop(ctx context.Context) error

	// UploadTraces makes one attempt to send an encoded ExportTraceServiceRequest.
	// Two goroutines may call it at once. The client must not use request after it
	// has returned.
	//
	// UploadTraces returns an [UploadError] that says what to do about a failed
	// request. A context's error counts as Retryable, any other error as Permanent.
	UploadTraces(ctx context.Context, request []byte) error

	// Destination returns where requests go, for a spool.
	Destination() spool.Destination
}

// A MetricsClient sends the metrics that killed processes left.
type MetricsClient interface {
	Client

	// UploadMetrics makes one attempt to send an encoded ExportMetricsServiceRequest. Its
	// error is like that of UploadTraces. A receiver that takes no metrics, such as Jaeger, is
	// no failure.
	UploadMetrics(ctx context.Context, request []byte) error
}

// A Verdict says what to do about a request that failed.
type Verdict int

// The verdicts.
const (
	Permanent     Verdict = iota // the request will never be accepted: its spans are rejected
	Retryable                    // the same request may be accepted later
	Unreachable                  // retryable, but Close does not wait: nobody is listening
	Misconfigured                // no request will be accepted until the configuration is fixed, such as a token
	TooLarge                     // the request will never be accepted, but its halves may be
	Partial                      // accepted, except for some of its spans
)

// An UploadError is the error of a failed request, with what to do about the
// request.
type UploadError struct {
	Verdict Verdict
	Err     error // why, for a person to read; required, may be an *Error

	// RetryAfter is how long the receiver asked clients to wait, or zero. The
	// Exporter sends nothing until then.
	RetryAfter time.Duration

	Rejected int // spans or data points, if the verdict is Partial; the receiver may say anything
}

func (e *UploadError) Error() string { return e.Err.Error() }
func (e *UploadError) Unwrap() error { return e.Err }

// MayRepeat reports whether the same request may be accepted another time.
func (e *UploadError) MayRepeat() bool {
	return e.Verdict == Retryable || e.Verdict == Unreachable || e.Verdict == Misconfigured
}

// RejectedOf returns how many of n spans or data points were rejected, if the verdict is
// Partial.
func (e *UploadError) RejectedOf(n int) int { return min(max(e.Rejected, 0), n) }

// A Delay is how long a receiver wants no requests. It may be used by several goroutines.
type Delay struct{ until atomic.Pointer[time.Time] }

// Heard takes the delay of an answer.
func (d *Delay) Heard(answer *UploadError) {
	if answer.RetryAfter > d.Left() {
		d.until.Store(new(time.Now().Add(answer.RetryAfter)))
	}
}

// Left returns how long the receiver still wants no requests.
func (d *Delay) Left() time.Duration {
	if until := d.until.Load(); until != nil {
		return max(0, time.Until(*until))
	}
	return 0
}

// An Error is an error with a hint: what to try.
type Error struct {
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

var (
	errTooLarge = &UploadError{Verdict: Permanent, Err: errors.New("a span exceeds the maximum request size")}
	errTooSlow  = &UploadError{Verdict: Retryable, Err: errors.New("the collector is too slow")}
	errTimeout  = &UploadError{Verdict: Retryable, Err: errors.New("the collector did not answer in time")}
	errInvalid  = &UploadError{Verdict: Permanent, Err: errors.New("a span is invalid, or contains text that is not UTF-8")}
	errLate     = &UploadError{Verdict: Permanent, Err: errors.New("time ran out")}
)

// attempt calls a Client's method. If the method panics, only the request fails.
func attempt(ctx context.Context, do func(context.Context) error) (failed *UploadError) {
	defer func() {
		if r := recover(); r != nil {
			failed = &UploadError{Verdict: Permanent, Err: fmt.Errorf("panic: %v", r)}
		}
	}()
	err := do(ctx)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*UploadError](err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errTimeout
	}
	return &UploadError{Verdict: Permanent, Err: err}
}
