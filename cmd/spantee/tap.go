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

	// stallLimit is how long the stream waits for a mapper that does not
	// advance. On a machine with a load of ten a thread is off the processor for
	// 100 ms and more.
	stallLimit = 2 * time.Second

	// stallLook is how often somebody who waits for the mapper looks if it
	// advances. Time is counted in looks: while the process is stopped nobody
	// looks.
	stallLook = 250 * time.Millisecond
)

var errStalled = fmt.Errorf("the mapper made no progress for %v", stallLimit)

// A tap feeds the stream to a consumer in a goroutine of its own. What the
// consumer has not seen when the ring is full goes to a spill, and only when
// that is full too does the stream wait, for as long as the consumer advances.
// A consumer that panics or stalls is detached, and the stream goes on.
type tap struct {
	consumer consumer
	live     bool // not a recording, which has time and waits for its consumer

	mu       sync.Mutex
	ring     ring
	lent     bool   // the pass-through reads into the ring
	spill    *spill // what comes after the ring; nil if it has everything
	spillDir string
	spillMax int64 // 0 once nothing more can be spilled
	writing  bool  // the pass-through writes to the spill
	holding  bool  // the pass-through waits for room
	came     arrivals
	behind   bool  // the consumer has a backlog
	urgent   bool  // somebody waits for the consumer to work it off
	over     bool  // nothing more will come
	whole    bool  // it was the stream's end
	failure  error // why the consumer is detached
	passed   int64 // bytes that came after that
	lines    int64 // newlines in them

	more  chan struct{} // there is something for the consumer, or the stream is over
	room  chan struct{} // there is less for it
	ended chan struct{} // the stream is over
	done  chan struct{} // the consumer is finished

	ticker  *time.Timer // of the next tick
	ticking bool        // within a second
}

// A consumer may use the bytes that it is given until it returns.
type consumer interface {
	consume(p []byte, came time.Time)

	// tick is called first, and a second after something was consumed. It
	// returns when it is to be called again in any case, 0 for never.
	tick() time.Duration

	// backlog tells whether the consumer has time to wait for others: it is
	// behind, and the stream does not wait for it. It is called at any time.
	backlog(wait bool)

	// progress grows while the consumer does something. It is called at any time.
	progress() int64

	// finish is the end; whole tells whether it is the stream's, and everything
	// but lost was consumed.
	finish(whole bool, lost untraced)
}

// untraced is what a consumer has not seen.
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
		consumer: c, live: live, spillDir: spillDir, spillMax: spillMax,
		ring: ring{buf: make([]byte, ringSize)},
		more: make(chan struct{}, 1), room: make(chan struct{}, 1),
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

// space returns where the next bytes of the stream are to be read: the ring, or
// scratch while that has no room.
func (t *tap) space(scratch []byte) []byte {
	if t == nil {
		return scratch
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lent = t.failure == nil && t.spill == nil && t.ring.free() > 0
	if !t.lent {
		return scratch
	}
	return t.ring.space(len(scratch))
}

// wrote hands the consumer a piece of the stream that is out, and begins what
// space returned.
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
	for !t.keep(p) {
		t.hold()
	}
	if t.failure != nil {
		t.passed += int64(len(p))
		t.lines += int64(bytes.Count(p, newline))
		return
	}
	t.came.add(t.end(), now)
	if t.live && !t.behind && (t.spill != nil || t.ring.len() > len(t.ring.buf)/2) {
		t.behind = true
		t.consumer.backlog(true)
	}
	notify(t.more)
}

// end is the offset after all that the consumer has still to see.
func (t *tap) end() int64 {
	if t.spill != nil {
		return t.spill.to
	}
	return t.ring.to
}

// keep puts p aside for the consumer. It tells whether there was room, or nobody
// to keep it for. It is called with t.mu held.
func (t *tap) keep(p []byte) bool {
	switch {
	case t.failure != nil:
	case t.lent:
		t.ring.to += int64(len(p))
		t.lent = false
	case t.spill == nil && t.ring.free() >= len(p):
		t.ring.put(p)
	default:
		return t.spillOver(p)
	}
	return true
}

// spillOver puts p into the spill, if that has room. It is called with t.mu held,
// and lets go of it while it writes. After an error nothing more is spilled: the
// disk is full, perhaps, and others need it.
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

// hold waits until the consumer has made some room, or is detached because it
// does not advance. It is called, and returns, with t.mu held.
func (t *tap) hold() {
	t.holding, t.urgent = true, true
	defer func() { t.holding = false }()
	before, stalled := t.advanced(), time.Duration(0)
	for {
		t.mu.Unlock()
		looked := false
		select {
		case <-t.room:
		case <-time.After(stallLook):
			looked = true
		}
		t.mu.Lock()
		now := t.advanced()
		switch {
		case t.failure != nil || !looked:
			return
		case now != before:
			before, stalled = now, 0
			continue
		}
		stalled += stallLook
		if t.live && stalled >= stallLimit/2 {
			t.consumer.backlog(false) // perhaps it waits for somebody
		}
		if t.live && stalled >= stallLimit {
			t.detach(errStalled)
			return
		}
	}
}

// advanced grows while the consumer does. It is called with t.mu held.
func (t *tap) advanced() int64 { return t.ring.from + t.consumer.progress() }

// detach lets the stream go on without the consumer. It is called with t.mu held.
func (t *tap) detach(why error) {
	if t.failure == nil {
		t.failure = why
	}
	notify(t.more)
	notify(t.room)
}

// close tells that nothing more will come; whole, that it is the stream's end.
// done is closed once the consumer has seen the rest.
func (t *tap) close(whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.whole, t.urgent = true, whole, true
		close(t.ended)
	}
	notify(t.more)
}

// wait waits for the consumer to finish, for as long as it advances: it returns
// false when it has not for patience.
func (t *tap) wait(patience time.Duration) bool {
	before, stalled := int64(-1), time.Duration(0)
	for {
		t.mu.Lock()
		now := t.advanced()
		t.mu.Unlock()
		switch {
		case now != before:
			before, stalled = now, 0
		case stalled >= patience:
			return false
		}
		look := min(stallLook, patience-stalled)
		select {
		case <-t.done:
			return true
		case <-time.After(look):
			stalled += look
		}
	}
}

// err returns why the consumer was detached, nil if it was not.
func (t *tap) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// lost is what the consumer has not seen. It reads the spill, and takes as long
// as the disk does.
func (t *tap) lost() untraced {
	t.mu.Lock()
	u := untraced{bytes: t.passed + t.end() - t.ring.from, lines: t.lines}
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
