// Package receivertest provides an OTLP receiver for tests: real servers on free
// ports that keep what they receive and misbehave on request.
package receivertest

import (
	"context"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receiver"
)

// A Receiver accepts every request at once, until told otherwise.
type Receiver struct {
	t          testing.TB
	grpc, http string // addresses, kept over a Restart

	mu       sync.Mutex
	running  *receiver.Receiver // nil when stopped
	changed  chan struct{}      // closed, and replaced, when something came or was taken
	attempts int
	largest  int
	taken    []*coltracepb.ExportTraceServiceRequest
	respond  func(context.Context, int) (receiver.Rejected, error)
}

// Start starts a Receiver that stops with the test.
func Start(t testing.TB) *Receiver {
	t.Helper()
	addresses, err := Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{t: t, grpc: addresses[0], http: addresses[1], changed: make(chan struct{})}
	r.Refuse(0, nil)
	r.Restart()
	t.Cleanup(r.Stop)
	return r
}

// GRPCEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for gRPC.
func (r *Receiver) GRPCEndpoint() string { return "http://" + r.grpc }

// HTTPEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for HTTP.
func (r *Receiver) HTTPEndpoint() string { return "http://" + r.http }

// Stop stops the receiver: its ports refuse connections.
func (r *Receiver) Stop() {
	r.mu.Lock()
	running := r.running
	r.running = nil
	r.mu.Unlock()
	if running != nil {
		running.Close()
		Released()
	}
}

// Restart starts the receiver again, on the same ports and with what it had
// received.
func (r *Receiver) Restart() {
	r.t.Helper()
	running, err := receiver.Start(receiver.Config{GRPC: r.grpc, HTTP: r.http, Handle: r.handle})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = running
}

// Respond makes f answer the requests. n numbers the requests since the call, from
// 1. Only requests answered without an error are kept.
func (r *Receiver) Respond(f func(ctx context.Context, n int) (receiver.Rejected, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts, r.respond = 0, f
}

// Refuse answers the next n requests with err, a gRPC status.
func (r *Receiver) Refuse(n int, err error) {
	r.Respond(func(_ context.Context, i int) (receiver.Rejected, error) {
		if i <= n {
			return receiver.Rejected{}, err
		}
		return receiver.Rejected{}, nil
	})
}

// Partial makes the receiver say that it rejected n spans of each request.
func (r *Receiver) Partial(n int64, message string) {
	r.Respond(func(context.Context, int) (receiver.Rejected, error) {
		return receiver.Rejected{Spans: n, Message: message}, nil
	})
}

// Delay makes every answer take d.
func (r *Receiver) Delay(d time.Duration) {
	r.Respond(func(ctx context.Context, _ int) (receiver.Rejected, error) {
		select {
		case <-time.After(d):
			return receiver.Rejected{}, nil
		case <-ctx.Done():
			return receiver.Rejected{}, ctx.Err()
		}
	})
}

// Hang makes the receiver take requests and never answer.
func (r *Receiver) Hang() {
	r.Respond(func(ctx context.Context, _ int) (receiver.Rejected, error) {
		<-ctx.Done()
		return receiver.Rejected{}, ctx.Err()
	})
}

func (r *Receiver) handle(ctx context.Context, request []byte) (receiver.Rejected, error) {
	req := new(coltracepb.ExportTraceServiceRequest)
	if err := proto.Unmarshal(request, req); err != nil {
		return receiver.Rejected{}, err
	}
	r.mu.Lock()
	r.attempts++
	n, respond := r.attempts, r.respond
	r.largest = max(r.largest, proto.Size(req))
	r.broadcast()
	r.mu.Unlock()

	rejected, err := respond(ctx, n)
	if err != nil {
		return receiver.Rejected{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, req)
	r.broadcast()
	return rejected, nil
}

func (r *Receiver) broadcast() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Await waits until ok returns true. It calls ok whenever a request was received or
// accepted, and fails the test after two minutes.
func (r *Receiver) Await(ok func() bool) {
	r.t.Helper()
	Await(r.t, &r.mu, &r.changed, ok)
}

// Await waits until ok returns true. It calls ok each time the channel closes that
// changed points to, which mu guards, and fails the test after two minutes.
func Await(t testing.TB, mu sync.Locker, changed *chan struct{}, ok func() bool) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		mu.Lock()
		next := *changed
		mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-next:
		case <-timeout:
			t.Fatal("what was awaited did not arrive")
		}
	}
}

// Attempts returns how many requests were received since the last change of
// behavior.
func (r *Receiver) Attempts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts
}

// Largest returns the size of the largest request received, in bytes.
func (r *Receiver) Largest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.largest
}

// Requests returns the accepted requests, in the order they arrived.
func (r *Receiver) Requests() []*coltracepb.ExportTraceServiceRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*coltracepb.ExportTraceServiceRequest(nil), r.taken...)
}

// Spans returns the spans of all accepted requests.
func (r *Receiver) Spans() []*tracepb.Span {
	var spans []*tracepb.Span
	for _, req := range r.Requests() {
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans = append(spans, ss.Spans...)
			}
		}
	}
	return spans
}

// Resources returns the resources of all accepted requests, one for each
// ResourceSpans.
func (r *Receiver) Resources() []*resourcepb.Resource {
	var resources []*resourcepb.Resource
	for _, req := range r.Requests() {
		for _, rs := range req.ResourceSpans {
			resources = append(resources, rs.Resource)
		}
	}
	return resources
}
