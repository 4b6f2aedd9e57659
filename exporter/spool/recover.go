package spool

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Recovered is what became of the journals of dead processes.
type Recovered struct {
	Spans int // that are in requests now
	Evicted
}

// Recover turns the journals of dead processes into requests.
func (s Spool) Recover(ctx context.Context) (Recovered, error) {
	return within(ctx, s.recoverAll)
}

// recoveredFile is a file whose modification time is when a process last looked for
// journals to recover.
const (
	recoveredFile = "recovered"
	recoverEvery  = time.Minute
)

// RecoverDue is like Recover, but does nothing if a process has looked within the
// last minute: looking opens and locks the journal of every running process.
func (s Spool) RecoverDue(ctx context.Context) (Recovered, error) {
	return within(ctx, func() (r Recovered, err error) {
		path := filepath.Join(s.Dir, recoveredFile)
		if info, err := os.Lstat(path); err == nil {
			if age := time.Since(info.ModTime()); 0 <= age && age < recoverEvery {
				return r, nil
			}
		}
		if err := s.enter(false); err != nil {
			return r, ignore(err, fs.ErrNotExist)
		}
		f, _, err := OpenFile(path, os.O_WRONLY|os.O_CREATE)
		if err != nil {
			discard(path)
		} else {
			_ = os.Chtimes(path, time.Time{}, time.Now()) // or else others look, too
			f.Close()
		}
		return s.recoverAll()
	})
}

func (s Spool) recoverAll() (r Recovered, err error) {
	entries, err := s.readDir(openDir)
	errs := []error{err}
	dir := filepath.Join(s.Dir, openDir)
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), waitingExt)
		if !ok {
			removeStale(dir, e)
			removeStaleLock(dir, e)
			continue
		}
		n, err := s.recoverOne(filepath.Join(dir, base), &r.Evicted)
		r.Spans += n
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

// removeStaleLock removes the lock of a process that was killed before it wrote a
// journal or after it removed the journal.
func removeStaleLock(dir string, e fs.DirEntry) {
	base, ok := strings.CutSuffix(filepath.Join(dir, e.Name()), lockExt)
	info, err := e.Info()
	if !ok || err != nil || time.Since(info.ModTime()) < staleAfter {
		return
	}
	if _, err := os.Lstat(base + waitingExt); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if lock, err := tryLock(base + lockExt); lock != nil && err == nil {
		discard(base + lockExt)
		unlock(lock)
	}
}

// presumedDead is how long a process on another host may show no sign of life
// before its journal is recovered: its lock may not be visible from here.
const presumedDead = 24 * heartbeat

func (s Spool) recoverOne(base string, evicted *Evicted) (spans int, err error) {
	path := base + waitingExt
	// Create the lock if it is gone, so that only one of two processes that recover
	// at once proceeds.
	lock, err := tryLock(base + lockExt)
	if lock == nil && err == nil {
		return 0, nil // the process is alive
	}
	defer unlock(lock)
	j, err := s.readJournal(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has just ended, or was recovered by another
		if lock != nil {
			discard(base + lockExt)
		}
		return 0, nil
	case lock != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		err = remove(path) // the process was killed during its first write
	case isUntrusted(err):
		err = s.refuse(path, err)
	case errors.Is(err, errCorrupt):
		err = setAside(path)
	case err != nil:
		return 0, nil // the journal may be readable later
	default:
		return s.revive(base, lock != nil, j, evicted)
	}
	if err = ignore(err, fs.ErrNotExist); err == nil {
		discard(base + lockExt)
	}
	return 0, err
}

// revive turns a journal into requests if its process is known to be dead.
func (s Spool) revive(base string, locked bool, j journal, evicted *Evicted) (spans int, err error) {
	path := base + waitingExt
	// Without a lock, or on another host, only the journal's age tells.
	if host, _ := os.Hostname(); (!locked || j.note.Host != host) && s.age(path) < presumedDead {
		return 0, nil
	}
	room := s.reserved(j.size)
	s.freed += room // the spans exist twice until the journal is removed
	requests := j.requests()
	for _, p := range requests {
		g, err := s.put(j.note.Destination, Request{Body: p.AppendTo(nil), Spans: len(p.Spans)}, "its process was killed", "")
		evicted.Add(g)
		if err != nil {
			return spans, err // the journal stays
		}
		spans += len(p.Spans)
	}
	if remove(path) == nil { // else they are recovered again
		s.release(room)
		for _, p := range requests {
			s.tellRecovered(p)
		}
	}
	discard(base + lockExt)
	return spans, nil
}

func (s Spool) tellRecovered(p Part) {
	if s.Recovered != nil {
		s.Recovered(p)
	}
}

// isUnsupported reports whether an error means that the disk does not support
// locks.
func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}

// age returns how long ago a file was written, by the clock of its disk: another
// host's clock may be wrong.
func (s Spool) age(path string) time.Duration {
	written, err := os.Stat(path)
	if err != nil {
		return 0
	}
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return 0
	}
	defer discard(f.Name())
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return 0
	}
	return now.ModTime().Sub(written.ModTime())
}

// A journal is the contents of a journal file.
type journal struct {
	note  Note
	heads []Part // without spans
	log   log
	size  int64
}

// maxJournal is larger than any journal that a process could have written: it
// compacts one that has grown well beyond its queue.
const maxJournal = 1 << 30

// readJournal reads a journal up to the first record that makes no sense. It fails
// if not even the note is valid, or if the file is not this user's.
func (s Spool) readJournal(path string) (j journal, err error) {
	f, info, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return journal{}, err
	}
	defer f.Close()
	if j.size = info.Size(); j.size > maxJournal {
		return journal{}, errCorrupt
	}
	return decodeJournal(f, j.size)
}

// maxHeads is more than there are agents.
const maxHeads = 100

// decodeJournal reads a journal of size bytes, one frame in memory at a time.
func decodeJournal(r io.Reader, size int64) (j journal, err error) {
	j.size = size
	records := bufio.NewReader(r)
	num, value, err := nextRecord(records, size, maxNote)
	if err != nil {
		return journal{}, err
	}
	if num != fieldNote {
		return journal{}, errCorrupt
	}
	j.note, _, err = decodeNote(appendRecord(nil, num, value))
	if err != nil {
		return journal{}, err
	}
	for {
		num, value, err := nextRecord(records, size, maxFrame)
		switch {
		case err != nil: // the end, or a frame that was cut short
			return j, nil
		case num == fieldFrame:
			j.log.add(value)
		case num == fieldResourceSpans:
			head := Part{}
			if parts, err := readParts(appendRecord(nil, num, value)); err == nil && len(parts) > 0 {
				head = Part{Resource: parts[0].Resource, Scope: parts[0].Scope}
			}
			if len(j.heads) < maxHeads {
				j.heads = append(j.heads, head)
			}
		}
	}
}

// ignore returns nil for an error that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

func appendRecord(b []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
}

// nextRecord reads one record of at most limit bytes. A length beyond the end of
// the file is not believed.
func nextRecord(r *bufio.Reader, size, limit int64) (num protowire.Number, value []byte, err error) {
	tag, err := readVarint(r)
	if err != nil {
		return 0, nil, err
	}
	num, typ := protowire.DecodeTag(tag)
	length, err := readVarint(r)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case num < 1 || typ != protowire.BytesType || length > uint64(limit):
		return 0, nil, errCorrupt
	case length > uint64(size):
		return 0, nil, io.ErrUnexpectedEOF
	}
	value = make([]byte, length)
	_, err = io.ReadFull(r, value)
	return num, value, err
}

func readVarint(r *bufio.Reader) (uint64, error) {
	head, err := r.Peek(10)
	v, n := protowire.ConsumeVarint(head)
	if n < 0 {
		if err == nil {
			err = errCorrupt
		}
		return 0, err
	}
	_, _ = r.Discard(n) // it was peeked at
	return v, nil
}

// maxRequest is how large a recovered request may be: gRPC servers refuse 4 MiB.
const maxRequest = 3 << 20

// requests splits the spans of a journal into requests that receivers accept.

func (j *journal) requests() (parts []Part) {
	byHead := map[uint64][]*tracepb.Span{}
	for _, s := range j.log.spans() {
		byHead[s.head] = append(byHead[s.head], s.Span)
	}
	for _, n := range slices.Sorted(maps.Keys(byHead)) {
		head := Part{}
		if n < uint64(len(j.heads)) {
			head = j.heads[n]
		}
		parts = append(parts, split(head, byHead[n])...)
	}
	return parts
}

func split(head Part, spans []*tracepb.Span) (parts []Part) {
	size := 0
	for _, span := range spans {
		body, err := proto.Marshal(span)
		if err != nil {
			continue // it was decoded, so it is UTF-8
		}
		wire := AppendSpan(nil, body)
		if len(parts) == 0 || size+len(wire) > maxRequest {
			parts = append(parts, head)
			size = head.Overhead()
		}
		part := &parts[len(parts)-1]
		part.Spans = append(part.Spans, wire)
		size += len(wire)
	}
	return parts
}
