package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Watch follows what the processes that use a spool have open. It takes nothing from their
// logs.
type Watch struct {
	spool Spool
	logs  map[string]*Running
}

// Watch returns a Watch that has seen nothing yet.
func (s Spool) Watch() *Watch { return &Watch{spool: s, logs: map[string]*Running{}} }

// A Running is the log of a process of this host that has not ended by itself.
type Running struct {
	Log   string // its name
	To    Destination
	Lives bool   // the process was not killed, as far as one can tell
	Open  []byte // the spans that it has open, an encoded TracesData

	// Changed is when the process wrote what Open now has; it is zero if Open has not changed
	// since the last Look.
	Changed time.Time

	info  os.FileInfo // when it was last read
	ended bool        // the process has ended by itself, or is of another host
}

// Look returns the logs of processes that have not ended by themselves.
func (w *Watch) Look() ([]Running, error) {
	logs := map[string]*Running{}
	running, err := within(func() (running []Running, err error) {
		dir, err := w.spool.enter(false)
		if dir == nil || err != nil {
			return nil, err
		}
		defer closeFolder(dir)
		all, err := names(dir)
		for _, name := range all {
			info, err := dir.Lstat(name)
			if err != nil || filepath.Ext(name) != logExt || strings.HasPrefix(name, tempPrefix) {
				continue
			}
			r := w.logs[name]
			if r == nil {
				r = &Running{Log: name}
			}
			r.read(dir, info)
			if logs[name] = r; r.ended {
				continue
			}
			if r.Lives = true; r.Changed.IsZero() {
				if file, locked := lock(dir, name); file != nil {
					file.Close()
					r.Lives = !locked // without locks nobody can tell
				}
			}
			running = append(running, *r)
		}
		return running, err
	})
	if err == nil {
		w.logs = logs
	}
	return running, err
}

// read reads the log if it has changed.
func (r *Running) read(dir *os.Root, now os.FileInfo) {
	r.Changed = time.Time{}
	if r.info != nil && os.SameFile(r.info, now) && r.info.Size() == now.Size() && r.info.ModTime().Equal(now.ModTime()) {
		return
	}
	r.info = now
	c, err := read(dir, r.Log)
	if r.ended = err != nil || c.closed || !c.note.isLocal(); r.ended { // a claim sets aside what is no log
		return
	}
	r.To = c.note.Destination
	if open := Encode(slices.Concat(c.open, c.shown)); !bytes.Equal(open, r.Open) {
		r.Open, r.Changed = open, now.ModTime()
	}
}
