// Package exporter takes finished spans to where they are kept: batched by
// bytes, delivered, retried, and counted. A span that ended was delivered or
// is in the report of what was lost, and why.
package exporter

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// A Config says what an Exporter sends, and where to.
type Config struct {
	Client   Client // takes the requests; NewOTLP makes one
	Resource *resourcepb.Resource
	Scope    *commonpb.InstrumentationScope

	// Spool, if set, keeps what cannot be delivered. What it has for the same
	// destination is sent on the side.
	Spool *spool.Spool

	// Wait makes Export wait for room from the start (see SetWait), and keeps no
	// journal: it is for a recording, which can be sent again.
	Wait bool

	MaxRequest int           // bytes of a request; zero is 3 MiB, as gRPC servers refuse 4
	MaxQueue   int           // bytes held in memory, at least two requests; zero is 16 MiB
	Interval   time.Duration // how long a span waits for company; zero is 1 s
}

// A Report is what became of the spans. Ended is always Delivered + Spooled +
// Rejected + Dropped.
type Report struct {
	Ended     int
	Delivered int
	Spooled   int // to be delivered later
	Rejected  int // by the receiver, and kept
	Dropped   int

	Cause   error  // why the first that was not delivered was not, for a person to read
	Hint    string // what to try, if there is something
	NotKept error  // why there are Dropped ones in spite of a spool

	Earlier Earlier
}

// Earlier is what became of spans of other processes, found in the spool.
type Earlier struct {
	Recovered int // from processes that were killed
	Delivered int
	Rejected  int // by the receiver, and kept
	GivenUp   int // for newer ones, or as unreadable
}

func (e *Earlier) add(more Earlier) {
	e.Recovered += more.Recovered
	e.Delivered += more.Delivered
	e.Rejected += more.Rejected
	e.GivenUp += more.GivenUp
}

// drained makes good what was Spooled before.
func (r *Report) drained(d drained) {
	r.evicted(d.evicted)
	r.Earlier.add(d.others)
	r.Spooled -= d.own.Delivered + d.own.Rejected + d.own.GivenUp
	r.Delivered += d.own.Delivered
	r.Rejected += d.own.Rejected
	r.Dropped += d.own.GivenUp
}

func (r *Report) evicted(e spool.Evicted) {
	r.Spooled -= e.Own
	r.Rejected -= e.OwnRejected
	r.Dropped += e.Own + e.OwnRejected
	r.Earlier.GivenUp += e.Others
}

func (r *Report) blame(why *failure) {
	if r.Cause == nil {
		r.Cause, r.Hint = why.cause, why.hint
	}
}

const (
	// longPatience is how long Export waits for room while the collector takes
	// nothing: it may be slow, or say that it is busy.
	longPatience = time.Minute
	// patience is the same for a collector that does not answer.
	patience = 2 * time.Second
	// grace is what a client has to return, or a disk to take what is left,
	// once the context of Close has ended.
	grace = time.Second
	// reserve is how long before that context ends no attempt goes on, so that
	// there is time to keep what is left.
	reserve = 50 * time.Millisecond
)

// An Exporter delivers spans from a goroutine of its own, until Close.
type Exporter struct {
	cfg      Config
	request  request // without spans
	overhead int     // bytes of a request besides its spans

	ctx      context.Context // of every attempt; ends with the context of Close
	cancel   context.CancelFunc
	wake     chan struct{} // the sender has something to look at
	closing  chan struct{}
	done     chan struct{}
	draining sync.WaitGroup
	idle     sync.Mutex // held while the spool is drained

	mu         sync.Mutex
	wait       bool // Export waits for room
	closed     bool
	queue      []pending
	queued     int           // bytes in queue
	flying     [][]byte      // the request being delivered
	flyingSize int           // bytes of it
	since      time.Time     // when its delivery began, or some of it was last taken
	moved      chan struct{} // closed, and replaced, when it is done or stuck
	stuck      *failure      // why it has to be tried again, if it has
	drainUntil time.Time     // zero until all else is done
	report     Report

	journal *spool.Journal // of a live stream: a replay can be repeated
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
		request: request{resource: cfg.Resource, scope: cfg.Scope},
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		moved:   make(chan struct{}),
		wait:    cfg.Wait,
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())

	if cfg.Spool != nil {
		own := *cfg.Spool
		own.Owner = spool.NewOwner()
		e.cfg.Spool = &own
	}
	if cfg.Spool != nil && !cfg.Wait {
		e.journal = cfg.Spool.NewJournal(cfg.Client.Destination())
	}

	// The lengths of its two enclosing messages take more bytes in a full
	// request than in an empty one, up to three each.
	e.overhead = 2*3 + proto.Size(&coltracepb.ExportTraceServiceRequest{ResourceSpans: e.request.resourceSpans()})
	go e.run()
	return e
}

// Export hands over a span. It may be called from several goroutines, and
// returns at once unless the Exporter was told to wait. Where there is no room
// the oldest spans go to the spool, or without one are dropped and counted; and
// so does a span that comes after Close.
func (e *Exporter) Export(span *tracepb.Span) {
	if e.isClosed() && e.cfg.Spool == nil {
		e.count(func(r *Report) {
			r.Ended++
			r.Dropped++
			r.blame(errClosed)
		})
		return
	}
	wire, err := encode(span)
	e.count(func(r *Report) { r.Ended++ })
	switch {
	case err != nil:
		e.count(func(r *Report) {
			r.Dropped++
			r.blame(errUnsound)
		})
		return
	case e.overhead+len(wire) > e.cfg.MaxRequest:
		e.reject([][]byte{wire}, errTooLarge)
		return
	}
	if e.journal != nil {
		e.journal.Append(wire)
	}
	over, why := e.enqueue(pending{wire, time.Now()})
	for _, spans := range over {
		e.giveUp(spans, why)
	}
}

func (e *Exporter) isClosed() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// enqueue adds p to the queue. It returns the requests that had to go instead,
// and why.
func (e *Exporter) enqueue(p pending) (over [][][]byte, why *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waitForRoom(len(p.wire))
	// The oldest go, a request at a time: the root ends last, and a trace
	// without its root is worth little.
	for len(e.queue) > 0 && !e.room(len(p.wire)) {
		spans, _ := e.cut()
		over = append(over, spans)
	}
	why = cmp.Or(e.stuck, errTooSlow)

	e.queue = append(e.queue, p)
	e.queued += len(p.wire)
	if len(e.queue) == 1 || e.full() {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return over, why
}

// SetWait tells Export whether to wait while there is no room, for as long as
// the collector takes anything. It also frees an Export that waits.
func (e *Exporter) SetWait(wait bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wait = wait
	e.broadcast()
}

// waitForRoom waits, if it is to, until size bytes more fit, or until the
// collector has taken nothing for too long. It is called, and returns, with
// e.mu held.
func (e *Exporter) waitForRoom(size int) {
	for e.wait && !e.closed && !e.room(size) {
		left := longPatience
		if e.stuck != nil && (e.stuck.verdict == unreachable || e.stuck == errTimeout) {
			left = patience
			if !e.cfg.Wait {
				return // a live stream may wait for us
			}
		}
		if e.flying != nil {
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

func (e *Exporter) room(size int) bool { return e.queued+e.flyingSize+size <= e.cfg.MaxQueue }

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

// Close sends what is left, retrying until shortly before ctx ends, and
// reports. It does not wait at all for a collector that is not there. It may be
// called again to do the same for what was exported since.
func (e *Exporter) Close(ctx context.Context) Report {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
	}
	e.mu.Unlock()

	attempts, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		attempts, cancel = context.WithDeadline(ctx, end.Add(-min(reserve, time.Until(end)/4)))
	}
	defer cancel()
	stop := context.AfterFunc(attempts, e.cancel)
	defer stop()
	select {
	case <-e.done:
	case <-attempts.Done():
		select {
		case <-e.done:
		case <-time.After(grace): // a client that ignores its context is left behind
		}
	}
	for spans := e.rest(); spans != nil; spans = e.rest() {
		e.giveUp(spans, e.whyStuck())
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.report
	missing := r.Ended - r.Delivered - r.Spooled - r.Rejected - r.Dropped
	kept := e.closeJournal(missing > 0)
	switch {
	case r.Delivered == r.Ended: // the spool has been drained since
		r.Cause, r.Hint = nil, ""
	case missing == 0:
	case kept: // in the journal, to be recovered
		r.Spooled += missing
		r.blame(errTimeout)
	default:
		r.Dropped += missing
		r.blame(errTimeout)
	}
	return r
}

// rest returns a request's worth of what the sender left.
func (e *Exporter) rest() [][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	spans, _ := e.cut()
	return spans
}

var (
	errTooLarge = &failure{verdict: permanent, cause: errors.New("a span is larger than a request may be")}
	errTooSlow  = &failure{verdict: retryable, cause: errors.New("the collector is too slow")}
	errTimeout  = &failure{verdict: retryable, cause: errors.New("the collector did not answer in time")}
	errUnsound  = &failure{verdict: permanent, cause: errors.New("a span holds text that is not UTF-8")}
	errClosed   = &failure{verdict: permanent, cause: errors.New("there was no time left to send it")}
)
