package spool

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// A State says why a spool has a file.
type State string

// The states of an [Entry].
const (
	Waiting  State = "waiting"  // until it can be sent
	Sending  State = "sending"  // at this moment, or when its process was killed
	Rejected State = "rejected" // by the receiver, for good
	Corrupt  State = "corrupt"  // cut short, not a request, or deltas that may have arrived
	Open     State = "open"     // the journal of a process
	Killed   State = "killed"   // the journal of a killed process, which Recover turns into requests
)

// An Entry describes one file.
type Entry struct {
	Destination
	Reason string    `json:"reason,omitempty"` // why it is there
	Host   string    `json:"host,omitempty"`   // of the process that writes a journal
	PID    int       `json:"pid,omitempty"`    // of the same process
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Bytes  int64     `json:"bytes"`
	Spans  int       `json:"spans"`            // in an open journal, those that a kill would leave
	Points int       `json:"points,omitempty"` // data points of metrics
	Path   string    `json:"path"`
}

// List lists the files of the spool, oldest first. For a file that is not this
// user's, Reason says why it was not read.
func (s Spool) List(ctx context.Context) ([]Entry, error) {
	return within(ctx, s.list)
}

func (s Spool) list() (entries []Entry, err error) {
	err = s.walk(func(f file, info fs.FileInfo) {
		entry := Entry{State: f.state, Since: f.at, Bytes: info.Size(), Path: f.path()}
		if (f.isRequest() || strings.HasSuffix(f.base, waitingExt)) && entry.read(f) {
			entries = append(entries, entry)
		}
	})
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.Since.Compare(b.Since) })
	return entries, err
}

// Waiting returns how many spans can be sent now.
func (s Spool) Waiting(ctx context.Context) (spans int, err error) {
	entries, err := s.List(ctx)
	for _, e := range entries {
		switch e.State {
		case Waiting, Sending, Killed:
			spans += e.Spans
		}
	}
	return spans, err
}

// read completes an entry. It reports false if the file has just been sent, or is none of a
// spool.
func (e *Entry) read(f file) bool {
	l, err := readLog(e.Path)
	e.Destination, e.Reason = l.note.Destination, l.note.Reason
	e.Spans, e.Points = f.name.spans, f.name.points
	untrusted, _ := errors.AsType[*Untrusted](err)
	switch {
	case untrusted != nil:
		e.State, e.Reason, e.Spans, e.Points = Corrupt, untrusted.Why, 0, 0
	case errors.Is(err, fs.ErrNotExist):
		return false
	case e.State == Open && err == nil:
		e.Host, e.PID = l.note.Host, l.note.PID
		e.Spans, e.Points = len(l.spans()), l.metrics.Points
		if isDead(strings.TrimSuffix(e.Path, waitingExt), l.note) {
			e.State = Killed
		}
	case e.State != Corrupt && !f.isRequest():
		return false
	}
	return true
}

// isDead reports whether the process that wrote a journal on this host has ended.
func isDead(base string, note Note) bool {
	if !note.isLocal() {
		return false // Recover decides by the age of the journal
	}
	lock, _ := TryLock(base + lockExt)
	defer unlock(lock)
	return lock != nil
}

// Destinations returns the destinations of the waiting requests, the one that has
// waited longest first. Files that do not name one are set aside.
func (s Spool) Destinations(ctx context.Context) ([]Destination, error) {
	return within(ctx, func() ([]Destination, error) {
		since := map[Destination]time.Time{}
		names, err := s.directories()
		errs := []error{err}
		for _, name := range names {
			if name != journalDir {
				errs = append(errs, s.findDestination(name, since))
			}
		}
		byAge := func(a, b Destination) int { return since[a].Compare(since[b]) }
		return slices.SortedFunc(maps.Keys(since), byAge), errors.Join(errs...)
	})
}

// findDestination reads the destination from the oldest readable request in an
// endpoint's directory, and sets aside files that are not requests.
func (s Spool) findDestination(dir string, since map[Destination]time.Time) error {
	o := &Outbox{s: s, dirName: dir, later: map[string]bool{}}
	err := o.list()
	for _, f := range o.files {
		l, err := readLog(f.path())
		if err == nil && l.note.dir() == dir {
			since[l.note.Destination] = f.at
			return nil
		}
		o.pass(f, cmp.Or(err, errCorrupt))
	}
	return errors.Join(err, o.unreadable)
}
