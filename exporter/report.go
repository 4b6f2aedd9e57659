package exporter

import (
	"sync"

	"github.com/spantee/spantee/exporter/spool"
)

// A Report is what became of the spans. Ended is always Delivered + Spooled +
// Rejected + Dropped.
type Report struct {
	Ended     int
	Delivered int
	Spooled   int // to be delivered later
	Rejected  int // by the receiver, and kept
	Dropped   int

	Cause   error // why the first undelivered span was not delivered; may be an *Error
	NotKept error // why the spool did not keep the dropped spans

	Unprotected error // why crash protection was unavailable

	Earlier Earlier
}

// Earlier counts what was found in the spool of other processes.
type Earlier struct {
	Recovered int   // spans of processes that were killed
	SetAside  int   // files, not spans, that were not read: not this user's, or corrupt journals
	Fates           // of spans
	Metrics   Fates // of data points
}

// Fates count what became of spans, or of data points of metrics.
type Fates struct {
	Delivered int
	Rejected  int // by the receiver, and kept
	Dropped   int // evicted for newer ones, unreadable, or deltas that may have arrived
	Unwanted  int // data points, by a receiver that takes no metrics
}

func (f *Fates) add(more Fates) {
	f.Delivered += more.Delivered
	f.Rejected += more.Rejected
	f.Dropped += more.Dropped
	f.Unwanted += more.Unwanted
}

// Add adds more.
func (e *Earlier) Add(more Earlier) {
	e.Recovered += more.Recovered
	e.SetAside += more.SetAside
	e.add(more.Fates) // of spans
	e.Metrics.add(more.Metrics)
}

// addLosses counts what other processes have lost.
func (e *Earlier) addLosses(l spool.Losses) {
	e.Dropped += l.Others
	e.Metrics.Dropped += l.OtherPoints
	e.SetAside += l.SetAside
}

// undecided returns how many spans have no final outcome yet.
func (r *Report) undecided() int { return r.Ended - r.Delivered - r.Spooled - r.Rejected - r.Dropped }

// addSent counts what became of a backlog: spans of this process had counted as spooled.
func (r *Report) addSent(b *Backlog) {
	r.Earlier.Add(b.Earlier)
	r.Spooled -= b.own.Delivered + b.own.Rejected + b.own.Dropped
	r.Delivered += b.own.Delivered
	r.Rejected += b.own.Rejected
	r.Dropped += b.own.Dropped
}

// AddLosses counts what is no longer in the spool, perhaps since Close.
func (r *Report) AddLosses(l spool.Losses) {
	r.Spooled -= l.Own
	r.Rejected -= l.OwnRejected
	r.Dropped += l.Own + l.OwnRejected
	r.Earlier.addLosses(l)
}

func (r *Report) blame(why *UploadError) {
	if r.Cause == nil {
		r.Cause = why.Err
	}
}

// A tally is the Report of what has happened so far.
type tally struct {
	mu     sync.Mutex
	report Report
}

func (t *tally) count(f func(*Report)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.report)
}

func (t *tally) snapshot() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report
}

// Finished returns how many spans have left memory. It grows while the receiver or
// the disk makes progress.
func (e *Exporter) Finished() int {
	r := e.tally.snapshot()
	return r.Ended - r.undecided()
}
