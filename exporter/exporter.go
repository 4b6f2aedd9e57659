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
	presumed, err := newOrigin(cfg.Resource, cfg.Scope)
	if err != nil {
		return nil, err
	}
	if cfg.Spool != nil && !cfg.Wait {
		e.journal = e.cfg.Spool.NewJournal(cfg.Client.Destination(), presumed.body().Body)
	}
	e.origins = map[*resourcepb.Resource]*origin{nil: presumed, cfg.Resource: presumed}
	go e.run()
	return e, nil
}

const (
	// fullRequest is the number of bytes of spans at which a request is full; only
	// a single larger span exceeds it. Larger requests are no faster, and a request
	// is in memory several times while it is sent.
	fullRequest = 512 << 10

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
	queue        []*batch  // the oldest first
	spares       []*batch  // to use again
	queuedBytes  int
	inFlight     int           // bytes of the request that is being delivered
	inPiece      bool          // between Begin and Commit or Checkpoint
	pieceCame    time.Time     // when Begin was called
	pieceFits    bool          // there was room when Begin was called
	since        time.Time     // when delivery of inFlight began or last made progress
	roomMade     chan struct{} // closed, and replaced, when inFlight is done, or failed
	lastFailure  *UploadError  // nil after a success
	drainUntil   time.Time     // when Close stops draining; zero until all own spans are done
	drainFrom    time.Time     // no draining before this time, after a failure
	report       Report

	diskLate bool           // the journal did not keep up; used by the sender only
	journal  *spool.Journal // nil for a recording, which can be sent again
}

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
	o := e.originOf(from)
	if o.invalid != nil || o.overhead+spool.SizeSpan(span) > e.cfg.MaxRequest {
		e.mu.Unlock()
		e.reject(o.with([][]byte{spool.AppendSpan(nil, span)}), cmp.Or(o.invalid, errTooLarge))
		return
	}
	evicted, why := e.enqueue(o, span)
	e.mu.Unlock()
	for _, b := range evicted {
		e.spoolOrDropBatch(b, why)
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
	for b := e.takeRemaining(); b != nil; b = e.takeRemaining() {
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
