package main

import (
	"bytes"
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
)

// A tap feeds the stream to a consumer in a separate goroutine. When the ring is
// full, what the consumer has not seen goes to a spill. Only when the spill is full
// too does the stream wait, as long as the consumer makes progress. A consumer that
// panics or stalls is detached, and the stream goes on.
type tap struct {
	consumer consumer
	live     bool // not a recording, which can wait for its consumer

	cpu      func() time.Duration               // processor time of the process
	newSpill func(offset int64) (*spill, error) // for the stream from offset on
	handOver func()                             // lets another goroutine copy the stream

	mu       sync.Mutex
	ring     ring
	lent     bool   // the pass-through reads into the ring
	keeping  []byte // the piece that was written to stdout, and is not yet in the ring or the spill
	spill    *spill // bytes that do not fit into the ring; nil if there are none
	spillMax int64  // 0 once nothing more can be spilled
	writing  *stall // of a write to the spill, nil between two writes
	hung     bool   // the disk did not answer a write
	came     arrivals
	behind   bool // the consumer has a backlog
	urgent   bool // somebody is waiting for the consumer to catch up
	pour     pour
	over     bool  // nothing more will come
	whole    bool  // the stream ended by itself
	failure  error // why the consumer is detached
	lines    int64 // newlines that were not kept for it
	total    int64 // bytes of the stream

	more  chan struct{} // there is something for the consumer, or the stream is over
	room  chan struct{} // there is room in the ring or in the spill, or no consumer any more
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
		consumer: c, live: live, cpu: cpuTime, spillMax: spillMax,
		newSpill: func(offset int64) (*spill, error) { return newSpill(spillDir, spillMax, offset) },
		ring:     ring{buf: make([]byte, ringSize)},
		more:     make(chan struct{}, 1), room: make(chan struct{}, 1),
		ended: make(chan struct{}), done: make(chan struct{}),
		ticker: time.NewTimer(time.Hour),
	}
	t.ticker.Stop()
	if !live || spillDir == "" || spillMax < pieceSize {
		t.spillMax = 0
	}
	go t.run()
	return t
}

// space returns where to read the next bytes of the stream: into the ring, or into
// scratch if the ring has no room or if there is no consumer any more. If there is no
// spill and can be none, the stream waits until the ring has room.
func (t *tap) space(scratch []byte) []byte {
	if t == nil {
		return scratch
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var wait *stall
	for t.failure == nil && !t.over && t.spill == nil {
		if t.lent = t.ring.free() > 0; t.lent {
			return t.ring.space(len(scratch))
		}
		if t.spillMax > 0 {
			break
		}
		wait = t.waitForRoom(wait)
	}
	t.lent = false
	return scratch
}

// wrote hands the consumer a piece of the stream that has been written to stdout. p
// is the beginning of the slice that space returned. It returns false if the disk hung
// and another goroutine copies the stream by now.
func (t *tap) wrote(p []byte) bool {
	if t == nil {
		return true
	}
	came := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return true
	}
	t.total += int64(len(p))
	switch {
	case t.failure != nil:
		t.lines += int64(bytes.Count(p, newline))
	case t.lent:
		t.ring.to += int64(len(p))
		t.arrived(came)
	default:
		return t.keep(p, came)
	}
	return true
}

// keep stores p for the consumer. If there is no room, the stream waits until the
// consumer has made some, or until it is detached. keep returns what wrote returns.
// It is called with t.mu held, and releases it while it waits.
func (t *tap) keep(p []byte, came time.Time) bool {
	t.keeping = p
	var wait *stall
	for !t.store(p) {
		if t.hung {
			return false
		}
		if t.failure != nil {
			t.notKept()
			return true
		}
		wait = t.waitForRoom(wait)
	}
	t.keeping = nil
	t.arrived(came)
	return true
}

// notKept counts the piece that there is no consumer for. It is called with t.mu held.
func (t *tap) notKept() {
	t.lines += int64(bytes.Count(t.keeping, newline))
	t.keeping = nil
	notify(t.more)
}

// store puts p into the ring or the spill, and reports whether it could. It is called
// with t.mu held, and releases it while it writes.
func (t *tap) store(p []byte) bool {
	switch {
	case t.failure != nil:
		return false
	case t.spill == nil && t.ring.free() >= len(p):
		t.ring.put(p)
		return true
	case t.spillMax == 0, t.spill != nil && t.spill.room() < int64(len(p)):
		return false
	}
	return t.spillOver(p)
}

// waitForRoom waits until there may be room. It detaches a consumer that makes no
// progress. wait is what it returned before, if the stream is still waiting for the
// same. It is called with t.mu held, and releases it meanwhile.
func (t *tap) waitForRoom(wait *stall) *stall {
	if wait == nil {
		wait = t.newStall()
	}
	t.urgent = true
	t.mu.Unlock()
	late := false
	select {
	case <-t.room:
	case <-time.After(stallLook):
		late = true
	}
	t.mu.Lock()
	if late && t.lookAt(wait) {
		t.detach(errStalled)
	}
	return wait
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

// spillOver writes p to the spill, and reports whether it could. After an error, or if
// the disk hung, nothing more is spilled: the disk may be full, and other programs
// need it. It is called with t.mu held, and releases it meanwhile.
func (t *tap) spillOver(p []byte) bool {
	s, offset := t.spill, t.ring.to
	t.writing = t.newStall()
	watch := t.watchWrite(t.writing, stallLook)
	t.mu.Unlock()
	var err error
	if s == nil {
		s, err = t.newSpill(offset)
	}
	if err == nil {
		err = s.write(p)
	}
	t.mu.Lock()
	watch.Stop()
	switch {
	case t.hung:
		if s != nil && s != t.spill {
			t.mu.Unlock()
			_ = s.f.Close() // without t.mu, because the disk may hang again
			t.mu.Lock()
		}
		return false
	case err != nil:
		t.spillMax = 0
		notify(t.more)
	default:
		s.to += int64(len(p))
	}
	t.writing = nil
	t.spill = s // an empty one is closed by the consumer
	return err == nil
}

// close says that nothing more will come; whole says that the stream ended by
// itself. done is closed once the consumer has seen the rest.
func (t *tap) close(whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.whole, t.urgent = true, whole, true
		close(t.ended)
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
	u := untraced{bytes: t.total - t.ring.from, lines: t.lines + int64(bytes.Count(t.keeping, newline))}
	for rest := t.ring; rest.len() > 0; {
		p := rest.head(rest.len())
		u.lines += int64(bytes.Count(p, newline))
		rest.from += int64(len(p))
	}
	var spilled spill
	if s := t.spill; s != nil { // a write may be changing what is reserved
		spilled = spill{f: s.f, max: s.max, origin: s.origin, from: s.from, to: s.to}
	}
	t.mu.Unlock()
	u.lines += spilled.lines()
	return u
}
