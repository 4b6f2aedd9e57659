package exporter

import "github.com/spantee/spantee/exporter/spool"

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

// Earlier counts what became of other processes' spans, found in the spool.
type Earlier struct {
	Recovered int // from processes that were killed
	Delivered int
	Rejected  int // by the receiver, and kept
	Dropped   int // evicted for newer ones, or unreadable
	SetAside  int // files, not spans, that are not this user's and were not read
}

func (e *Earlier) add(more Earlier) {
	e.Recovered += more.Recovered
	e.Delivered += more.Delivered
	e.Rejected += more.Rejected
	e.Dropped += more.Dropped
	e.SetAside += more.SetAside
}

// undecided returns how many spans have no final outcome yet.
func (r *Report) undecided() int { return r.Ended - r.Delivered - r.Spooled - r.Rejected - r.Dropped }

// addDrained moves spans that had counted as spooled to their new outcome.
func (r *Report) addDrained(d drained) {
	r.addEvicted(d.evicted)
	r.Earlier.add(d.others)
	r.Spooled -= d.own.Delivered + d.own.Rejected + d.own.Dropped
	r.Delivered += d.own.Delivered
	r.Rejected += d.own.Rejected
	r.Dropped += d.own.Dropped
}

func (r *Report) addEvicted(e spool.Evicted) {
	r.Spooled -= e.Own
	r.Rejected -= e.OwnRejected
	r.Dropped += e.Own + e.OwnRejected
	r.Earlier.Dropped += e.Others
}

func (r *Report) blame(why *UploadError) {
	if r.Cause == nil {
		r.Cause = why.Err
	}
}

// Finished returns how many spans have left memory. It grows while the receiver or
// the disk makes progress.
func (e *Exporter) Finished() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.report.Ended - e.report.undecided()
}
