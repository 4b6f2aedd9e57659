// Package tee copies a stream and hands the same bytes to a consumer that may be
// slower than the stream. README.md has a picture of the flow.
package tee

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// ringSize is how much of the stream is in memory for the consumer.
	ringSize = 2 << 20

	// maxLag is how much of the stream may wait before the consumer counts as behind.
	maxLag = ringSize / 8

	// maxRead is how much is read at once: more than a pipe holds by default.
	maxRead = 256 << 10

	// minRoom is how much room there must be for a read, so that a slow consumer does
	// not cut the stream into small chunks.
	minRoom = 64 << 10

	// spillPatience is how long the copy waits for a write to the spill. Otherwise the
	// copy, the write and the other programs in the pipe compete for processors, which
	// takes half as long again.
	spillPatience = 100 * time.Millisecond

	// stopPatience is how long Stop waits for a write to the output.
	stopPatience = 100 * time.Millisecond
)

// Options say what happens to bytes that the consumer has not seen yet.
type Options struct {
	Recording bool   // the stream waits for the consumer, however long it takes
	SpillDir  string // directory for the spill, "" for no spill
	SpillMax  int64  // size of the spill

	// Ahead is how long the first bytes may wait until the consumer is done with them,
	// so that it can save what a kill would lose. All other bytes are written at once.
	Ahead time.Duration

	Progress func() int64 // grows while the consumer works on a single chunk
	Hurry    func()       // called when the consumer must not wait for anything any more
}

// A Tee copies a stream from a reader to a writer. The same bytes go into the ring,
// from which the consumer takes them. When the ring is three quarters full, its oldest
// bytes move to the spill, until half is free. When the spill is full too, the stream
// waits while the consumer advances. A consumer that does not advance is detached, and the stream goes on.
//
// Three goroutines use a Tee, besides whoever ends it: one calls Copy, the consumer calls
// Next, and one writes to the spill. No I/O is done while mu is held.
type Tee struct {
	in   io.Reader
	out  io.Writer
	opts Options
	cpu  func() time.Duration // processor time of the process

	mu       sync.Mutex
	ring     ring
	spill    spill // has the bytes between the consumer's next and the ring
	arrivals arrivals
	consumer consumer
	pace     pace
	stopped  bool          // the copy must end
	passing  chan struct{} // closed once the bytes that the copy has read are written and in the ring
	whole    bool          // the stream ended by itself
	failure  error         // why the consumer is detached
	late     Lost          // what came after the consumer was detached

	first    chan struct{} // closed when the consumer is done with its first chunk, or detached
	endFirst func()        // closes it

	room  chan struct{} // wakes Copy: there is room, or nobody to keep room for
	more  chan struct{} // wakes the consumer: there are bytes, or there will be none
	ended chan struct{} // closed when nothing more comes
}

// Lost counts the part of the stream that the consumer has not seen.
type Lost struct{ Bytes, Lines int64 }

func (l *Lost) add(p []byte) {
	l.Bytes += int64(len(p))
	l.Lines += int64(bytes.Count(p, []byte{'\n'}))
}

// A consumer is the consumer's position in the stream.
type consumer struct {
	next  int64 // offset of its next byte
	taken Lost  // the chunk that the consumer works on
	lag   lag

	began    time.Time // when it last began to take a batch of gathered bytes
	gathered int64     // offset of the end of that batch
}

// A lag says whether the consumer may wait, such as for a collector.
type lag int

const (
	keepingUp lag = iota
	behind        // the consumer may wait: the stream does not wait for it
	hurried       // the consumer may not wait until it has caught up
)

// New returns a Tee from in to out.
func New(in io.Reader, out io.Writer, opts Options) *Tee {
	t := &Tee{
		in: in, out: out, opts: opts, cpu: cpuTime,
		ring: ring{buf: newBuffer(ringSize)}, spill: spill{dir: opts.SpillDir, max: opts.SpillMax, open: createUnlinked},
		passing: make(chan struct{}), first: make(chan struct{}), room: make(chan struct{}, 1), more: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	t.endFirst = sync.OnceFunc(func() { close(t.first) })
	close(t.passing)
	if opts.Recording || opts.SpillDir == "" || opts.SpillMax < spillChunk {
		t.spill.max = 0
	}
	return t
}

// An OutputError is an error of writing to the output. All other errors of Copy are
// errors of reading.
type OutputError struct{ Err error }

func (e OutputError) Error() string { return e.Err.Error() }
func (e OutputError) Unwrap() error { return e.Err }

// Copy copies until the input ends, or until Stop. Bytes are written as they come,
// before the consumer sees them. Only the first bytes may wait, see Options.Ahead.
func (t *Tee) Copy() error {
	scratch := make([]byte, minRoom) // once there is no consumer
	for ahead := t.opts.Ahead; ; ahead = 0 {
		buf := t.awaitRoom(scratch)
		n, err := t.in.Read(buf)
		if n > 0 {
			if !t.mayWrite() {
				return nil
			}
			if ahead > 0 {
				t.push(buf[:n], time.Now())
				select {
				case <-t.first:
				case <-time.After(ahead):
				}
			}
			_, failed := t.out.Write(buf[:n])
			var written <-chan struct{}
			if failed == nil && ahead == 0 {
				written = t.push(buf[:n], time.Now())
			}
			t.wrote()
			if written != nil {
				select {
				case <-written:
				case <-time.After(spillPatience):
				}
			}
			if failed != nil {
				return OutputError{failed}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// awaitRoom returns where to read the next bytes. It waits while there is no room, as
// long as the consumer or the disk makes progress.
func (t *Tee) awaitRoom(scratch []byte) []byte {
	var waited *stall
	for {
		if buf := t.space(scratch); buf != nil {
			return buf
		}
		if waited == nil {
			waited = t.newStall()
		}
		select {
		case <-t.room:
		case <-time.After(stallLook):
			t.waitedForRoom(waited)
		}
	}
}

// space returns where to read the next bytes: into the ring, or into scratch if
// nobody needs them. It returns nil if there is no room.
func (t *Tee) space(scratch []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failure != nil || t.stopped || t.over():
		return scratch
	case t.ring.free() >= minRoom:
		return t.ring.space(maxRead)
	}
	return nil
}

// waitedForRoom detaches a consumer for which the stream has waited too long.
func (t *Tee) waitedForRoom(waited *stall) {
	t.mu.Lock()
	t.look(waited, stallLook)
	hurry := t.consumer.lag == behind && waited.idle >= StallLimit/2 // the consumer may be waiting for the collector
	if hurry {
		t.consumer.lag = hurried
	}
	if !t.opts.Recording && (waited.idle >= StallLimit || waited.all >= busyLimit) {
		why := ErrStalled
		if t.spill.written != nil {
			why = ErrDisk
		}
		t.detach(why)
	}
	t.mu.Unlock()
	if hurry && t.opts.Hurry != nil {
		t.opts.Hurry()
	}
}

// mayWrite reports whether the bytes that were read may be written.
func (t *Tee) mayWrite() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.passing = make(chan struct{})
	}
	return !t.stopped
}

// wrote says that what mayWrite allowed has happened.
func (t *Tee) wrote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.passing)
}

// push hands bytes to the consumer, which are in the ring already. If it starts spillOver, it returns a channel that
// is closed when spillOver ends.
func (t *Tee) push(p []byte, at time.Time) (written <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over():
		return nil
	case t.failure != nil:
		t.late.add(p)
		return nil
	}
	t.ring.to += int64(len(p))
	t.arrivals.add(t.ring.to, at)
	t.pace.measure(t.ring.to, at)
	notify(t.more)
	return t.startSpilling()
}

// Stop ends the copy after the bytes that it is writing, even if it is reading. It
// does not wait for an output that accepts nothing.
func (t *Tee) Stop() {
	select {
	case <-t.stop():
	case <-time.After(stopPatience):
	}
}

// stop returns a channel that is closed once the copy does nothing but read.
func (t *Tee) stop() (passed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	notify(t.room)
	return t.passing
}

// End says that nothing more comes for the consumer. whole says that the stream
// ended by itself.
func (t *Tee) End(whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over() {
		t.whole = whole
		close(t.ended)
	}
	notify(t.more)
}

// over reports whether nothing more comes.
func (t *Tee) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// notify wakes the reader of c, if it is not awake already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
