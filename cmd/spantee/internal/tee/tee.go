// Package tee copies a stream and hands the same bytes to a consumer that may be
// slower than the stream.
//
//	in ──Read──► ring, 2 MiB ──Write──► out     Copy, one goroutine
//	               │
//	               ▼
//	              Next                          the consumer's goroutine
package tee

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// maxRead is how much is read at once: more than a pipe holds by default.
	maxRead = 256 << 10

	// minRoom is how much room there must be for a read, so that a slow consumer does
	// not cut the stream into small chunks.
	minRoom = 64 << 10

	// stopPatience is how long Stop waits for a write to the output.
	stopPatience = 100 * time.Millisecond
)

// A Tee copies a stream from a reader to a writer. The same bytes go into a ring, from
// which the consumer reads them. When the ring is full, the stream waits as long as the
// consumer makes progress. Without progress, the consumer is detached and the stream goes
// on.
//
// Two goroutines use a Tee, besides whoever ends it: one calls Copy, and the consumer
// calls Next. No I/O is done while mu is held.
type Tee struct {
	in   io.Reader
	out  io.Writer
	opts Options

	mu       sync.Mutex
	ring     ring
	arrivals arrivals
	reading  int   // size of the chunk that the consumer works on; it is still in the ring
	batch    batch // of lines that the consumer reads together
	whole    bool  // the stream ended by itself
	failure  error // why the consumer is detached
	late     Lost  // what came after the consumer was detached

	writing chan struct{} // full while Copy writes, and for good after Stop
	stopped chan struct{} // closed by Stop
	stop    func()        // closes it
	room    chan struct{} // wakes Copy: there is room, or no consumer any more
	more    chan struct{} // wakes the consumer: there are bytes, or there will be none
	ended   chan struct{} // closed when nothing more comes
}

// Options configure a Tee.
type Options struct {
	Waits    bool         // the stream waits for the consumer, however long it takes
	Progress func() int64 // grows while the consumer works on a single chunk; may be nil
}

// New returns a Tee from in to out.
func New(in io.Reader, out io.Writer, opts Options) *Tee {
	t := &Tee{
		in: in, out: out, opts: opts, ring: ring{buf: make([]byte, ringSize)},
		writing: make(chan struct{}, 1), stopped: make(chan struct{}),
		room: make(chan struct{}, 1), more: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	t.stop = sync.OnceFunc(func() { close(t.stopped) })
	return t
}

// An OutputError is an error of writing to the output. All other errors of Copy are
// errors of reading.
type OutputError struct{ Err error }

func (e OutputError) Error() string { return e.Err.Error() }
func (e OutputError) Unwrap() error { return e.Err }

// Copy copies until the input ends, or until Stop. Bytes are written as they come,
// before the consumer sees them.
func (t *Tee) Copy() error {
	scratch := make([]byte, minRoom) // once there is no consumer
	for {
		buf := t.awaitRoom(scratch)
		if buf == nil {
			return nil
		}
		n, err := t.in.Read(buf)
		if n > 0 {
			select {
			case t.writing <- struct{}{}:
			case <-t.stopped:
				return nil
			}
			_, failed := t.out.Write(buf[:n])
			if failed == nil {
				t.push(buf[:n], time.Now())
			}
			<-t.writing
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

// awaitRoom returns where to read the next bytes, nil after Stop. It waits while there is no
// room, as long as the consumer makes progress.
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
		case <-t.stopped:
			return nil
		case <-time.After(stallCheck):
			if waited.check(stallCheck); !t.opts.Waits && waited.exceeds(StallLimit) {
				t.Detach(ErrStalled)
			}
		}
	}
}

// space returns where to read the next bytes: into the ring, or into scratch if there is no
// consumer. It returns nil if there is no room.
func (t *Tee) space(scratch []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failure != nil || isClosed(t.ended):
		return scratch
	case t.ring.free() >= minRoom:
		return t.ring.space(maxRead)
	}
	return nil
}

// push hands bytes to the consumer, which are in the ring already.
func (t *Tee) push(p []byte, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case isClosed(t.ended):
	case t.failure != nil:
		t.late.add(p)
	default:
		t.ring.to += int64(len(p))
		t.arrivals.add(t.ring.to, at)
		notify(t.more)
	}
}

// Stop ends the copy after the bytes that it is writing, even if it is reading. It
// does not wait for an output that accepts nothing.
func (t *Tee) Stop() {
	t.stop()
	select {
	case t.writing <- struct{}{}:
	case <-time.After(stopPatience):
	}
}

// Stopped reports whether the copy was stopped.
func (t *Tee) Stopped() bool { return isClosed(t.stopped) }

// End says that nothing more comes for the consumer. whole says that the stream
// ended by itself.
func (t *Tee) End(whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isClosed(t.ended) {
		t.whole = whole
		close(t.ended)
	}
	notify(t.more)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
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
