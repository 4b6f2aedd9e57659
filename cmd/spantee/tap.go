package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// ringSize is how much of the stream is in memory for the mapper.
	ringSize = 2 << 20

	// maxLag is how much of it may wait before the mapper counts as behind.
	maxLag = ringSize / 8

	// stallLimit is how long the stream waits for a mapper that makes no progress.
	// On a machine with a load of ten, a thread may be off the processor for over
	// 100 ms.
	stallLimit = 2 * time.Second

	// busyLimit is the limit for a mapper that uses the processor meanwhile.
	busyLimit = 20 * time.Second

	// stallLook is how often somebody who waits for the mapper checks its progress.
	// Time is counted in checks, because a stopped process does not check.
	stallLook = 250 * time.Millisecond
)

var errStalled = errors.New("the mapper made no progress")

// A tap feeds the stream to a consumer in a separate goroutine. When the ring is
// full, what the consumer has not seen goes to a spill. Only when the spill is full
// too does the stream wait, as long as the consumer makes progress. A consumer that
// panics or stalls is detached, and the stream goes on.
type tap struct {
	consumer consumer
	live     bool // not a recording, which can wait for its consumer

	keeping sync.Once            // starts the keeper
	kept    chan struct{}        // closed when the keeper has ended
	cpu     func() time.Duration // processor time of the process

	mu       sync.Mutex
	ring     ring
	lent     bool   // the pass-through reads into the ring
	pending  int    // pieces waiting for the keeper
	spill    *spill // bytes that do not fit into the ring; nil if there are none
	spillDir string
	spillMax int64 // 0 once nothing more can be spilled
	writing  bool  // the keeper writes to the spill
	came     arrivals
	behind   bool // the consumer has a backlog
	urgent   bool // somebody is waiting for the consumer to catch up
	pour     pour
	over     bool  // nothing more will come
	whole    bool  // the stream ended by itself
	failure  error // why the consumer is detached
	lines    int64 // newlines since then
	total    int64 // bytes of the stream

	free  chan []byte   // buffers to read into while the ring has no room
	full  chan piece    // such buffers, for the keeper
	more  chan struct{} // there is something for the consumer, or the stream is over
	room  chan struct{} // there is room in the ring, or in the spill
	ended chan struct{} // the stream is over
	done  chan struct{} // the consumer is finished

	ticker  *time.Timer // of the next tick
	ticking bool        // a tick is due within a second
}

// A consumer must not retain the bytes that it is given.
type consumer interface {
	consume(p []byte, came time.Time)

	// tick is called at the beginning, and a second after bytes were consumed. It
	// returns how long until it must be called in any case, 0 for never.
	tick() time.Duration

	// backlog reports whether the consumer may wait for others, because it is
	// behind and the stream is not waiting for it. It may be called at any time.
	backlog(wait bool)

	// progress returns a number that grows while the consumer makes progress. It
	// may be called at any time.
	progress() int64

	// finish ends the consumer's work. whole says whether the stream ended by
	// itself and everything but lost was consumed.
	finish(whole bool, lost untraced)
}

// untraced counts what a consumer has not seen.
type untraced struct{ bytes, lines int64 }

func (u untraced) String() string {
	if u.bytes == 0 {
		return ""
	}
	return fmt.Sprintf("; %s (%s) untraced", humanize.IBytes(uint64(u.bytes)), count(int(u.lines), "line"))
}

// newTap returns the tap of a live stream, which spills up to spillMax bytes to
// a file in spillDir, or of a recording.
func newTap(c consumer, live bool, spillDir string, spillMax int64) *tap {
	t := &tap{
		consumer: c, live: live, cpu: cpuTime, spillDir: spillDir, spillMax: spillMax,
		ring: ring{buf: make([]byte, ringSize)},
		free: make(chan []byte, buffers), full: make(chan piece, buffers),
		more: make(chan struct{}, 1), room: make(chan struct{}, 1),
		ended: make(chan struct{}), done: make(chan struct{}), kept: make(chan struct{}),
		ticker: time.NewTimer(time.Hour),
	}
	t.ticker.Stop()
	if !live || spillDir == "" || spillMax < pieceSize {
		t.spillMax = 0
	}
	go t.run()
	return t
}

// A piece is a piece of the stream, and when it came.
type piece struct {
	p    []byte
	came time.Time
}

// buffers is how many pieces may be waiting for the keeper.
const buffers = 4

// space returns where to read the next bytes of the stream: into the ring, into a
// buffer for the keeper if the ring is full, or into scratch if there is no
// consumer any more. If there is no room at all, the stream waits until the consumer
// or the disk has made some, or until the consumer is detached because neither does.
func (t *tap) space(scratch []byte) []byte {
	if t == nil {
		return scratch
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var stalled *stall
	for t.failure == nil && !t.over {
		if t.lent = t.pending == 0 && t.spill == nil && t.ring.free() > 0; t.lent {
			return t.ring.space(len(scratch))
		}
		if stalled == nil {
			stalled = &stall{moved: t.advanced(), cpu: t.cpu()}
		}
		b, late := t.buffer()
		if b != nil {
			return b
		}
		if !late {
			continue
		}
		stalled.look(stallLook, t.advanced(), t.cpu())
		if t.live && stalled.idle >= stallLimit/2 {
			t.consumer.backlog(false) // the consumer may be waiting for the exporter
		}
		if t.live && (stalled.idle >= stallLimit || stalled.all >= busyLimit) {
			t.detach(errStalled)
		}
	}
	t.lent = false
	return scratch
}

// buffer returns a buffer for the keeper. It returns nil if nothing can be spilled and
// the ring may have room, or if there was no buffer for as long as stallLook: then
// late is true. It is called, and returns, with t.mu held.
func (t *tap) buffer() (b []byte, late bool) {
	var room chan struct{} // the keeper waits for room itself
	if t.spillMax == 0 && t.spill == nil && t.pending == 0 {
		room = t.room
	} else {
		t.keeping.Do(t.startKeeper)
	}
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case b := <-t.free:
		return b, false
	case <-room:
		return nil, false
	case <-time.After(stallLook):
		return nil, true
	}
}

func (t *tap) startKeeper() {
	for range buffers {
		t.free <- make([]byte, pieceSize)
	}
	go t.keepAll()
}

// wrote hands the consumer a piece of the stream that has been written to stdout. p
// is the beginning of the slice that space returned.
func (t *tap) wrote(p []byte) {
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.total += int64(len(p))
	switch {
	case t.failure != nil:
		t.lines += int64(bytes.Count(p, newline))
	case t.lent:
		t.ring.to += int64(len(p))
		t.arrived(now)
	default:
		t.pending++
		t.full <- piece{p, now}
	}
}

// keepAll is the keeper: it stores what did not fit into the ring, while the stream
// goes on.
func (t *tap) keepAll() {
	defer close(t.kept)
	for piece := range t.full {
		t.mu.Lock()
		for !t.keep(piece.p) {
			t.urgent = true
			t.mu.Unlock()
			<-t.room
			t.mu.Lock()
		}
		t.pending--
		if t.failure == nil {
			t.arrived(piece.came)
		} else {
			t.lines += int64(bytes.Count(piece.p, newline))
		}
		t.mu.Unlock()
		t.free <- piece.p[:pieceSize]
	}
}

// arrived tells the consumer about bytes that came at an instant. It is called with
// t.mu held.
func (t *tap) arrived(came time.Time) {
	t.came.add(t.end(), came)
	if t.live && !t.behind && (t.spill != nil || t.ring.len() > maxLag) {
		t.behind, t.pour = true, pour{true, came, t.total}
		t.consumer.backlog(true)
	}
	notify(t.more)
}

// end returns the offset of the end of everything the consumer must still see.
func (t *tap) end() int64 {
	if t.spill != nil {
		return t.spill.to
	}
	return t.ring.to
}

// keep stores p for the consumer. It returns false if there is no room, and true if
// there is no consumer to keep it for. It is called with t.mu held.
func (t *tap) keep(p []byte) bool {
	switch {
	case t.failure != nil:
	case t.spill == nil && t.ring.free() >= len(p):
		t.ring.put(p)
	default:
		return t.spillOver(p)
	}
	return true
}

// spillOver writes p to the spill if it has room. It is called with t.mu held, and
// releases it while it writes. After an error it spills nothing more: the disk may
// be full, and other programs need it.
func (t *tap) spillOver(p []byte) bool {
	s, offset := t.spill, t.ring.to
	if t.spillMax == 0 || s != nil && s.room() < int64(len(p)) {
		return false
	}
	t.writing = true
	t.mu.Unlock()
	var err error
	if s == nil {
		s, err = newSpill(t.spillDir, t.spillMax, offset)
	}
	if err == nil {
		err = s.write(p)
	}
	t.mu.Lock()
	t.writing = false
	if err != nil {
		t.spillMax = 0
		if s != nil && s.empty() {
			t.spill = nil
			s.f.Close()
		}
		return false
	}
	t.spill = s
	s.to += int64(len(p))
	return true
}

// advanced returns a number that grows while the consumer or the keeper makes
// progress. It is called with t.mu held.
func (t *tap) advanced() int64 { return t.ring.from + t.end() + t.consumer.progress() }

// detach lets the stream go on without the consumer. It is called with t.mu held.
func (t *tap) detach(why error) {
	if t.failure == nil {
		t.failure = why
	}
	notify(t.more)
	notify(t.room)
}

// close says that nothing more will come; whole says that the stream ended by
// itself. done is closed once the consumer has seen the rest.
func (t *tap) close(whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.whole, t.urgent = true, whole, true
		close(t.ended)
		close(t.full)
	}
	notify(t.more)
}

// wait waits for the consumer to finish. It returns false if the consumer makes no
// progress for patience.
func (t *tap) wait(patience time.Duration) bool {
	stalled := stall{moved: -1, cpu: t.cpu()}
	for look := time.Duration(0); ; look = min(stallLook, patience-stalled.idle) {
		select {
		case <-t.done:
			return true
		case <-time.After(look):
		}
		t.mu.Lock()
		first := stalled.moved < 0
		stalled.look(look, t.advanced(), t.cpu())
		t.mu.Unlock()
		if !first && (stalled.idle >= patience || stalled.all >= max(patience, busyLimit)) {
			return false
		}
	}
}

// err returns why the consumer was detached, nil if it was not.
func (t *tap) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// lost returns what the consumer has not seen. It reads the spill, so it takes as
// long as the disk does.
func (t *tap) lost() untraced {
	t.mu.Lock()
	u := untraced{bytes: t.total - t.ring.from, lines: t.lines}
	for rest := t.ring; rest.len() > 0; {
		p := rest.head(rest.len())
		u.lines += int64(bytes.Count(p, newline))
		rest.from += int64(len(p))
	}
	var spilled spill
	if t.spill != nil {
		spilled = *t.spill
	}
	t.mu.Unlock()
	u.lines += spilled.lines()
	return u
}
