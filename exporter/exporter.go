// Package exporter delivers finished spans. An [Exporter] batches spans by size,
// retries failed requests, and spools on disk what it cannot deliver. A [Report]
// accounts for every exported span: delivered, spooled, rejected or dropped, and
// why.
//
//	Export -> transaction -> Commit -> queue -> deliver -> Client     exporter.go, queue.go, deliver.go, send.go
//	                           |                   |
//	                           v                   v
//	                   journal: all spans      spool: what was         keep.go
//	                   until they are          rejected, or evicted
//	                   delivered               from a full queue
//
// If the collector is down at Close, what is left stays in the journal, which becomes a file
// of the spool.
//
// A [Client] sends the requests. Package exporter/otlp provides clients for OTLP
// receivers, and package exporter/file one that writes OTLP JSON lines.
package exporter

import (
	"cmp"
	"context"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// A Config says what an Exporter sends, and where. Only Client is required. All text in the
// resources and in the scope must be valid UTF-8.
type Config struct {
	Client Client
	Scope  *commonpb.InstrumentationScope

	// Spool, if set, keeps what cannot be delivered, and a journal of what a killed
	// process would lose. Its backlog for the same destination is sent in the
	// background.
	Spool *spool.Spool

	// Wait makes Export wait for room (see SetWait). It is for recordings, which need no
	// Spool, because they can be sent again.
	Wait bool

	MaxRequest int           // in bytes; zero is 3 MiB, because gRPC servers refuse more than 4
	MaxQueue   int           // bytes held in memory, at least a request and a span; zero is 4 MiB
	Interval   time.Duration // how long a span waits for others to join it; zero is 1 s
}

// New starts an Exporter. The caller must Close it.
func New(cfg Config) *Exporter {
	cfg.MaxRequest = cmp.Or(cfg.MaxRequest, 3<<20)
	full := min(cfg.MaxRequest, fullRequest)
	cfg.MaxQueue = max(cmp.Or(cfg.MaxQueue, 4<<20), full+cfg.MaxRequest) // one request in flight plus any one span
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	e := &Exporter{cfg: cfg, sender: sender{client: cfg.Client}, done: make(chan struct{}), origins: map[*resourcepb.Resource]*spool.Origin{}}
	e.queue = queue{
		limit: cfg.MaxQueue, full: full, interval: cfg.Interval, recording: cfg.Wait, waits: cfg.Wait,
		delay: e.sender.delay, closing: make(chan struct{}), wake: make(chan struct{}, 1), roomMade: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.disk, e.abandonDisk = context.WithCancel(context.Background())

	if cfg.Spool != nil {
		own := *cfg.Spool
		own.Owner, own.Losses = cmp.Or(own.Owner, spool.NewOwner()), &e.losses
		e.cfg.Spool, e.journal = &own, own.NewJournal(cfg.Client.Destination())
	}
	go e.run()
	return e
}

// fullRequest is the number of bytes of spans at which a request is full; only
// a single larger span exceeds it. Larger requests are no faster, and a request
// is in memory several times while it is sent.
const fullRequest = 512 << 10

// An Exporter delivers spans in the background until Close.
type Exporter struct {
	cfg      Config
	tx       transaction
	queue    queue
	tally    tally
	losses   spool.LossCounter
	sender   sender
	draining drain
	journal  *spool.Journal // nil without a spool

	ctx    context.Context // of every attempt; ends with the context of Close
	cancel context.CancelFunc
	done   chan struct{}

	disk        context.Context // of all calls on the disk; ends with Close
	abandonDisk context.CancelFunc

	mu      sync.Mutex
	origins map[*resourcepb.Resource]*spool.Origin
}

// Export queues a finished span, the wire encoding of an
// opentelemetry.proto.trace.v1.Span. It copies span. from is the span's resource,
// or nil; there should be only a few distinct resources. Export may be called by several
// goroutines. It waits for room only if Config.Wait or SetWait says so, and for the journal
// only outside a transaction. If there is no room, the oldest spans are spooled or, without
// a spool, dropped and counted. After Close, spans go to the spool.
func (e *Exporter) Export(span []byte, from *resourcepb.Resource) {
	s := e.newSpan(span, from)
	tx := &e.tx
	tx.mu.Lock()
	defer tx.mu.Unlock()
	e.tally.count(func(r *Report) { r.Ended++ })
	if s.Of.Overhead()+len(s.Wire) > e.cfg.MaxRequest {
		e.reject([]*spool.Span{s}, errTooLarge)
		return
	}
	if !tx.begun {
		tx.excess = e.queue.awaitRoom(len(s.Wire), 0)
	}
	if len(tx.spans) == 0 {
		tx.at = time.Now()
	}
	tx.spans = append(tx.spans, s)
	if !tx.begun {
		_ = e.commit(nil)
	}
}

// A transaction is the spans that are journaled and queued together: those exported since
// Begin, or one.
type transaction struct {
	mu     sync.Mutex // held until the spans are counted, journaled and queued
	begun  bool       // by Begin
	over   bool       // Close has taken the last spans for the queue
	excess int        // the bytes by which it may overfill the queue
	spans  []*spool.Span
	at     time.Time // when the first span arrived

	journaled bool // once over, the journal has all that was not delivered before
}

// maxExcess is the excess of a transaction that begins when there is no room.
const maxExcess = 1 << 20

// Begin starts a transaction: the spans exported until Commit or Checkpoint are journaled
// in one write, and not sent before. A span exported outside a transaction is one of its
// own. Where Export would wait for room, Begin waits instead, and Export does not wait
// within the transaction. Once there was room, a transaction may overfill the queue, so
// keep it short: the spans of 64 KiB of the stream.
func (e *Exporter) Begin() {
	tx := &e.tx
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if !tx.begun {
		tx.begun, tx.excess = true, e.queue.awaitRoom(1, maxExcess)
	}
}

// SetWait sets whether Export and Begin wait for room. They give up when the collector has
// accepted nothing for a minute. If nothing listens there, they do not wait, except for two
// seconds with Config.Wait. SetWait(false) also releases one that is waiting.
func (e *Exporter) SetWait(wait bool) { e.queue.setWait(wait) }

// An OpenSpan is a span that has not ended, with the arguments that Export will get
// once it has.
type OpenSpan struct {
	Span []byte
	From *resourcepb.Resource
}

// Commit ends a transaction in which no run began, ended or changed its ids.
func (e *Exporter) Commit() {
	e.tx.mu.Lock()
	defer e.tx.mu.Unlock()
	if len(e.tx.spans) > 0 {
		_ = e.commit(nil)
	}
	e.tx.begun = false
}

// Checkpoint ends a transaction and saves what a killed process would lose. open holds
// the spans that have not ended, as they would end now. Call Checkpoint at the end
// of each transaction in which a run began, ended or changed its ids, and about once a
// second while open spans grow. Its error says why a kill would lose spans.
func (e *Exporter) Checkpoint(open []OpenSpan) error {
	spans := make([]*spool.Span, len(open)) // not nil, even if nothing is open: see commit
	for i, s := range open {
		spans[i] = e.newSpan(s.Span, s.From)
	}
	e.tx.mu.Lock()
	defer e.tx.mu.Unlock()
	e.tx.begun = false
	return e.commit(spans)
}

// commit writes the spans to the journal, and only then to the queue. If a span were sent
// earlier and the process then killed, the span would be an orphan: its root may still be
// journaled under ids that have changed since. The spans in open replace the open spans in
// the journal; nil leaves those as they are, and there is no error. commit is called with
// tx.mu held.
func (e *Exporter) commit(open []*spool.Span) (err error) {
	tx := &e.tx
	defer func() {
		clear(tx.spans)
		tx.spans = tx.spans[:0]
	}()
	if tx.over {
		if len(tx.spans) > 0 {
			e.spoolOrDrop(tx.spans, errLate)
		}
		return nil
	}
	if j := e.journal; j != nil {
		ctx, cancel := e.diskContext()
		defer cancel()
		if open == nil {
			j.Append(ctx, tx.spans)
		} else {
			err = j.Checkpoint(ctx, tx.spans, open)
		}
	}
	for _, b := range e.queue.add(tx) {
		e.spoolOrDrop(b.spans, cmp.Or(e.queue.lastFailure(), errTooSlow))
		e.markDone(b)
	}
	return err
}

// Close sends what is left, retrying until shortly before ctx ends, and
// reports. It waits no longer than that for the disk: spans that the disk has not
// confirmed by then count as dropped. It does not wait for a collector that is not
// there, nor for one whose requested delay outlasts ctx. It may be called again for spans
// that were exported since: those of a mapper that was late.
func (e *Exporter) Close(ctx context.Context) Report {
	attempts, disk, cancel := Deadlines(ctx)
	defer cancel()
	stop := context.AfterFunc(attempts, e.cancel)
	defer stop()
	context.AfterFunc(disk, e.abandonDisk)
	deadline, _ := attempts.Deadline()
	e.queue.close(deadline)
	select {
	case <-e.done:
	case <-attempts.Done():
		select {
		case <-e.done:
		case <-time.After(diskReserve / 2): // a client that ignores its context is left behind
		}
	}
	why := e.whyUndelivered()
	e.tx.mu.Lock() // no span comes meanwhile
	defer e.tx.mu.Unlock()
	kept := e.keepRest(why)
	e.tally.count(func(r *Report) { r.AddLosses(e.losses.Take()) })
	r := e.tally.snapshot()
	missing := r.undecided() // so far: a client that ignores its context may yet answer
	switch {
	case r.Delivered == r.Ended: // the spool has been drained since
		r.Cause = nil
	case missing <= 0:
	case kept: // the journal has all of them
		r.Spooled += missing
		r.blame(why)
	default:
		r.Dropped += missing
		r.blame(why)
		if e.journal != nil && r.NotKept == nil {
			r.NotKept = spool.ErrFrozen
		}
	}
	return r
}

// keepRest takes the last spans: they are in the journal already, or else go to the spool. It
// reports whether the journal has all that has no final outcome. It is called with tx.mu
// held.
func (e *Exporter) keepRest(why *UploadError) (journaled bool) {
	if len(e.tx.spans) > 0 { // of a caller that hangs between Begin and Commit
		_ = e.commit(nil)
	}
	if !e.tx.over {
		e.tx.over, e.tx.journaled = true, e.closeJournal(why)
	}
	for _, b := range e.queue.takeAll() {
		if !e.tx.journaled {
			e.spoolOrDrop(b.spans, why)
		}
	}
	return e.tx.journaled
}
