// Package exporter takes finished spans to where they are kept: batched by
// bytes, delivered, retried, and counted. A span that ended was delivered or
// is in the report of what was lost, and why.
package exporter

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A Config says what an Exporter sends, and where to.
type Config struct {
	Client   otlptrace.Client // takes the requests; NewOTLP makes one
	Resource *resourcepb.Resource
	Scope    *commonpb.InstrumentationScope

	// Wait makes Export wait for room, as a replay can and a live pipe cannot.
	Wait bool

	MaxRequest int           // bytes of a request; zero is 3 MiB, as gRPC servers refuse 4
	MaxQueue   int           // bytes held in memory, at least two requests; zero is 16 MiB
	Interval   time.Duration // how long a span waits for company; zero is 1 s
}

// A Report is what became of the spans. Ended is always Delivered + Dropped.
type Report struct {
	Ended, Delivered, Dropped int

	Cause error  // why the first of the dropped was lost, for a person to read
	Hint  string // what to try, if there is something
}

const (
	// patience and longPatience bound how long Export waits for room: with a
	// request that has failed before, and with one that is only slow.
	patience     = 2 * time.Second
	longPatience = 10 * time.Second
	// grace is what a client has to return once its context has ended.
	grace = 200 * time.Millisecond
)

// An Exporter delivers spans from a goroutine of its own, until Close.
type Exporter struct {
	cfg      Config
	overhead int // bytes of a request besides its spans

	ctx     context.Context // of every attempt; ends with the context of Close
	cancel  context.CancelFunc
	wake    chan struct{} // the sender has something to look at
	closing chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	closed bool
	queue  []pending
	queued int           // bytes in queue
	flying int           // bytes of the request being delivered
	since  time.Time     // when its delivery began
	moved  chan struct{} // closed, and replaced, when it is done or stuck
	stuck  *failure      // why it has to be tried again, if it has
	report Report
}

// A pending span is encoded already: the bytes it adds to a request. As structs
// a queue would take several times what it may.
type pending struct {
	wire []byte
	at   time.Time
}

// New starts an Exporter. Whoever starts it must Close it.
func New(cfg Config) *Exporter {
	if cfg.MaxRequest == 0 {
		cfg.MaxRequest = 3 << 20
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 16 << 20
	}
	cfg.MaxQueue = max(cfg.MaxQueue, 2*cfg.MaxRequest) // one in flight, one to fill
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	e := &Exporter{
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		moved:   make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())

	// The lengths of its two enclosing messages take more bytes in a full
	// request than in an empty one, up to three each.
	e.overhead = 2*3 + proto.Size(&coltracepb.ExportTraceServiceRequest{ResourceSpans: e.request(nil)})
	go e.run()
	return e
}

// Export hands over a span. It may be called from several goroutines, and
// returns at once unless the Exporter was told to wait. A span that finds no
// room, or comes after Close, is dropped and counted.
func (e *Exporter) Export(span *tracepb.Span) {
	var wire []byte
	var err error
	select {
	case <-e.closing: // it will only be counted
	default:
		wire, err = encode(span)
	}
	if lost, why := e.enqueue(pending{wire, time.Now()}, err); lost > 0 {
		e.giveUp(lost, why)
	}
}

// fieldSpans is ScopeSpans.spans.
const fieldSpans = 2

// encode returns a span as it stands in a request. It fails for a string that
// is not UTF-8, which in a request would fail the whole of it.
func encode(span *tracepb.Span) ([]byte, error) {
	size := proto.Size(span)
	b := make([]byte, 0, protowire.SizeTag(fieldSpans)+protowire.SizeBytes(size))
	b = protowire.AppendTag(b, fieldSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, span)
}

// enqueue adds p, unless it is unsound, to the queue. It returns how many spans
// had to go instead, and why.
func (e *Exporter) enqueue(p pending, unsound error) (lost int, why *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.report.Ended++
	switch {
	case unsound != nil:
		return 1, errUnsound
	case e.overhead+len(p.wire) > e.cfg.MaxRequest:
		return 1, errTooLarge
	case e.cfg.Wait:
		e.waitForRoom(len(p.wire))
	}
	if e.closed {
		return 1, errClosed
	}

	// The oldest go, a request at a time: the root ends last, and a trace
	// without its root is worth little.
	for !e.room(len(p.wire)) {
		spans, _ := e.cut()
		lost += len(spans)
	}
	why = errTooSlow
	if e.stuck != nil {
		why = e.stuck
	}

	e.queue = append(e.queue, p)
	e.queued += len(p.wire)
	if len(e.queue) == 1 || e.full() {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return lost, why
}

// waitForRoom waits until size bytes more fit, or until waiting makes no
// sense. It is called, and returns, with e.mu held.
func (e *Exporter) waitForRoom(size int) {
	for !e.closed && !e.room(size) {
		left := longPatience
		if e.stuck != nil {
			left = patience
		}
		if e.flying > 0 {
			left -= time.Since(e.since)
		}
		if left <= 0 {
			return
		}
		moved := e.moved
		e.mu.Unlock()
		select {
		case <-moved:
		case <-e.closing:
		case <-time.After(left):
		}
		e.mu.Lock()
	}
}

func (e *Exporter) room(size int) bool { return e.queued+e.flying+size <= e.cfg.MaxQueue }

func (e *Exporter) full() bool { return e.overhead+e.queued >= e.cfg.MaxRequest }

// cut takes a request's worth of spans from the head of the queue.
func (e *Exporter) cut() (spans [][]byte, size int) {
	for _, p := range e.queue {
		if e.overhead+size+len(p.wire) > e.cfg.MaxRequest {
			break
		}
		spans = append(spans, p.wire)
		size += len(p.wire)
	}
	clear(e.queue[:len(spans)])
	e.queue = e.queue[len(spans):]
	e.queued -= size
	return spans, size
}

// Close sends what is left, retrying until ctx ends, and reports. It does not
// wait at all for a collector that is not there.
func (e *Exporter) Close(ctx context.Context) Report {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
	}
	e.mu.Unlock()

	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	select {
	case <-e.done:
	case <-ctx.Done():
		select {
		case <-e.done:
		case <-time.After(grace): // a client that ignores its context is left behind
		}
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.report
	if lost := r.Ended - r.Delivered - r.Dropped; lost > 0 {
		r.Dropped += lost
		if r.Cause == nil {
			r.Cause, r.Hint = errTimeout.cause, errTimeout.hint
		}
	}
	return r
}

var (
	errTooLarge = &failure{verdict: permanent, cause: errors.New("a span is larger than a request may be")}
	errTooSlow  = &failure{verdict: retryable, cause: errors.New("the collector is too slow")}
	errTimeout  = &failure{verdict: retryable, cause: errors.New("the collector did not answer in time")}
	errUnsound  = &failure{verdict: permanent, cause: errors.New("a span holds text that is not UTF-8")}
	errClosed   = &failure{verdict: permanent, cause: errors.New("there was no time left to send it")}
)
