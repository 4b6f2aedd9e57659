package exporter

import (
	"sync"
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

	SetAside int // files, not spans, in the spool that were not read: not this user's, or not logs

	Earlier Earlier
}

// Earlier counts what became of spans that other processes left in the spool.
type Earlier struct {
	Recovered int // of the following, those of processes that were killed
	Delivered int
	Rejected  int // by the receiver, and kept
	Dropped   int // evicted for newer ones, or rejected and not kept
	Metrics   int // logs whose metrics the receiver rejected
}

func (e *Earlier) add(more Earlier) {
	e.Recovered += more.Recovered
	e.Delivered += more.Delivered
	e.Rejected += more.Rejected
	e.Dropped += more.Dropped
	e.Metrics += more.Metrics
}

// addEarlier counts what became of spans in a log. Those that this process released have counted
// as spooled.
func (r *Report) addEarlier(sum Earlier, own bool) {
	if !own {
		r.Earlier.add(sum)
		return
	}
	r.Spooled -= sum.Delivered + sum.Rejected + sum.Dropped
	r.Delivered += sum.Delivered
	r.Rejected += sum.Rejected
	r.Dropped += sum.Dropped
}

// undecided returns how many spans have no final outcome yet.
func (r *Report) undecided() int { return r.Ended - r.Delivered - r.Spooled - r.Rejected - r.Dropped }

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
