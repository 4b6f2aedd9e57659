package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Between two attempts to deliver a request; it doubles from one to the other.
const (
	minWait = 100 * time.Millisecond
	maxWait = 5 * time.Second
)

// run is the sender: one request after the other until Close has begun and
// nothing is left.
func (e *Exporter) run() {
	defer close(e.done)
	defer e.cancel()

	broken := e.attempt(e.cfg.Client.Start)
	for spans := e.next(); spans != nil; spans = e.next() {
		if broken != nil {
			e.giveUp(len(spans), broken)
		} else {
			e.deliver(spans)
		}
		e.landed()
	}
	_ = e.attempt(e.cfg.Client.Stop) // nothing is left that it could lose
}

// next waits for a full request, for a span that has waited long enough, or
// for Close. It returns nil after the last request.
func (e *Exporter) next() [][]byte {
	for {
		spans, due, last := e.takeOff()
		if spans != nil || last {
			return spans
		}
		select {
		case <-e.wake:
		case <-due:
		case <-e.closing:
		}
	}
}

// takeOff returns the next request if its time has come, or else when it will,
// or that there will be no more.
func (e *Exporter) takeOff() (spans [][]byte, due <-chan time.Time, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil, nil, e.closed
	}
	left := e.cfg.Interval - time.Since(e.queue[0].at)
	if left > 0 && !e.full() && !e.closed {
		return nil, time.After(left), false
	}
	spans, e.flying = e.cut()
	e.since = time.Now()
	return spans, nil, false
}

// landed makes room: the request in flight is done with.
func (e *Exporter) landed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flying = 0
	e.broadcast()
}

// broadcast wakes every Export that waits for room.
func (e *Exporter) broadcast() {
	close(e.moved)
	e.moved = make(chan struct{})
}

// deliver sends spans until they are taken, refused for good, or given up.
func (e *Exporter) deliver(spans [][]byte) {
	wait := minWait
	for e.ctx.Err() == nil {
		closing := e.closing // nil once Close has begun: it cuts a wait short only once
		select {
		case <-closing:
			closing = nil
		default:
		}

		f := e.attempt(func(ctx context.Context) error {
			return e.cfg.Client.UploadTraces(ctx, e.request(spans))
		})
		switch {
		case f == nil:
			e.count(len(spans), 0, nil)
			return
		case f.verdict == partial:
			lost := min(max(f.rejected, 0), len(spans))
			e.count(len(spans)-lost, lost, f)
			return
		case f.verdict == tooLarge && len(spans) > 1:
			half := len(spans) / 2
			e.deliver(spans[:half])
			e.deliver(spans[half:])
			return
		case f.verdict == tooLarge, f.verdict == permanent:
			good := sound(spans)
			if len(good) == len(spans) {
				e.giveUp(len(spans), f)
				return
			}
			e.giveUp(len(spans)-len(good), errUnsound)
			if len(good) == 0 {
				return
			}
			spans = good
			continue
		}

		e.setStuck(f)
		if closing == nil && f.verdict == unreachable {
			e.cancel() // nor would the requests behind this one get through
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
			wait = min(2*wait, maxWait)
		case <-closing:
			wait = minWait
		case <-e.ctx.Done():
		}
	}
	e.giveUp(len(spans), e.whyStuck())
}

// attempt does one thing with the client. A panic there costs a request, not the run.
func (e *Exporter) attempt(do func(context.Context) error) (f *failure) {
	defer func() {
		if r := recover(); r != nil {
			f = &failure{verdict: permanent, cause: fmt.Errorf("panic: %v", r)}
		}
	}()
	err := do(e.ctx)
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return &failure{verdict: permanent, cause: err}
}

// giveUp is where every undelivered span ends.
func (e *Exporter) giveUp(spans int, why *failure) {
	e.count(0, spans, why)
}

func (e *Exporter) count(delivered, dropped int, why *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if delivered > 0 {
		e.stuck = nil
	}
	e.report.Delivered += delivered
	e.report.Dropped += dropped
	if dropped > 0 && e.report.Cause == nil {
		e.report.Cause, e.report.Hint = why.cause, why.hint
	}
}

func (e *Exporter) setStuck(f *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stuck == nil || e.ctx.Err() == nil { // an attempt that was broken off tells nothing new
		e.stuck = f
	}
	e.broadcast()
}

func (e *Exporter) whyStuck() *failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stuck == nil {
		return errTimeout
	}
	return e.stuck
}

// request wraps encoded spans, which proto.Marshal takes over as they are.
func (e *Exporter) request(spans [][]byte) []*tracepb.ResourceSpans {
	scope := &tracepb.ScopeSpans{Scope: e.cfg.Scope}
	scope.ProtoReflect().SetUnknown(bytes.Join(spans, nil))
	return []*tracepb.ResourceSpans{{Resource: e.cfg.Resource, ScopeSpans: []*tracepb.ScopeSpans{scope}}}
}

// sound returns the spans that can be read. In what a span's unknown fields hold
// encode does not see a string that is not UTF-8, and a receiver refuses the
// whole request for it.
func sound(spans [][]byte) (good [][]byte) {
	for _, wire := range spans {
		if proto.Unmarshal(wire, new(tracepb.ScopeSpans)) == nil {
			good = append(good, wire)
		}
	}
	return good
}
