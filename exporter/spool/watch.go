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
	size  int64       // of what was read
	ended bool        // the process has ended by itself, or is of another host
}

// Look returns the logs of processes that have not ended by themselves. A log that a process
// hands over comes after the one in which it goes on.
func (w *Watch) Look() ([]Running, error) {
	logs := map[string]*Running{}
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
			r := w.logs[name]
			if r == nil {
				r = new(Running)
			}
			if r.read(dir, name) != nil { // it is gone, or not this user's
				continue
			}
			if logs[name] = r; r.ended {
				continue
			}
			if r.Log, r.Lives = name, true; r.Changed.IsZero() {
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

// read reads what is new in the log.
func (r *Running) read(dir *os.Root, name string) error {
	r.Changed = time.Time{}
	info, err := dir.Lstat(name)
	if err != nil || r.info != nil && os.SameFile(r.info, info) && r.info.Size() == info.Size() && r.info.ModTime().Equal(info.ModTime()) {
		return err
	}
	file, info, err := openIn(dir, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	if r.info == nil || !os.SameFile(r.info, info) || info.Size() < r.size { // written anew
		*r = Running{}
	}
	if info.Size() > maxLog {
		return errCorrupt
	}
	b := make([]byte, info.Size()-r.size)
	n, err := file.ReadAt(b, r.size)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.info = info
	r.add(b[:n])
	return nil
}

// add adds what a log has got. A frame that is not whole yet is read the next time.
func (r *Running) add(b []byte) {
	if r.size == 0 {
		note, rest, err := cutNote(b)
		if err != nil || note.Format != logFormat || !note.isLocal() {
			r.ended = true // a claim sets aside what is no log
			return
		}
		r.To, r.size, b = note.Destination, int64(len(b)-len(rest)), rest
	}
	var open []byte
	for number, v := range field.All(b, nil) {
		switch number {
		case fieldNote:
			r.ended = true
		case fieldFrame:
			for number, v := range field.All(v.Bytes, nil) {
				if number == fieldOpen || number == fieldShown {
					open, r.Changed = v.Bytes, r.info.ModTime()
				}
			}
		}
		r.size += int64(len(v.Whole))
	}
	if !r.Changed.IsZero() {
		r.Open = bytes.Clone(open) // which keeps no more of the log
	}
}
