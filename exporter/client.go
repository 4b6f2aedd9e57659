package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"

	"github.com/spantee/spantee/exporter/spool"
)

// A Client uploads requests to one destination; exporter/otlp and exporter/file
// have one each. UploadTraces may be called by two goroutines at once.
//
// The spans of a request are encoded already: they are in the unknown fields of
// its ScopeSpans, where proto.Marshal finds them but GetSpans does not. A Client
// that looks into spans has to marshal and unmarshal the request first.
//
// UploadTraces says by an [UploadError] what to do about a request that failed.
// A context's error counts as Retryable, and any other error as Permanent.
type Client interface {
	otlptrace.Client
	Destination() spool.Destination
}

// A Verdict says what to do about a request that failed.
type Verdict int

// The verdicts.
const (
	Permanent     Verdict = iota // the request will never be accepted: its spans are rejected
	Retryable                    // the same request may be accepted later
	Unreachable                  // retryable, but Close does not wait: nobody is listening
	Misconfigured                // nothing will be accepted until somebody fixes something, such as a token
	TooLarge                     // the request will never be accepted, but its halves may be
	Partial                      // accepted, except for some of its spans
)

// An UploadError is how a Client says what to do about a request that failed.
type UploadError struct {
	Verdict Verdict
	Err     error // why, for a person to read; may be an *Error

	// RetryAfter is how long the receiver wants no requests, zero if it did not
	// say. The Exporter sends none until then.
	RetryAfter time.Duration

	Rejected int // spans, if the verdict is Partial

	// Refused says that the receiver certainly has nothing of the request: it said
	// so, or was not there. Else the answer may have been lost.
	Refused bool
}

func (e *UploadError) Error() string { return e.Err.Error() }
func (e *UploadError) Unwrap() error { return e.Err }

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
	errClosed   = &UploadError{Verdict: Permanent, Err: errors.New("there was no time left to send it")}
)

// attempt calls one of a Client's methods. A panic of the client costs a
// request, not the run.
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
		if e.Err == nil {
			e = &UploadError{Verdict: e.Verdict, Err: errors.New("unknown error"), RetryAfter: e.RetryAfter, Rejected: e.Rejected}
		}
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errTimeout
	}
	return &UploadError{Verdict: Permanent, Err: err}
}
