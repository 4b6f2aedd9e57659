// Package exporter delivers finished spans. An [Exporter] batches spans by size,
// retries failed requests, and spools on disk what it cannot deliver. A [Report]
// accounts for every exported span: delivered, spooled, rejected or dropped, and
// why.
//
// A [Client] sends the requests. Package exporter/otlp provides clients for OTLP
// receivers, and package exporter/file one that writes OTLP JSON lines.
package exporter

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// A Config says what an Exporter sends, and where. Only Client is required.
type Config struct {
	Client   Client
	Resource *resourcepb.Resource // of spans that are exported without one
	Scope    *commonpb.InstrumentationScope

	// Spool, if set, keeps what cannot be delivered, and a journal of what a killed
	// process would lose. Its backlog for the same destination is sent in the
	// background.
	Spool *spool.Spool

	// Wait makes Export wait for room (see SetWait) and turns off the journal. It
	// is for recordings, which can be sent again.
	Wait bool

	MaxRequest int           // in bytes; zero is 3 MiB, because gRPC servers refuse more than 4
	MaxQueue   int           // bytes held in memory, at least a request and a span; zero is 4 MiB
	Interval   time.Duration // how long a span waits for others to join it; zero is 1 s
}

// New starts an Exporter. The caller must Close it.
func New(cfg Config) (*Exporter, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("exporter: no Client")
	case cfg.MaxRequest < 0 || cfg.MaxQueue < 0 || cfg.Interval < 0:
		return nil, errors.New("exporter: a negative limit")
	case cfg.Spool != nil && cfg.Spool.Dir == "":
		return nil, errors.New("exporter: a Spool without a directory")
	}
	cfg.MaxRequest = cmp.Or(cfg.MaxRequest, 3<<20)
	batch := min(cfg.MaxRequest, fullRequest)
	cfg.MaxQueue = max(cmp.Or(cfg.MaxQueue, 4<<20), batch+cfg.MaxRequest) // one request in flight plus any one span
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	e := &Exporter{
		cfg:      cfg,
		batch:    batch,
		sender:   sender{client: cfg.Client},
		wake:     make(chan struct{}, 1),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
		roomMade: make(chan struct{}),
		wait:     cfg.Wait,
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())

	if cfg.Spool != nil {
		own := *cfg.Spool
		own.Owner = cmp.Or(own.Owner, spool.NewOwner())
		own.SetAside = func(*spool.Untrusted) { e.count(func(r *Report) { r.Earlier.SetAside++ }) }
		e.cfg.Spool = &own
	}
	if cfg.Spool != nil && !cfg.Wait {
		head, err := request{resource: cfg.Resource, scope: cfg.Scope}.body()
		if err != nil {
			return nil, err
		}
		e.journal = e.cfg.Spool.NewJournal(cfg.Client.Destination(), head.Body)
	}
	presumed := newOrigin(cfg.Resource, cfg.Scope)
	e.origins = map[*resourcepb.Resource]*origin{nil: presumed, cfg.Resource: presumed}
	go e.run()
	return e, nil
}

const (
	// fullRequest is the number of bytes of spans at which a request is full; only
	// a single larger span exceeds it. Larger requests are no faster, and a request
	// is in memory several times while it is sent.
	fullRequest = 1 << 20

	// longPatience is how long Export waits for room while the collector accepts
	// nothing: it may be slow, or say that it is busy.
	longPatience = time.Minute
	// patience is the same for a collector that does not answer.
	patience = 2 * time.Second
	// maxDelay bounds how long Export and Flush wait for a receiver that asked for
	// a delay.
	maxDelay = time.Minute
)

// An Exporter delivers spans in the background until Close.
type Exporter struct {
	cfg    Config
	batch  int // bytes of spans that make a request
	sender sender

	ctx      context.Context // of every attempt; ends with the context of Close
	cancel   context.CancelCauseFunc
	wake     chan struct{} // there may be a request to send
	closing  chan struct{}
	done     chan struct{}
	draining sync.WaitGroup
	drainMu  sync.Mutex // held while the spool is drained

	mu           sync.Mutex
	origins      map[*resourcepb.Resource]*origin
	wait         bool // Export waits for room
	closed       bool
	deadline     time.Time // of attempts, once Close has begun; zero for none
	diskDeadline time.Time // the same for the disk
	queue        []queued
	room         []byte // for the next spans' bytes
	queuedBytes  int
	inFlight     [][]byte
	inFlightSize int           // in bytes
	inPiece      bool          // between Begin and Commit or Checkpoint
	pieceCame    time.Time     // when Begin was called
	since        time.Time     // when delivery of inFlight began or last made progress
	roomMade     chan struct{} // closed, and replaced, when inFlight is done, or failed
	lastFailure  *UploadError  // nil after a success
	drainUntil   time.Time     // when Close stops draining; zero until all own spans are done
	drainFrom    time.Time     // no draining before this time, after a failure
	report       Report

	diskLate bool           // the journal did not keep up; used by the sender only
	journal  *spool.Journal // nil for a recording, which can be sent again
}

// A queued span is kept encoded: decoded, it would take several times the memory.
type queued struct {
	*origin
	wire   []byte // the bytes it adds to a request
	number uint64 // in the journal
	at     time.Time
}

// A batch is a request's worth of spans of one origin.
type batch struct {
	*origin
	spans   [][]byte
	size    int
	numbers []interval // in the journal
}

// An interval is a range of span numbers; to is excluded.
type interval struct{ from, to uint64 }

// Export queues a finished span, the wire encoding of an
// opentelemetry.proto.trace.v1.Span. It copies span. from is the span's resource,
// nil for Config.Resource; there should be only a few distinct resources. Export
// may be called by several goroutines, and does not block unless Config.Wait or
// SetWait makes it wait for room. If there is no room, the oldest spans are spooled
// or, without a spool, dropped and counted. A span exported after Close is treated
// the same way.
func (e *Exporter) Export(span []byte, from *resourcepb.Resource) {
	e.mu.Lock()
	e.report.Ended++
	if e.closed && e.cfg.Spool == nil {
		e.report.Dropped++
		e.report.blame(errClosed)
		e.mu.Unlock()
		return
	}
	q := queued{origin: e.originOf(from), wire: e.frame(span), at: e.arrival()}
	if q.overhead+len(q.wire) > e.cfg.MaxRequest {
		e.mu.Unlock()
		e.reject(q.with([][]byte{q.wire}), errTooLarge)
		return
	}
	evicted, why := e.enqueue(q)
	e.mu.Unlock()
	for _, b := range evicted {
		e.spoolOrDropBatch(b, why)
	}
}

// arrival returns when a span that is exported now arrived. The spans of a piece
// arrive together: reading the clock for each would take a fortieth of all time. It
// is called with e.mu held.
func (e *Exporter) arrival() time.Time {
	if e.inPiece {
		return e.pieceCame
	}
	return time.Now()
}

func (e *Exporter) isClosed() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// enqueue adds q to the queue. It returns the requests evicted for it, and why. It
// is called with e.mu held.
func (e *Exporter) enqueue(q queued) (evicted []batch, why *UploadError) {
	if !e.inPiece { // Begin has waited for a piece
		e.waitForRoom(len(q.wire))
	}
	// The oldest go first, a request at a time: the root ends last, and a trace
	// without its root is worth little.
	for len(e.queue) > 0 && !e.hasRoom(len(q.wire)) {
		evicted = append(evicted, e.dequeue())
	}
	why = cmp.Or(e.lastFailure, errTooSlow)
	if e.journal != nil {
		q.number = e.journal.Append(q.wire, q.head)
		if !e.inPiece {
			e.journal.Commit()
		}
	}

	e.queue = append(e.queue, q)
	e.queuedBytes += len(q.wire)
	if len(e.queue) == 1 || e.isFull() {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return evicted, why
}

// SetWait sets whether Export waits for room as long as the collector accepts
// anything. SetWait(false) also releases an Export that is waiting.
func (e *Exporter) SetWait(wait bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wait = wait
	e.wakeWaiting()
}

// waitForRoom waits, if e.wait is set, until size more bytes fit or the collector
// has accepted nothing for too long. It is called, and returns, with e.mu held.
func (e *Exporter) waitForRoom(size int) {
	for e.wait && !e.closed && !e.hasRoom(size) {
		left := longPatience
		if f := e.lastFailure; f != nil && (f.Verdict == Unreachable || f == errTimeout) {
			left = patience
			if !e.cfg.Wait {
				return // a live stream may wait for us
			}
		}
		if e.inFlight != nil {
			left -= time.Since(e.since)
		}
		if delay := e.sender.delay(); delay > 0 && delay <= maxDelay {
			left = max(left, delay+patience)
		}
		if left <= 0 {
			return
		}
		roomMade := e.roomMade
		e.mu.Unlock()
		select {
		case <-roomMade:
		case <-e.closing:
		case <-time.After(left):
		}
		e.mu.Lock()
	}
}

func (e *Exporter) hasRoom(size int) bool {
	limit := e.cfg.MaxQueue
	if e.wait && e.inPiece {
		limit += maxPiece
	}
	return e.queuedBytes+e.inFlightSize+size <= limit
}

func (e *Exporter) isFull() bool {
	return len(e.queue) > 0 && e.queue[0].overhead+e.queuedBytes >= e.batch
}

// dequeue takes a request's worth of spans from the queue: the oldest one, and
// others of the same origin.
func (e *Exporter) dequeue() (b batch) {
	if len(e.queue) == 0 {
		return b
	}
	b.origin = e.queue[0].origin
	n, others := 0, []queued(nil)
	for ; n < len(e.queue); n++ {
		q := e.queue[n]
		if q.origin != b.origin {
			others = append(others, q)
			continue
		}
		if b.size > 0 && b.overhead+b.size+len(q.wire) > e.batch {
			break
		}
		b.add(q)
	}
	rest := n - len(others)
	copy(e.queue[rest:], others)
	clear(e.queue[:rest])
	e.queue = e.queue[rest:]
	e.queuedBytes -= b.size
	return b
}

func (b *batch) add(q queued) {
	b.spans = append(b.spans, q.wire)
	b.size += len(q.wire)
	if last := len(b.numbers) - 1; last >= 0 && b.numbers[last].to == q.number {
		b.numbers[last].to++
		return
	}
	b.numbers = append(b.numbers, interval{q.number, q.number + 1})
}

// Close sends what is left, retrying until shortly before ctx ends, and
// reports. It waits no longer than that for the disk: spans that a disk without an
// answer was to keep count as dropped. It does not wait for a collector that is not
// there, nor for one whose requested delay outlasts ctx. It may be called again to
// do the same for what was exported since.
func (e *Exporter) Close(ctx context.Context) Report {
	attempts, cancel := ctx, context.CancelFunc(func() {})
	deadline, diskDeadline, bounded := Deadlines(ctx)
	if bounded {
		attempts, cancel = context.WithDeadline(ctx, deadline)
	}
	defer cancel()
	stop := context.AfterFunc(attempts, func() { e.cancel(nil) })
	defer stop()

	e.mu.Lock()
	if !e.closed {
		e.closed, e.deadline = true, deadline
		close(e.closing)
	}
	e.diskDeadline = diskDeadline
	e.mu.Unlock()
	select {
	case <-e.done:
	case <-attempts.Done():
		select {
		case <-e.done:
		case <-time.After(diskReserve / 2): // a client that ignores its context is left behind
		}
	}
	for b := e.takeRemaining(); len(b.spans) > 0; b = e.takeRemaining() {
		e.spoolOrDropBatch(b, e.whyUndelivered())
	}

	e.mu.Lock()
	missing := e.report.undecided()
	e.mu.Unlock()
	kept := e.closeJournal(missing > 0)
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.report
	missing = r.undecided()
	switch {
	case r.Delivered == r.Ended: // the spool has been drained since
		r.Cause = nil
	case missing == 0:
	case kept: // in the journal, to be recovered
		r.Spooled += missing
		r.blame(cmp.Or(e.lastFailure, errTimeout))
	default:
		r.Dropped += missing
		r.blame(cmp.Or(e.lastFailure, errTimeout))
		if e.journal != nil && r.NotKept == nil {
			r.NotKept = spool.ErrFrozen
		}
	}
	return r
}

// takeRemaining dequeues a request's worth of the spans that the sender left behind.
func (e *Exporter) takeRemaining() batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dequeue()
}
