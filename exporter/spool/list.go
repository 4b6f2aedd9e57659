package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A State says why a spool has a file.
type State string

// The states of an [Entry].
const (
	Waiting  State = "waiting"  // until it can be sent
	Killed   State = "killed"   // the same, of a killed process
	Open     State = "open"     // of a running process
	Rejected State = "rejected" // by the receiver, for good
	Corrupt  State = "corrupt"  // not as it was written, or not this user's
)

// An Entry describes one file.
type Entry struct {
	Destination
	State   State     `json:"state"`
	Reason  string    `json:"reason,omitempty"` // why it is there
	Host    string    `json:"host,omitempty"`   // of the process
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since"`
	Bytes   int64     `json:"bytes"`
	Spans   int       `json:"spans"`
	Metrics bool      `json:"metrics,omitempty"` // there are some
	Path    string    `json:"path"`
}

// List lists the files of the spool, oldest first.
func (s Spool) List() ([]Entry, error) {
	return within(func() (entries []Entry, err error) {
		dir, err := s.enter(false)
		if dir == nil || err != nil {
			return nil, err
		}
		defer closeFolder(dir)
		all, err := names(dir)
		for _, name := range all {
			if e, ok := describe(dir, name); ok {
				e.Path = filepath.Join(s.Dir, name)
				entries = append(entries, e)
			}
		}
		return entries, err
	})
}

// describe returns false for a file that has just been removed, or is no log.
func describe(dir *os.Root, name string) (e Entry, ok bool) {
	info, err := dir.Lstat(name)
	ext := filepath.Ext(name)
	if err != nil || strings.HasPrefix(name, tempPrefix) || ext != logExt && ext != RejectedExt && ext != corruptExt {
		return e, false
	}
	e = Entry{State: Corrupt, Since: info.ModTime(), Bytes: info.Size()}
	c, err := read(dir, name)
	e.Destination, e.Reason, e.Host, e.PID = c.note.Destination, c.note.Reason, c.note.Host, c.note.PID
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errEmpty):
		return e, false
	case err != nil:
		e.Reason = err.Error()
	case ext == RejectedExt:
		e.State, e.Spans = Rejected, len(c.ended)
	case ext == logExt:
		pending, _ := c.pending()
		e.State, e.Spans, e.Metrics = Open, len(pending), len(c.metrics) > 0
		if file, locked := lock(dir, name); file != nil {
			file.Close()
			switch {
			case c.closed:
				e.State = Waiting
			case c.mayBeSent(locked):
				e.State = Killed
			}
		}
	}
	return e, true
}

// Waiting returns how many spans can be sent now.
func (s Spool) Waiting() (spans int, err error) {
	entries, err := s.List()
	for _, e := range entries {
		if e.State == Waiting || e.State == Killed {
			spans += e.Spans
		}
	}
	return spans, err
}
