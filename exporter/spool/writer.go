package spool

import (
	"bufio"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// heartbeat is how often an idle process touches its log, to show other hosts that
// it is alive.
const heartbeat = time.Hour

const lockExt = ".lock"

// An output is the file that a journal's writer appends to. Only the writer uses
// it.
type output struct {
	lock     *flock.Flock
	f        *os.File // nil if the writer must create a new one
	size     int64
	reserved int64 // of the spool's room
	exists   bool
}

func (j *Journal) path(ext string) string { return filepath.Join(j.dir, j.base+ext) }

// write writes one batch after another until Close.
func (j *Journal) write() {
	defer close(j.stopped)
	heart := time.NewTimer(heartbeat)
	defer heart.Stop()
	for {
		j.mu.Lock()
		todo, closed, keep := j.queued, j.closed, j.keep
		j.queued = batch{}
		j.writing = todo
		j.mu.Unlock()
		switch {
		case todo.size > 0:
			j.settle(todo, j.do(todo))
			continue
		case closed:
			j.end(keep)
			return
		}
		select {
		case <-j.wake:
		case <-heart.C:
			_ = os.Chtimes(j.path(waitingExt), time.Time{}, time.Now())
		}
		heart.Reset(heartbeat)
	}
}

// settle publishes the outcome of a batch.
func (j *Journal) settle(done batch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = batch{}
	if !done.anew { // else chunks are spans
		for _, c := range done.chunks {
			if cap(c) <= 2*maxChunk && len(j.spares) < maxSpares {
				j.spares = append(j.spares, c[:0])
			}
		}
	}
	if err != nil {
		j.fail(err)
		return
	}
	j.written = max(j.written, done.upTo)
	j.broadcast()
}

func (j *Journal) do(todo batch) error {
	if !todo.anew {
		return j.append(todo)
	}
	return j.rewrite(todo)
}

// writeTo writes small chunks, such as the spans of a new log, many at once.
func (b *batch) writeTo(f *os.File) error {
	if len(b.chunks) == 1 {
		_, err := f.Write(b.chunks[0])
		return err
	}
	w := bufio.NewWriterSize(f, maxChunk/2)
	for _, c := range b.chunks {
		if _, err := w.Write(c); err != nil {
			return err
		}
	}
	return w.Flush()
}

var errNoLog = errors.New("the journal could not be written")

func (j *Journal) append(b batch) error {
	if j.out.f == nil {
		return errNoLog
	}
	err := j.reserve(j.out.size + int64(b.size))
	if err == nil {
		onDisk("append")
		err = b.writeTo(j.out.f)
	}
	if err != nil { // part of a frame may have been written: nothing can follow it
		j.out.close()
		return err
	}
	j.out.size += int64(b.size)
	return nil
}

// rewrite replaces the log with a new one, and leaves the old log whole until then.
func (j *Journal) rewrite(b batch) error {
	if err := j.begin(); err != nil {
		return err
	}
	j.out.close()
	old := j.out.reserved
	j.out.reserved = 0
	j.s.freed = old // both logs exist for a moment
	err := j.reserve(int64(b.size))
	j.s.freed = 0
	if err != nil {
		j.out.reserved = old
		return err
	}
	if j.out.exists {
		err = j.replace(b)
	} else {
		err = j.create(b)
	}
	if err != nil {
		j.s.release(j.out.reserved)
		j.out.reserved = old
		return err
	}
	j.s.release(old)
	j.out.exists, j.out.size = true, int64(b.size)
	return nil
}

// create writes the first log, without a rename: a kill during this write loses no
// more than a kill before it.
func (j *Journal) create(b batch) (err error) {
	onDisk("create")
	j.out.f, _, err = OpenFile(j.path(waitingExt), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	onDisk("write")
	if err = b.writeTo(j.out.f); err != nil {
		j.out.close()
		discard(j.path(waitingExt))
	}
	return err
}

// replace renames a new log over the old one.
func (j *Journal) replace(b batch) error {
	f, err := createTemp(j.dir)
	if err != nil {
		return err
	}
	onDisk("write")
	err = b.writeTo(f)
	if err = cmp.Or(err, f.Close()); err == nil { // Windows renames no open file
		err = rename(f.Name(), j.path(waitingExt))
	}
	if err != nil {
		discard(f.Name())
		return err
	}
	j.out.f, _, err = OpenFile(j.path(waitingExt), os.O_WRONLY|os.O_APPEND)
	return err
}

func (j *Journal) begin() (err error) {
	if j.dir == "" {
		if j.dir, err = j.s.makeDir(openDir); err != nil {
			return err
		}
	}
	if j.out.lock == nil {
		// On a disk without locks, the heartbeat has to suffice.
		switch j.out.lock, err = tryLock(j.path(lockExt)); {
		case isUnsupported(err):
		case err != nil:
			return err
		case j.out.lock == nil:
			return ErrBusy // impossible: no other process uses this name
		}
	}
	return nil
}

// reserve makes room for a log of size bytes.
func (j *Journal) reserve(size int64) error {
	more := j.s.reserved(size) - j.out.reserved
	if more <= 0 {
		return nil
	}
	evicted, err := j.s.reserve(more)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.evicted.Add(evicted)
	if err == nil {
		j.out.reserved += more
	}
	return err
}

// reserved returns how much room a log of size bytes reserves: a little more, so
// that not every append has to reserve.
func (s Spool) reserved(size int64) int64 {
	chunk := min(16<<10, s.Max/64+1)
	return (size + chunk - 1) / chunk * chunk
}

func (o *output) close() {
	if o.f != nil {
		o.f.Close() // it is not needed on disk
		o.f = nil
	}
}

// end leaves the log for another process, or removes it.
func (j *Journal) end(keep bool) {
	j.out.close()
	defer unlock(j.out.lock)
	if keep && j.out.exists {
		j.mu.Lock()
		j.kept = j.err == nil
		j.mu.Unlock()
		return
	}
	if j.out.exists && remove(j.path(waitingExt)) == nil {
		j.s.release(j.out.reserved)
	}
	if j.out.lock != nil {
		discard(j.path(lockExt))
	}
}
