package spool

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Others may remove, rename or truncate a log while its process runs, and replace or unmount
// the folders that it is in. The process keeps the file open, so its writes still succeed, but
// nobody will find them.

var errMoved = errors.New("another process removed, renamed or truncated the log")

// leadsTo reports whether the name of a log leads to this file, which has at least size bytes.
func (s Spool) leadsTo(name string, file *os.File, size int) bool {
	found, err := os.Lstat(filepath.Join(s.Dir, name)) // by its path: the folder may have been replaced
	own, failed := file.Stat()
	return cmp.Or(err, failed) == nil && os.SameFile(found, own) && found.Size() >= int64(size)
}

// isPlaced reports whether the log is still where its name leads, with all that was written.
func (l *Log) isPlaced() bool {
	name, file, size := l.name, l.file, l.size
	placed, err := Await(func() (bool, error) { return l.spool.leadsTo(name, file, size), nil })
	return placed && err == nil
}

// void marks a log that has been written anew: whoever finds it under another name sends
// none of its spans. On failure, they arrive twice.
func void(file *os.File, spans int) {
	end, _ := encodeNote(Note{Reason: errMoved.Error()})
	frame := frameOf(recordDone(upTo(spans)), appendRecord(nil, fieldMetrics, nil))
	_, _ = file.Write(append(frame, end...))
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// A released is a log that another process may send. It stays open, without a lock, because
// its spans have left memory.
type released struct {
	name    string
	file    *os.File
	size    int
	numbers []int // of the spans that were released
	lost    int   // spans that were in numbers
}

// reopen opens a log that leaves its lock.
func (s Spool) reopen(r released, former *os.File) (released, error) {
	dir, err := s.enter(false)
	if dir == nil || err != nil {
		return r, cmp.Or(err, errMoved)
	}
	defer closeFolder(dir)
	file, _, err := openIn(dir, r.name, os.O_RDWR|os.O_APPEND)
	if err == nil && !s.leadsTo(r.name, former, r.size) {
		file.Close()
		err = errMoved
	}
	r.file = file
	return r, err
}

// restoreReleased writes released logs anew that are gone although not all of their spans were
// sent. It counts as lost what was truncated, and, at the last call, what cannot be written.
// wait calls the disk.
func (l *Log) restoreReleased(wait func(func() (released, error)) (released, error), last bool) {
	var rest []released
	for _, r := range l.released {
		r.lost = 0
		now, err := wait(func() (released, error) { return l.restore(r) })
		if err != nil {
			if now = r; last {
				now = released{name: r.name, lost: len(r.numbers)}
			}
		}
		if l.spool.lost(r.name, now.lost); len(now.numbers) > 0 {
			rest = append(rest, now)
		}
		if last && err == nil && now.file != nil {
			now.file.Close()
		}
	}
	l.released = rest
}

// restore writes a released log anew if it is gone. Without an error and without numbers,
// nothing of it has to be sent: a process that sends or evicts a log marks its spans before it
// removes the log.
func (l *Log) restore(r released) (released, error) {
	if l.spool.leadsTo(r.name, r.file, r.size) {
		return r, nil
	}
	var c contents
	b, err := io.ReadAll(io.NewSectionReader(r.file, 0, maxLog))
	if err != nil {
		return r, err
	}
	_ = c.decode(b) // what cannot be decoded is missing
	found := slices.DeleteFunc(slices.Clone(r.numbers), func(n int) bool { return n >= len(c.ended) })
	r.lost, r.numbers = len(r.numbers)-len(found), found
	if l.spool.leadsTo(r.name, r.file, 0) { // truncated; another process sends the rest
		r.size = len(b)
		return r, nil
	}
	var pending []*Span
	for _, n := range r.numbers {
		if !c.done[n] {
			pending = append(pending, c.ended[n])
		}
	}
	if r.numbers = nil; len(pending) == 0 {
		r.file.Close()
		return r, nil
	}
	anew, err := l.rewriteReleased(pending, c.note)
	if err != nil {
		return r, err
	}
	void(r.file, len(c.ended))
	r.file.Close()
	anew.lost = r.lost
	return anew, nil
}

// rewriteReleased writes spans into a log that another process may send.
func (l *Log) rewriteReleased(spans []*Span, note Note) (released, error) {
	name := newName()
	l.own(name)
	end, err := encodeNote(Note{Reason: note.Reason})
	note.Reason = ""
	head, failed := encodeNote(note)
	if err := cmp.Or(err, failed); err != nil {
		return released{}, err
	}
	dir, err := l.spool.enter(true)
	if err != nil {
		return released{}, err
	}
	defer closeFolder(dir)
	b := slices.Concat(head, frameOf(recordsOf(spans)...), end)
	if err := l.spool.makeRoom(int64(len(b))); err != nil {
		return released{}, err
	}
	file, err := replace(dir, name, b)
	if err != nil {
		return released{}, err
	}
	defer file.Close()
	return l.spool.reopen(released{name: name, size: len(b), numbers: upTo(len(spans))}, file)
}
