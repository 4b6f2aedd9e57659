package spool

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
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
	var journals []Entry
	err = s.walk(func(f file, info fs.FileInfo) {
		entry := Entry{State: f.state, Since: f.at, Bytes: info.Size(), Path: f.path()}
		switch {
		case f.isRequest() && f.state != Open:
			if entry.readRequest(f) {
				entries = append(entries, entry)
			}
		case strings.HasSuffix(f.base, waitingExt):
			if entry.readJournal() {
				journals = append(journals, entry)
			}
		}
	})
	byAge := func(a, b Entry) int { return a.Since.Compare(b.Since) }
	slices.SortStableFunc(entries, byAge)
	slices.SortStableFunc(journals, byAge)
	return append(entries, journals...), err
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

// refuse records why the entry's file was not read.
func (e *Entry) refuse(err error) {
	u, _ := errors.AsType[*Untrusted](err)
	e.State, e.Reason, e.Spans, e.Points = Corrupt, u.Why, 0, 0
}

// readRequest completes the entry of a request. It reports false if the file has just been
// sent.
func (e *Entry) readRequest(f file) bool {
	note, err := readNote(e.Path)
	if f.name.log && err == nil { // its process has ended, and said why at the end
		l, _ := readLog(e.Path)
		note.Reason = l.note.Reason
	}
	e.Destination, e.Reason, e.Spans, e.Points = note.Destination, note.Reason, f.name.spans, f.name.points
	if isUntrusted(err) {
		e.refuse(err)
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// readJournal completes the entry of a journal. It reports false if the process has just
// ended, or the file is no journal.
func (e *Entry) readJournal() bool {
	l, err := readLog(e.Path)
	e.Destination, e.Reason, e.Host, e.PID = l.note.Destination, l.note.Reason, l.note.Host, l.note.PID
	switch {
	case isUntrusted(err):
		e.refuse(err)
	case e.State == Corrupt:
	case e.State != Open || err != nil:
		return false
	default:
		e.Spans, e.Points = len(l.spans()), l.points
		if isDead(strings.TrimSuffix(e.Path, waitingExt), l.note) {
			e.State = Killed
		}
	}
	return true
}

// isDead reports whether the process that wrote a journal on this host has ended.
func isDead(base string, note Note) bool {
	if !note.isLocal() {
		return false // Recover decides by the age of the journal
	}
	path := base + lockExt
	if info, err := os.Lstat(path); err != nil || trust(path, info, 0) != nil {
		return true // a live process of this user has a lock file
	}
	lock, err := lockIn(path, 0) // which makes none
	defer unlock(lock)
	return lock != nil || errors.Is(err, fs.ErrNotExist)
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
	for {
		if waits, err := o.list(); err != nil || !waits {
			return errors.Join(err, o.unreadable)
		}
		for _, f := range o.files {
			note, err := readNote(f.path())
			if err == nil && note.dir() == dir {
				since[note.Destination] = f.at
				return nil
			}
			o.pass(f, cmp.Or(err, errCorrupt))
		}
	}
}
