package spool

import (
	"bufio"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// heartbeat is how often an idle process touches its log, to show other hosts that
	// it is alive.
	heartbeat = time.Hour

	// maxQueued is how far a disk may fall behind, in bytes.
	maxQueued = 8 << 20

	lockExt = ".lock"
)

// A logWriter writes the log of a journal, in a goroutine that starts with the first
// write. The process holds a lock file beside the log for as long as it lives: its
// process id would not be enough, because ids are reused.
type logWriter struct {
	s    Spool
	to   Destination
	dir  string
	base string

	wake    chan struct{} // there is something to write
	stopped chan struct{} // closed when the goroutine has returned

	mu      sync.Mutex
	queued  batch
	written uint64        // spans below this number are on disk
	moved   chan struct{} // closed, and replaced, when written changes or err does
	evicted Evicted
	err     error // why the log is not being written
	started bool
	end     *ending

	// Used by the goroutine only.
	lock *flock.Flock
	f    *os.File // nil if a new one must be created
	size int64
}

// A batch is what the writer writes next.
type batch struct {
	records [][]byte
	size    int    // bytes in them
	anew    bool   // write a new log instead of appending
	upTo    uint64 // spans below this number are in it or were before
}

// An ending says what happens to the log of a process that ends.
type ending struct {
	note  []byte // why spans in it were not delivered; nil to remove the log
	spans int    // in it
}

func newLogWriter(s Spool, to Destination, err error) *logWriter {
	return &logWriter{
		s: s, to: to, dir: filepath.Join(s.Dir, openDir), base: journalBase(), err: err,
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), moved: make(chan struct{}),
	}
}

func (w *logWriter) path(ext string) string { return filepath.Join(w.dir, w.base+ext) }

// append queues bytes for the end of the log. If more than limit bytes are
// queued, the log fails.
func (w *logWriter) append(b []byte, upTo uint64, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	q := &w.queued
	q.records, q.size, q.upTo = append(q.records, b), q.size+len(b), max(q.upTo, upTo)
	if len(b) > maxFrame || q.size > limit {
		w.failLocked(errBehind)
	}
	w.notify()
}

// replace queues a new log.
func (w *logWriter) replace(records [][]byte, upTo uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued = batch{records, sizeRecords(records), true, upTo}
	if !w.started {
		w.started = true
		go w.run()
	}
	w.notify()
}

func (w *logWriter) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// fail discards what is queued. Nothing is written until the next replace.
func (w *logWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *logWriter) failLocked(err error) {
	w.err, w.queued = err, batch{}
	w.broadcast()
}

// retry returns the error since which nothing was written, and clears it.
func (w *logWriter) retry() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	w.err = nil
	return err
}

func (w *logWriter) broadcast() {
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *logWriter) progress() (written uint64, moved <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written, w.moved, w.err
}

func (w *logWriter) takeEvicted() Evicted {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.evicted
	w.evicted = Evicted{}
	return e
}

// close makes the goroutine end once everything queued is written.
func (w *logWriter) close(end ending) (stopped <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = &end
	w.broadcast()
	if !w.started {
		close(w.stopped)
	}
	w.notify()
	return w.stopped
}

// run writes one batch after another until close.
func (w *logWriter) run() {
	defer close(w.stopped)
	heart := time.NewTicker(heartbeat)
	defer heart.Stop()
	for {
		w.mu.Lock()
		todo, end, failed := w.queued, w.end, w.err
		w.queued = batch{}
		w.mu.Unlock()
		switch {
		case todo.size > 0:
			w.settle(todo, w.write(todo))
		case end != nil:
			w.finish(*end, failed)
			return
		default:
			select {
			case <-w.wake:
			case <-heart.C:
				_ = os.Chtimes(w.path(waitingExt), time.Time{}, time.Now())
			}
		}
	}
}

// settle publishes the outcome of a batch.
func (w *logWriter) settle(done batch, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failLocked(err)
		return
	}
	w.written = max(w.written, done.upTo)
	w.broadcast()
}

var errNoLog = errors.New("the journal could not be written")

func (w *logWriter) write(b batch) (err error) {
	if b.anew {
		return w.rewrite(b)
	}
	if w.f == nil {
		return errNoLog
	}
	if err = w.room(w.s, int64(b.size)); err == nil {
		onDisk("append")
		err = b.writeTo(w.f)
	}
	if err != nil { // part of a frame may have been written: nothing can follow it
		w.closeFile()
		return err
	}
	w.size += int64(b.size)
	return nil
}

// room makes room in the spool.
func (w *logWriter) room(s Spool, size int64) error {
	if w.size+size > min(w.s.Max, maxLog) {
		return errFull
	}
	evicted, err := s.makeRoom(size)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evicted.Add(evicted)
	return err
}

// rewrite replaces the log with a new one, and leaves the old log whole until then.
func (w *logWriter) rewrite(b batch) (err error) {
	if err = w.begin(); err != nil {
		return err
	}
	exists := w.size > 0
	w.closeFile()
	s := w.s.withFreed(w.size) // both logs exist for a moment
	old := w.size
	w.size = 0
	if err = w.room(s, int64(b.size)); err == nil {
		if exists {
			err = w.replaceFile(b)
		} else {
			err = w.createFile(b)
		}
	}
	if err != nil {
		w.size = old
		return err
	}
	w.size = int64(b.size)
	return nil
}

// createFile writes the first log, without a rename: a kill during this write loses no
// more than a kill before it.
func (w *logWriter) createFile(b batch) (err error) {
	onDisk("create")
	w.f, _, err = OpenFile(w.path(waitingExt), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	onDisk("write")
	if err = b.writeTo(w.f); err != nil {
		w.closeFile()
		discard(w.path(waitingExt))
	}
	return err
}

// replaceFile renames a new log over the old one.
func (w *logWriter) replaceFile(b batch) error {
	f, err := createTemp(w.dir)
	if err != nil {
		return err
	}
	onDisk("write")
	err = b.writeTo(f)
	if err = cmp.Or(err, f.Close()); err == nil { // Windows renames no open file
		err = rename(f.Name(), w.path(waitingExt))
	}
	if err != nil {
		discard(f.Name())
		return err
	}
	w.f, _, err = OpenFile(w.path(waitingExt), os.O_WRONLY|os.O_APPEND)
	return err
}

func (w *logWriter) begin() (err error) {
	if w.lock == nil {
		if _, err = w.s.makeDir(openDir); err != nil {
			return err
		}
		// On a disk without locks, the heartbeat has to suffice.
		switch w.lock, err = tryLock(w.path(lockExt)); {
		case isUnsupported(err):
		case err != nil:
			return err
		case w.lock == nil:
			return ErrBusy // impossible: no other process uses this name
		}
	}
	return nil
}

// writeTo writes small records, such as the spans of a new log, many at once.
func (b *batch) writeTo(f *os.File) error {
	w := bufio.NewWriterSize(f, min(b.size, 64<<10))
	for _, r := range b.records {
		if _, err := w.Write(r); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (w *logWriter) closeFile() {
	if w.f != nil {
		w.f.Close() // it is not needed on disk
		w.f = nil
	}
}

// finish hands the log over to whoever sends next, or removes it.
func (w *logWriter) finish(end ending, failed error) {
	defer unlock(w.lock)
	defer w.closeFile()
	switch {
	case w.size == 0:
	case end.note == nil:
		discard(w.path(waitingExt))
	case failed != nil || w.handOver(end) != nil: // what has been written is recovered
		return
	}
	if w.lock != nil {
		discard(w.path(lockExt))
	}
}

func (w *logWriter) handOver(end ending) error {
	onDisk("append")
	if _, err := w.f.Write(end.note); err != nil {
		return err
	}
	w.closeFile() // Windows renames no open file
	return w.s.handOver(w.path(waitingExt), w.to, end.spans, w.size+int64(len(end.note)))
}

// handOver moves the log of a process that has ended to where requests wait.
func (s Spool) handOver(path string, to Destination, spans int, size int64) error {
	dir, err := s.makeDir(to.dir())
	if err != nil {
		return err
	}
	n := name{at: time.Now(), spans: spans, bytes: size, tail: s.Owner + random(), log: true}
	return rename(path, filepath.Join(dir, n.String()))
}

// withFreed returns the spool during a call that frees bytes in the end.
func (s Spool) withFreed(bytes int64) Spool {
	s.Max += bytes
	return s
}
