package spool

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"
)

// Recover moves the logs of dead processes to where requests wait. It returns how many
// spans were recovered from processes that were killed.
func (s Spool) Recover(ctx context.Context) (spans int, err error) {
	return within(ctx, s.recoverAll)
}

func (s Spool) recoverAll() (spans int, err error) {
	files, err := s.files(Open, journalDir)
	errs := []error{err}
	for _, f := range files {
		base, isJournal := strings.CutSuffix(f.path(), waitingExt)
		if !isJournal {
			var isLock bool
			if base, isLock = strings.CutSuffix(f.path(), lockExt); !isLock || !f.isStale() { // its process may be about to write a journal
				continue
			}
		}
		n, err := s.recoverOne(base)
		spans += n
		errs = append(errs, err)
	}
	return spans, errors.Join(errs...)
}

// presumedDead is how long a process on another host may write nothing before its journal
// is recovered: its lock may not be visible from here.
const presumedDead = 24 * time.Hour

func (s Spool) recoverOne(base string) (spans int, err error) {
	path := base + waitingExt
	// Create the lock if it is gone, so that only one of two processes that recover
	// at once proceeds.
	lock, err := TryLock(base + lockExt)
	if lock == nil && err == nil {
		return 0, nil // the process is alive
	}
	defer unlock(lock)
	l, err := readLog(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has just ended, or was recovered by another, or never written
		err = nil
		if lock == nil {
			return 0, nil
		}
	case isUntrusted(err):
		err = s.refuse(path, err)
	case errors.Is(err, errCorrupt):
		err = s.refuse(path, &Untrusted{Path: path, Why: "is not a journal of this version"})
	case err != nil:
		return 0, nil // the journal may be readable later
	case (lock == nil || !l.note.isLocal()) && l.age < presumedDead: // its process may be alive
		return 0, nil
	default:
		spans, err = s.revive(path, l)
	}
	if err = ignore(err, fs.ErrNotExist); err == nil {
		discard(base + lockExt)
	}
	return spans, err
}

// revive moves a log to where requests wait, or removes it if nothing in it was lost. It
// returns how many spans of a killed process the log has.
func (s Spool) revive(path string, l *log) (spans int, err error) {
	if l.metrics.Points > 0 {
		return 0, s.enqueue(path, l.note.Destination, newName(l.metrics, int(l.size), ""))
	}
	ended, open := l.lost()
	if spans = len(ended) + len(open); spans == 0 {
		return 0, remove(path)
	}
	if err := s.enqueue(path, l.note.Destination, newName(Request{Spans: spans}, int(l.size), "")); err != nil || l.closed {
		return 0, err
	}
	if s.Recovered != nil {
		s.Recovered(open)
	}
	return spans, nil
}

// ignore returns nil for an error that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
