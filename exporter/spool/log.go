package spool

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Log is the log of this process: what it would leave behind if it were killed. It is never
// synced: the page cache outlives the process. What is not delivered when the process ends
// stays in it.
//
// Each call writes one frame, and returns when the kernel has it, or when the disk is found
// to be frozen. After a failure, the next call writes a new file.
type Log struct {
	spool Spool
	note  Note

	mu       diskLock
	file     *os.File // locked; nil before the first write
	name     string   // of the file
	next     int      // number of the next span that ends
	pending  []*Span  // that have ended and are not delivered
	numbers  numbers  // of pending
	bytes    int      // of pending
	snapshot Snapshot
	size     int   // of the file
	counted  int   // size when room was last made
	err      error // why the file does not have all that is pending, or nil
	closed   bool
	released []released

	id    string // in the names of all files of this log
	named int64  // the number in the last one, which begins with the time
}

// A Snapshot is what a killed process leaves behind besides the spans that had ended.
type Snapshot struct {
	Open    []*Span // as if they ended now
	Resumed bool    // whoever restarts the process ends Open itself: only a viewer gets them
	Metrics []byte  // an ExportMetricsServiceRequest, as if the process were killed now; nil if the last one is still good
}

// slack is how many bytes a file may exceed twice what is needed of it by before it is
// written anew.
const slack = 256 << 10

var errTooBig = errors.New("the log exceeds its size limit")

// NewLog returns a log for this process. Nothing is on disk before there is something to
// write.
func (s Spool) NewLog(spans Destination, metrics *Destination) *Log {
	host, _ := os.Hostname()
	l := &Log{
		spool: s, note: Note{Destination: spans, Metrics: metrics, Format: logFormat, Host: host, PID: os.Getpid()},
		mu: newDiskLock(), numbers: numbers{}, id: fmt.Sprintf("%012x", rand.Uint64()>>16), named: time.Now().UnixNano(),
	}
	l.name = l.newName()
	return l
}

// newName returns a name that no other file has. Names sort by when their processes began, so
// that whoever looks for logs to send does not have to pass by those of all running processes.
func (l *Log) newName() string {
	l.named++
	return fmt.Sprintf("%d-%s%s", l.named, l.id, logExt)
}

// Owns reports whether a file is one of this log, perhaps a released one, or has rejected
// spans of it.
func (l *Log) Owns(name string) bool {
	_, id, _ := strings.Cut(strings.TrimSuffix(name, filepath.Ext(name)), "-")
	return id == l.id
}

// Append adds spans that have ended, whose bytes must not change any more, and replaces the
// snapshot unless it is nil.
func (l *Log) Append(ended []*Span, snapshot *Snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.err
	}
	for _, s := range ended {
		l.numbers[s] = l.next
		l.next++
		l.bytes += len(s.Wire)
	}
	l.pending = append(l.pending, ended...)
	records := recordsOf(ended)
	if snapshot != nil {
		metrics := snapshot.Metrics
		if metrics == nil {
			metrics = l.snapshot.Metrics
		}
		l.snapshot = Snapshot{Open: snapshot.Open, Resumed: snapshot.Resumed, Metrics: metrics}
		records = append(records, snapshot.open()...)
		if snapshot.Metrics != nil {
			records = append(records, appendRecord(nil, fieldMetrics, snapshot.Metrics))
		}
	}
	if len(records) > 0 || l.err != nil {
		l.write(records...)
	}
	if snapshot != nil {
		l.restoreReleased()
	}
	return l.err
}

func (s *Snapshot) records() [][]byte {
	return append(s.open(), appendRecord(nil, fieldMetrics, s.Metrics))
}

func (s *Snapshot) open() [][]byte {
	if s.Resumed {
		return enclose(fieldShown, recordsOf(s.Open))
	}
	return enclose(fieldOpen, recordsOf(s.Open))
}

func (s *Snapshot) size() (n int) {
	for _, span := range s.Open {
		n += len(span.Wire)
	}
	return n + len(s.Metrics)
}

// Done removes spans that were appended: they are delivered.
func (l *Log) Done(spans []*Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done := l.remove(spans); !l.closed && l.file != nil {
		l.write(recordDone(done))
	}
}

// Reject keeps spans that the receiver will never accept. It reports whether they are on
// disk.
func (l *Log) Reject(spans []*Span, why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	name, note := l.name, l.note
	note.Reason = why
	err := do(func() error {
		dir, err := l.spool.enter(true)
		if err != nil {
			return err
		}
		defer closeFolder(dir)
		return l.spool.reject(dir, name, note, spans)
	})
	if done := l.remove(spans); l.file != nil {
		l.write(recordDone(done))
	}
	return err == nil
}

// remove removes spans from those that are pending, and returns their numbers.
func (l *Log) remove(spans []*Span) (removed []int) {
	removed = l.numbers.of(spans)
	for _, s := range spans {
		if _, pending := l.numbers[s]; pending {
			l.bytes -= len(s.Wire)
			delete(l.numbers, s)
		}
	}
	l.pending = slices.DeleteFunc(l.pending, func(s *Span) bool {
		_, pending := l.numbers[s]
		return !pending
	})
	return removed
}

// call calls the disk. The last calls are made whatever the disk did before.
func call[T any](l *Log, f func() (T, error)) (T, error) {
	if l.closed {
		return Await(f)
	}
	return within(f)
}

// write appends a frame, or writes a new file with only what is still needed.
func (l *Log) write(records ...[]byte) {
	size := sizeRecords(records)
	if l.file == nil || l.err != nil || l.size+size > min(2*(l.bytes+l.snapshot.size())+slack, maxLog) {
		l.rewrite()
		return
	}
	if size > maxFrame {
		l.err = errTooBig
		return
	}
	frame, file, name, before, count := frameOf(records...), l.file, l.name, l.size, int64(l.size-l.counted) > l.spool.Max/lookEvery
	if count {
		l.counted = l.size
	}
	l.err = do(func() error {
		if count {
			if err := l.spool.makeRoom(l.spool.Max/lookEvery + 1); err != nil {
				return err
			}
		}
		if l.spool.sizeOf(name, file) != before {
			return errMoved
		}
		onDisk("append")
		_, err := file.Write(frame)
		return err
	})
	if l.size += len(frame); errors.Is(l.err, errMoved) {
		l.rewrite()
	}
}

// rewrite writes a new file, and leaves the old one whole until then.
func (l *Log) rewrite() {
	former := l.next
	for i, s := range l.pending {
		l.numbers[s] = i
	}
	l.next = len(l.pending)
	frame := frameOf(append(recordsOf(l.pending), l.snapshot.records()...)...)
	b := append(encodeNote(l.note), frame...)
	if len(b) > maxLog {
		l.err = errTooBig
		return
	}
	name, old, grown := l.name, l.file, len(b)-l.size
	file, err := call(l, func() (*os.File, error) { // which may go on when nobody waits any more
		dir, err := l.spool.enter(true) // another process may have replaced the folder
		if err != nil {
			return nil, err
		}
		defer closeFolder(dir)
		if err := l.spool.makeRoom(int64(max(0, grown))); err != nil {
			return nil, err
		}
		moved := old != nil && l.spool.sizeOf(name, old) < 0
		file, err := replace(dir, name, b)
		if err == nil && old != nil {
			if moved {
				void(old, former)
			}
			old.Close()
		}
		return file, err
	})
	if l.err = err; err == nil {
		l.file, l.size, l.counted = file, len(b), len(b)
	}
}

// replace writes a file that is locked before it has its name.
func replace(dir *os.Root, name string, b []byte) (*os.File, error) {
	onDisk("create")
	temp := tempPrefix + name
	file, err := dir.OpenFile(temp, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if errors.Is(err, os.ErrExist) { // of a call that failed
		_ = dir.Remove(temp)
		file, err = dir.OpenFile(temp, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	_, _ = Lock(file) // without locks, the age of the log tells whether its process lives
	onDisk("write")
	if _, err = file.Write(b); err == nil {
		onDisk("rename")
		err = dir.Rename(temp, name)
	}
	if err != nil {
		file.Close()
		_ = dir.Remove(temp)
		return nil, err
	}
	return file, nil
}

// Release leaves spans in another log for whoever takes its lock, because there are too many
// of them, or because they come after Close. It reports whether they are on disk.
func (l *Log) Release(spans []*Span, reason string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, note := l.newName(), l.note
	note.Reason = reason
	left, err := call(l, func() (released, error) { return l.spool.leave(name, spans, note) })
	// If the process is killed before they are marked here, they arrive twice.
	if done := l.remove(spans); !l.closed && l.file != nil {
		l.write(recordDone(done))
	}
	switch {
	case err != nil:
		l.err = err
	case l.closed:
		left.file.Close()
	default:
		l.released = append(l.released, left)
	}
	return err == nil
}

// Err returns why a kill would lose spans, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the log. It removes the file, or, given a reason why spans were not delivered,
// leaves these spans in it for another process to send, and reports whether it has all of
// them. So it does with metrics that were not delivered.
func (l *Log) Close(reason string, metrics []byte) (kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	l.snapshot = Snapshot{Metrics: metrics}
	defer l.restoreReleased()
	spans := len(l.pending) > 0 && reason != ""
	if spans || len(metrics) > 0 {
		if l.file == nil || l.err != nil || l.size > 2*(l.bytes+len(metrics)+slack/16) || !l.isPlaced() {
			l.rewrite()
		}
		if kept = l.err == nil && spans; l.err == nil {
			l.end(append(frameOf(l.snapshot.records()...), encodeNote(Note{Reason: reason})...))
			return kept && l.err == nil
		}
	}
	if l.file != nil {
		l.end(nil)
	}
	return false
}

// end writes the last bytes, or else removes the file.
func (l *Log) end(last []byte) {
	file, path, spans := l.file, filepath.Join(l.spool.Dir, l.name), l.next
	_, err := Await(func() (n int, err error) {
		defer file.Close()
		switch {
		case last != nil:
			onDisk("append")
			return file.Write(last)
		case l.spool.sizeOf(l.name, file) < 0:
			void(file, spans)
			return 0, nil
		}
		onDisk("remove")
		return 0, os.Remove(path)
	})
	l.err = cmp.Or(l.err, err)
}
