package spool

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Others may remove, rename, truncate or append to a log while its process runs, and replace or unmount
// the folders that it is in. The process keeps the file open, so its writes still succeed, but
// nobody will find them.

var errMoved = errors.New("another process removed, renamed or changed the log")

// sizeOf returns how many bytes a log has, -1 if its name does not lead to this file.
func (s Spool) sizeOf(name string, file *os.File) int {
	found, err := os.Lstat(filepath.Join(s.Dir, name)) // by its path: the folder may have been replaced
	own, failed := file.Stat()
	if cmp.Or(err, failed) != nil || !os.SameFile(found, own) {
		return -1
	}
	return int(found.Size())
}

// isPlaced reports whether the log is still where its name leads, with what was written.
func (l *Log) isPlaced() bool {
	name, file, size := l.name, l.file, l.size
	placed, err := Await(func() (bool, error) { return l.spool.sizeOf(name, file) == size, nil })
	return placed && err == nil
}

// void marks a log that has been written anew: whoever finds it under another name sends
// none of its spans. On failure, they arrive twice.
func void(file *os.File, spans int) {
	all := make([]int, spans)
	for i := range all {
		all[i] = i
	}
	frame := frameOf(recordDone(all), appendRecord(nil, fieldMetrics, nil))
	_, _ = file.Write(append(frame, encodeNote(Note{Reason: errMoved.Error()})...))
}

// A released is a log that another process may send. It stays open, without a lock, because
// its spans have left memory.
type released struct {
	name  string
	file  *os.File
	size  int
	spans int // in it
	lost  int // that were in it
}

// restoreReleased writes released logs anew that are gone although not all of their spans were
// sent. It counts as lost what was truncated and, when the log is closed, what cannot be written.
func (l *Log) restoreReleased() {
	var rest []released
	for _, r := range l.released {
		r.lost = 0
		name := l.newName()
		now, err := call(l, func() (released, error) { return l.spool.restore(r, name) })
		if err != nil {
			if now = r; l.closed {
				now = released{name: r.name, lost: r.spans}
			}
		}
		if l.spool.lost(r.name, now.lost); now.spans > 0 {
			rest = append(rest, now)
		}
		if l.closed && err == nil && now.file != nil {
			now.file.Close()
		}
	}
	l.released = rest
}

// restore writes a released log anew, under another name, if it is gone. Without an error and
// without spans, nothing of it has to be sent: a process that sends or evicts a log marks its
// spans before it removes the log.
func (s Spool) restore(r released, name string) (released, error) {
	if s.sizeOf(r.name, r.file) >= r.size {
		return r, nil
	}
	var c contents
	b, err := io.ReadAll(io.NewSectionReader(r.file, 0, maxLog))
	if err != nil {
		return r, err
	}
	_ = c.decode(b) // what cannot be decoded is missing
	r.lost, r.spans = r.spans-len(c.ended), len(c.ended)
	if s.sizeOf(r.name, r.file) >= 0 { // truncated; another process sends the rest
		r.size = len(b)
		return r, nil
	}
	var pending []*Span
	for i, span := range c.ended {
		if !c.done[i] {
			pending = append(pending, span)
		}
	}
	if r.spans = 0; len(pending) == 0 {
		r.file.Close()
		return r, nil
	}
	anew, err := s.leave(name, pending, c.note)
	if err != nil {
		return r, err
	}
	void(r.file, len(c.ended))
	r.file.Close()
	anew.lost = r.lost
	return anew, nil
}

// leave writes spans into a log that another process may send: it has ended, for the reason in
// its note.
func (s Spool) leave(name string, spans []*Span, note Note) (r released, err error) {
	text := encodeNote(note)
	b := slices.Concat(text, frameOf(recordsOf(spans)...), text)
	if len(b) > maxLog {
		return r, errTooBig
	}
	dir, err := s.enter(true)
	if err != nil {
		return r, err
	}
	defer closeFolder(dir)
	if err := s.makeRoom(int64(len(b))); err != nil {
		return r, err
	}
	locked, err := replace(dir, name, b)
	if err != nil {
		return r, err
	}
	defer locked.Close()
	r = released{name: name, size: len(b), spans: len(spans)}
	r.file, _, err = openIn(dir, name, os.O_RDWR|os.O_APPEND)
	return r, err
}
