package spool

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A Watch follows what the processes that use a spool have open. It takes nothing from their
// logs.
type Watch struct {
	spool Spool
	logs  map[string]*watched
}

// Watch returns a Watch that has seen nothing yet.
func (s Spool) Watch() *Watch { return &Watch{spool: s, logs: map[string]*watched{}} }

// A Running is the log of a process of this host that has not ended by itself.
type Running struct {
	Log   string // its name
	To    Destination
	Lives bool   // the process was not killed, as far as one can tell
	Open  []byte // the spans that it has open, an encoded TracesData

	// Changed is when the process wrote what Open now has; it is zero if Open has not changed
	// since the last Look.
	Changed time.Time
}

// Look returns the logs of processes that have not ended by themselves. A log that a process
// hands over comes after the one in which it goes on.
func (w *Watch) Look() ([]Running, error) {
	logs := map[string]*watched{}
	running, err := within(func() (running []Running, err error) {
		dir, err := w.spool.enter(false)
		if dir == nil || err != nil {
			return nil, err
		}
		defer closeFolder(dir)
		all, err := names(dir)
		for _, name := range slices.Backward(all) {
			if filepath.Ext(name) != logExt || strings.HasPrefix(name, tempPrefix) {
				continue
			}
			l := w.logs[name]
			if l == nil {
				l = new(watched)
			}
			changed, failed := l.read(dir, name)
			if failed != nil { // it is gone, or not this user's
				continue
			}
			if logs[name] = l; l.closed || !l.note.isLocal() {
				continue
			}
			r := Running{Log: name, To: l.note.Destination, Lives: true, Open: l.open}
			if changed {
				r.Changed = l.info.ModTime()
			} else if file, locked := lock(dir, name); file != nil {
				file.Close()
				r.Lives = !locked // without locks nobody can tell
			}
			running = append(running, r)
		}
		return running, err
	})
	if err == nil {
		w.logs = logs
	}
	return running, err
}

// A watched log is read as it grows.
type watched struct {
	info   os.FileInfo // when it was last read
	size   int64       // of what was read
	note   Note
	closed bool // its process ended by itself
	open   []byte
}

// read reports whether the open spans have changed.
func (l *watched) read(dir *os.Root, name string) (changed bool, err error) {
	info, err := dir.Lstat(name)
	if err != nil || l.info != nil && os.SameFile(l.info, info) && l.info.Size() == info.Size() && l.info.ModTime().Equal(info.ModTime()) {
		return false, err
	}
	file, info, err := openIn(dir, name, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if l.info == nil || !os.SameFile(l.info, info) || info.Size() < l.size { // written anew
		*l = watched{}
	}
	if info.Size() > maxLog {
		return false, errCorrupt
	}
	b := make([]byte, info.Size()-l.size)
	n, err := file.ReadAt(b, l.size)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	l.info = info
	return l.add(b[:n]), nil
}

// add reads what a log has got. A frame that is not whole yet is read the next time.
func (l *watched) add(b []byte) (changed bool) {
	if l.size == 0 {
		note, rest, err := cutNote(b)
		if err != nil || note.Format != logFormat {
			l.closed = true // a claim sets it aside
			return false
		}
		l.note, l.size, b = note, int64(len(b)-len(rest)), rest
	}
	var open []byte
	for number, v := range field.All(b, nil) {
		switch number {
		case fieldNote:
			l.closed = true
		case fieldFrame:
			for number, v := range field.All(v.Bytes, nil) {
				if number == fieldOpen || number == fieldShown {
					open, changed = v.Bytes, true
				}
			}
		}
		l.size += int64(len(v.Whole))
	}
	if changed {
		l.open = bytes.Clone(open) // which keeps no more of the log
	}
	return changed
}
