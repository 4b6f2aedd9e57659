// Package exporter delivers finished spans. An [Exporter] batches spans by size,
// retries failed requests, and spools on disk what it cannot deliver. A [Report]
// accounts for every exported span: delivered, spooled, rejected or dropped, and
// why.
//
//	Export -> log: all spans until they are delivered     spool.Log
//	  |
//	  v
//	queue -> deliver -> send -> Client                     queue.go, deliver.go, send.go
//	  |
//	  v if it is full
//	released to whoever takes the lock of the log          spool.Log.Release
//
// Once the queue is empty, Close also sends what was released. If the collector is down by
// then, the rest stays in the log, and another process sends it (backlog.go).
//
// A [Client] sends the requests. Package exporter/otlp provides clients for OTLP
// receivers, and package exporter/file one that writes OTLP JSON lines.
package exporter

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A Config says where an Exporter sends spans. Only Client is required.
type Config struct {
	Client Client

	// Spool, if set, keeps what cannot be delivered, and what a killed process would lose.
	// Its backlog for the same destination is sent in the background.
	Spool *spool.Spool

	// Metrics, if set, sends the metrics in the logs of other processes to the destination
	// that it has.
	Metrics MetricsClient

	// LastMetrics, if set, is called once by Close, with what became of the spans. It sends
	// the last metrics, and returns them if they were not delivered: they stay in the log.
	LastMetrics func(Report) []byte

	// Patience is how long Export waits for room after the collector last accepted something:
	// at most two seconds if nothing listens there, and at least one if the spool
	// cannot keep what does not fit.
	Patience time.Duration

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
	e := &Exporter{cfg: cfg, sender: sender{client: cfg.Client}, done: make(chan struct{})}
	e.queue = queue{
		limit: cfg.MaxQueue, full: full, interval: cfg.Interval,
		delay: e.sender.delay.Left, closing: make(chan struct{}), wake: make(chan struct{}, 1), roomMade: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if cfg.Spool != nil {
		own := *cfg.Spool
		own.Lost = e.lost
		own.SetAside = func(*spool.Untrusted) { e.tally.count(func(r *Report) { r.SetAside++ }) }
		var metrics *spool.Destination
		if cfg.Metrics != nil {
			metrics = new(cfg.Metrics.Destination())
		}
		e.cfg.Spool, e.log = &own, own.NewLog(cfg.Client.Destination(), metrics)
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
	queue    queue
	tally    tally
	sender   sender
	draining drain
	log      *spool.Log // nil without a spool

	ctx    context.Context // of every attempt; ends with the context of Close
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is sent any more

	exporting sync.Mutex // held until spans are counted, logged and queued
	closed    bool       // Close has taken the last spans from the queue
}

// Export takes the spans that ended in one piece of the stream. Call it with a snapshot after
// each piece in which a run began, ended or changed its ids, and about once a second while
// open spans grow; a nil snapshot says that the last one is still good. A killed process
// leaves the last snapshot and the spans that ended.
//
// Export may be called by several goroutines. It waits for room as Config.Patience says. If
// there is no room, the oldest spans are left on disk for another process or, without a spool,
// dropped and counted. After Close, spans go to the spool. The error says why a kill would lose
// spans.
func (e *Exporter) Export(ended []*spool.Span, snapshot *spool.Snapshot) (unprotected error) {
	e.exporting.Lock()
	defer e.exporting.Unlock()
	e.tally.count(func(r *Report) { r.Ended += len(ended) })
	ended, tooLarge := e.split(ended)
	if len(tooLarge) > 0 {
		e.reject(tooLarge, errTooLarge)
	}
	if e.closed {
		e.release(ended, errLate)
		return nil
	}
	fits := len(ended) == 0 || e.queue.awaitRoom(e.patience())
	if e.log != nil {
		// The log has the spans before they can be sent. If one were sent earlier and the
		// process then killed, it would be an orphan: its root may be in the log under ids
		// that have changed since.
		unprotected = e.log.Append(ended, snapshot)
	}
	e.release(e.queue.add(ended, fits), cmp.Or(e.queue.lastFailure(), errTooSlow))
	return unprotected
}

func (e *Exporter) patience() time.Duration {
	if e.log == nil || e.log.Err() != nil {
		return max(e.cfg.Patience, leastPatience)
	}
	return e.cfg.Patience
}

// split separates spans that are too large for any request.
func (e *Exporter) split(spans []*spool.Span) (fit, tooLarge []*spool.Span) {
	for _, s := range spans {
		if s.Of.Overhead()+len(s.Wire) > e.cfg.MaxRequest {
			tooLarge = append(tooLarge, s)
		} else {
			fit = append(fit, s)
		}
	}
	return fit, tooLarge
}

// EndStream says that little more comes. Export no longer waits, and takes the rest whether
// there is room or not.
func (e *Exporter) EndStream() { e.queue.endStream() }

// Finished returns how many spans have left memory. It grows while the receiver or
// the disk makes progress.
func (e *Exporter) Finished() int {
	r := e.tally.snapshot()
	return r.Ended - r.undecided()
}

// diskReserve is how long before the deadline of Close all attempts end, which leaves time
// for the disk.
const diskReserve = 200 * time.Millisecond

// Close sends what is left, retrying until shortly before ctx ends, and reports. It waits
// longer only for a disk that is about to answer. It does not wait for a collector that is
// not there, nor for one whose requested delay outlasts ctx. It may be called again for spans
// that were exported since: those of a mapper that was late.
func (e *Exporter) Close(ctx context.Context) Report {
	attempts, cancel := ctx, context.CancelFunc(func() {})
	end, bounded := ctx.Deadline()
	if bounded {
		end = end.Add(-min(diskReserve, max(0, time.Until(end)/4)))
		attempts, cancel = context.WithDeadline(ctx, end)
	}
	defer cancel()
	stop := context.AfterFunc(attempts, e.cancel)
	defer stop()
	e.queue.close(end)
	select {
	case <-e.done:
	case <-attempts.Done():
		select {
		case <-e.done:
		case <-time.After(diskReserve / 2): // a client that ignores its context is left behind
		}
	}
	e.exporting.Lock() // no span comes meanwhile
	defer e.exporting.Unlock()
	if !e.closed {
		e.closed = true
		e.keepRest()
	}
	r := e.tally.snapshot()
	if r.Delivered == r.Ended { // the spool has been drained since
		r.Cause = nil
	}
	return r
}

// keepRest leaves in the log what has no final outcome, and what LastMetrics says.
func (e *Exporter) keepRest() {
	why := e.whyUndelivered()
	expected := e.tally.snapshot()
	missing := expected.undecided() // so far: a client that ignores its context may yet answer
	if e.log != nil {
		expected.Spooled += missing
	} else {
		expected.Dropped += missing
	}
	var metrics []byte
	if e.cfg.LastMetrics != nil {
		metrics = e.cfg.LastMetrics(expected)
	}
	kept, unprotected, reason := false, error(nil), ""
	if e.log != nil {
		if missing > 0 {
			reason = why.Error()
		}
		unprotected = e.log.Err()
		kept = e.log.Close(reason, metrics)
	}
	e.tally.count(func(r *Report) { r.Unprotected = cmp.Or(r.Unprotected, unprotected) })
	if missing > 0 {
		e.count(func(r *Report) *int { return &r.Spooled }, missing, kept, why)
	}
}
