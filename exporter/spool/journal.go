package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Journal holds what a running process would lose if it were killed: open spans,
// as they would end now, and ended spans that are not delivered. It is a log file
// (log.go) that is never synced: the page cache outlives the process. What is not
// delivered when the process ends stays in the log, which is renamed to wait with
// the requests.
//
// Each call writes one frame, and returns when the kernel has it, or when its context
// ends: a kill loses only what had not been written. After a failure, the next
// Checkpoint writes a new log.
type Journal struct {
	file *logFile

	mu      diskLock
	next    int     // number of the next span that ends
	live    []*Span // that have ended and are not delivered
	weight  int     // bytes of live
	size    int     // bytes of the log's frames
	err     error   // why the log does not have all that is live, or nil
	closing bool
	closed  bool
}

// slack is how many bytes a log may exceed twice its live contents by before it
// is compacted.
const slack = 256 << 10

// errNotBegun is why a journal has no log before its first Checkpoint.
var errNotBegun = errors.New("no checkpoint")

// NewJournal returns a journal for this process. Nothing is on disk before the first
// Checkpoint.
func (s Spool) NewJournal(to Destination) *Journal {
	return &Journal{file: s.newLogFile(to), mu: newDiskLock(), err: errNotBegun}
}

// newLogFile returns a file of this process, which is not created yet.
func (s Spool) newLogFile(to Destination) *logFile {
	host, _ := os.Hostname()
	note := Note{Destination: to, Format: logFormat, Host: host, PID: os.Getpid()}
	base := filepath.Join(s.Dir, journalDir, fmt.Sprintf("%d-%s", os.Getpid(), random()))
	return &logFile{s: s, base: base, note: note, mu: newDiskLock()}
}

// A MetricsJournal holds the metrics that a running process would lose if it were killed.
// Its log has no frames: after the note comes the request, so that the log itself
// becomes the file of a request.
type MetricsJournal struct{ file *logFile }

// NewMetricsJournal returns a journal for this process. Nothing is on disk before the first
// Replace.
func (s Spool) NewMetricsJournal(to Destination) *MetricsJournal {
	return &MetricsJournal{s.newLogFile(to)}
}

// Replace replaces what the journal has with a request.
func (j *MetricsJournal) Replace(ctx context.Context, req Request) error {
	note := j.file.note
	note.Sum, note.Points, note.Delta = checksum(req.Body), req.Points, req.Delta
	return do(ctx, func() error { return j.file.replace(note, [][]byte{req.Body}) })
}

// Clear removes what the journal has: it needs no recovery any more.
func (j *MetricsJournal) Clear(ctx context.Context) {
	_ = do(ctx, func() error { j.file.clear(); return nil })
}

// Close ends the journal, and removes what it has.
func (j *MetricsJournal) Close(ctx context.Context) {
	_ = do(ctx, func() error { j.file.finish(nil, 0, false); return nil })
}

// Append adds spans that have ended. Their bytes must not change any more.
func (j *Journal) Append(ctx context.Context, ended []*Span) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(ended)
	if len(ended) > 0 {
		j.write(ctx, recordsOf(ended), false)
	}
}

// Checkpoint is Append, and replaces the spans that have not ended.
func (j *Journal) Checkpoint(ctx context.Context, ended, open []*Span) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(ended)
	j.checkpoint(ctx, ended, open)
	return ignore(j.err, errNotBegun)
}

// add numbers spans that have ended.
func (j *Journal) add(ended []*Span) {
	if j.closed {
		return
	}
	for _, s := range ended {
		s.number = j.next
		j.next++
		j.weight += len(s.Wire)
	}
	j.live = append(j.live, ended...)
}

// checkpoint appends to the log, or writes a new one with only what is still needed.
func (j *Journal) checkpoint(ctx context.Context, ended, open []*Span) {
	still := enclose(fieldOpen, recordsOf(open))
	more := append(recordsOf(ended), still...)
	anew := j.err != nil || j.size+sizeRecords(more) > min(2*(j.weight+sizeRecords(still))+slack, maxLog)
	if anew {
		more = append(recordsOf(j.live), still...)
		for i, s := range j.live {
			s.number = i
		}
		j.next = len(j.live)
	}
	j.write(ctx, more, anew)
}

// write appends a frame to the log, or writes a new log.
func (j *Journal) write(ctx context.Context, records [][]byte, anew bool) {
	if j.closed || j.err != nil && !anew {
		return
	}
	if sizeRecords(records) > maxFrame {
		j.err = errTooBig
		return
	}
	records = enclose(fieldFrame, records)
	to := j.file.append
	if anew {
		to = func(records [][]byte) error { return j.file.replace(j.file.note, records) }
		j.size = 0
	}
	j.size += sizeRecords(records)
	wait := within[struct{}]
	if j.closing { // the last chance, whatever the disk did before
		wait = await
	}
	_, j.err = wait(ctx, func() (struct{}, error) { return struct{}{}, to(records) })
}

// Done removes spans that were added: they need no recovery.
func (j *Journal) Done(ctx context.Context, spans []*Span) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	var numbers []byte
	for _, s := range spans {
		s.done = true
		j.weight -= len(s.Wire)
		numbers = protowire.AppendVarint(numbers, uint64(s.number))
	}
	j.live = slices.DeleteFunc(j.live, func(s *Span) bool { return s.done })
	j.write(ctx, [][]byte{appendRecord(nil, fieldDone, numbers)}, false)
}

// Err returns why a kill would lose spans, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return ignore(j.err, errNotBegun)
}

// Close ends the journal. It removes the log, or, given a reason why spans were not
// delivered, leaves those spans in it for another process to send, and reports whether the
// log has all of them. Close returns shortly after ctx has ended, even if the disk does not
// answer.
func (j *Journal) Close(ctx context.Context, reason string) (kept bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false
	}
	var end []byte
	if j.closing = true; reason != "" && len(j.live) > 0 {
		j.checkpoint(ctx, nil, nil)
		kept = j.err == nil
		end, _ = encodeNote(Note{Reason: reason}) // a note without an endpoint is always valid
	}
	j.closed = true
	failed := j.err != nil
	// A log that could not be renamed in time is recovered all the same.
	_, _ = await(ctx, func() (struct{}, error) { j.file.finish(end, len(j.live), failed); return struct{}{}, nil })
	return kept
}

const (
	// heartbeat is how often a process touches its log, to show hosts that do not see its
	// lock that it is alive.
	heartbeat = time.Hour

	lockExt = ".lock"
)

// A logFile is the file of a journal. The process holds a lock file beside it for as long
// as it lives: its process id would not be enough, because ids are reused.
type logFile struct {
	s    Spool
	base string // the path without its extension
	note Note   // which the log begins with

	mu   diskLock // held by a call for which nobody may be waiting any more
	lock *os.File
	beat *time.Timer // nil before begin
	f    *os.File    // nil if a new one must be created
	size int64
}

func (l *logFile) path() string { return l.base + waitingExt }

// append writes at the end of the log.
func (l *logFile) append(records [][]byte) error {
	b := bytes.Join(records, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return errNoLog
	}
	err := l.room(l.s, int64(len(b)))
	if err == nil {
		onDisk("append")
		_, err = l.f.Write(b)
	}
	if err != nil { // part of a frame may have been written: nothing can follow it
		l.closeFile()
		return err
	}
	l.size += int64(len(b))
	return nil
}

var errNoLog = errors.New("the journal could not be written")

// room makes room in the spool.
func (l *logFile) room(s Spool, size int64) error {
	if l.size+size > min(l.s.Max, maxLog) {
		return errFull
	}
	return s.makeRoom(size)
}

// replace writes a new log of the note and records, and leaves the old log whole until then.
func (l *logFile) replace(note Note, records [][]byte) error {
	head, err := encodeNote(note)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.begin(); err != nil {
		return err
	}
	l.closeFile()
	b := bytes.Join(append([][]byte{head}, records...), nil)
	size, old := int64(len(b)), l.size
	l.size = 0
	if err = l.room(l.s.withFreed(old), size); err == nil { // both logs exist for a moment
		if err = write(l.path(), b); err == nil {
			l.f, _, err = OpenFile(l.path(), os.O_WRONLY|os.O_APPEND)
		}
	}
	if l.size = size; err != nil {
		l.size = old
	}
	return err
}

// begin locks the log.
func (l *logFile) begin() (err error) {
	if l.lock != nil {
		return nil
	}
	if _, err = l.s.makeDir(journalDir); err != nil {
		return err
	}
	if l.lock, err = TryLock(l.base + lockExt); err != nil && !isUnsupported(err) { // without locks, the heartbeat has to suffice
		return err
	}
	if l.beat == nil {
		l.beat = time.AfterFunc(heartbeat, l.touch)
	}
	return nil
}

func (l *logFile) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = os.Chtimes(l.path(), time.Time{}, time.Now())
	l.beat.Reset(heartbeat)
}

func (l *logFile) closeFile() {
	if l.f != nil {
		l.f.Close() // it is not needed on disk
		l.f = nil
	}
}

// clear removes the log, but keeps its lock for the next one.
func (l *logFile) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 {
		l.closeFile()
		discard(l.path())
		l.size = 0
	}
}

// finish hands the log over to whoever sends next, with a note of why its spans were not
// delivered, or removes it if there is none.
func (l *logFile) finish(end []byte, spans int, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer unlock(l.lock)
	defer l.closeFile()
	if l.beat != nil {
		l.beat.Stop()
	}
	switch {
	case l.size == 0:
	case end == nil:
		discard(l.path())
	case failed || l.handOver(end, spans) != nil: // what has been written is recovered
		return
	}
	if l.lock != nil {
		discard(l.base + lockExt)
	}
}

func (l *logFile) handOver(end []byte, spans int) error {
	onDisk("append")
	if _, err := l.f.Write(end); err != nil {
		return err
	}
	l.closeFile() // Windows renames no open file
	return l.s.enqueue(l.path(), l.note.Destination, newName(Request{Spans: spans}, int(l.size)+len(end), l.s.Owner))
}

// enqueue moves the log of a process that has ended to where requests wait.
func (s Spool) enqueue(path string, to Destination, n name) error {
	dir, err := s.makeDir(to.dir())
	if err != nil {
		return err
	}
	return rename(path, filepath.Join(dir, n.String()))
}

// withFreed returns the spool during a call that frees bytes in the end.
func (s Spool) withFreed(bytes int64) Spool {
	s.Max += bytes
	return s
}
