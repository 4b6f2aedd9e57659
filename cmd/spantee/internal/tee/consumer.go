package tee

import (
	"fmt"
	"io"
	"time"
)

// A Piece is a part of the stream for the consumer. It has no bytes if none came
// before the deadline.
type Piece struct {
	Bytes   []byte
	Arrived time.Time // when they were written to the output
	Behind  bool      // the consumer may wait, such as for a collector: the stream does not wait for the consumer
}

// Next reads the next bytes of the stream into buf. It returns at the deadline if
// none come; a zero deadline is none. Its error is io.EOF at the end of the stream,
// and once the consumer is detached.
func (t *Tee) Next(buf []byte, deadline time.Time) (Piece, error) {
	for {
		t.rest()
		p, err := t.fromRing(buf)
		if err == nil && len(p.Bytes) == 0 {
			p, err = t.fromSpill(buf)
		}
		if err != nil || len(p.Bytes) > 0 || !t.awaitMore(deadline) {
			return p, err
		}
	}
}

// A pace says whether the stream comes faster than any consumer can work.
type pace struct {
	at   time.Time // when it was measured
	to   int64     // offset of the end of the stream then
	fast bool
}

const (
	// restTime is how long the consumer rests before the pace is measured again.
	restTime = 10 * time.Millisecond

	// restSize is how much must have come by then: 200 MB a second.
	restSize = 2 << 20
)

// rest waits while the stream arrives fast and there is room for it. On a machine with
// two processors, a consumer that works meanwhile takes one of them from the copy or
// from the other programs in the pipe.
func (t *Tee) rest() {
	for t.mayRest() {
		select {
		case <-t.ended:
		case <-time.After(restTime):
		}
	}
}

func (t *Tee) mayRest() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spill.f == nil || !t.spill.hasRoom(t.spilledSize()) || t.over() || t.failure != nil {
		return false
	}
	if now := time.Now(); now.Sub(t.pace.at) >= restTime {
		t.pace = pace{now, t.ring.to, t.ring.to-t.pace.to >= restSize}
	}
	return t.pace.fast
}

// awaitMore waits for more of the stream. It returns false at the deadline.
func (t *Tee) awaitMore(deadline time.Time) bool {
	if deadline.IsZero() {
		<-t.more
		return true
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-t.more:
		return true
	case <-timer.C:
		return false
	}
}

// fromRing returns the next piece if it is in the ring.
func (t *Tee) fromRing(buf []byte) (Piece, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.consumer
	c.taken = Lost{} // the consumer is done with the last piece
	if t.failure != nil {
		return Piece{}, io.EOF
	}
	waiting := t.ring.to - c.next
	switch {
	case waiting == 0:
		c.lag = keepingUp
	case waiting > maxLag && c.lag == keepingUp && !t.opts.Recording:
		c.lag = behind
	}
	switch {
	case waiting == 0 && t.over():
		return Piece{}, io.EOF
	case c.next < t.ring.from || waiting == 0:
		return Piece{}, nil
	}
	n := t.ring.take(buf[:min(int64(len(buf)), t.arrivals[0].to-c.next)])
	return t.taken(buf[:n]), nil
}

// fromSpill returns the next piece if it is in the spill. It closes a spill that is
// empty, to free its disk space.
func (t *Tee) fromSpill(buf []byte) (Piece, error) {
	f, at, n := t.spilled(len(buf))
	switch {
	case f == nil:
		return Piece{}, nil
	case n == 0:
		_ = f.Close()
		return Piece{}, nil
	}
	n, err := f.ReadAt(buf[:n], at)
	if n == 0 {
		t.Detach(fmt.Errorf("cannot read back the spilled input: %w", err))
		return Piece{}, io.EOF
	}
	return t.read(buf[:n]), nil
}

// spilled returns where up to size of the next bytes are in the spill: n bytes at an
// offset of f. If n is 0, the spill has no bytes, and the caller must close f, if
// there is one.
func (t *Tee) spilled(size int) (f spillFile, at int64, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if spilled := t.spilledSize(); spilled > 0 {
		next := t.consumer.next
		at, n = t.spill.at(next, int(min(int64(size), spilled, t.arrivals[0].to-next)))
		return t.spill.f, at, n
	}
	if t.spill.written == nil {
		f, t.spill.f = t.spill.f, nil
	}
	return f, 0, 0
}

// read records bytes that were read from the spill.
func (t *Tee) read(p []byte) Piece {
	t.mu.Lock()
	defer t.mu.Unlock()
	piece := t.taken(p)
	t.spill.lines -= t.consumer.taken.Lines
	return piece
}

// taken records that the consumer works on p. It is called with mu held.
func (t *Tee) taken(p []byte) Piece {
	c := &t.consumer
	piece := Piece{Bytes: p, Arrived: t.arrivals[0].at, Behind: c.lag == behind}
	c.next += int64(len(p))
	c.taken.add(p)
	t.arrivals.drop(c.next)
	t.madeRoom()
	return piece
}

// madeRoom wakes a copy that waits for room once half of the ring is free, and
// spillOver once the spill has room. It is called with mu held.
func (t *Tee) madeRoom() {
	if t.ring.free() >= ringSize/2 {
		notify(t.room)
	}
	t.startSpilling()
}

// Detach lets the stream go on without the consumer.
func (t *Tee) Detach(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detach(why)
}

// detach is Detach for those who hold mu.
func (t *Tee) detach(why error) {
	if t.failure == nil {
		t.failure = why
	}
	notify(t.room)
	notify(t.more)
}

// Err returns why the consumer was detached, nil if it was not.
func (t *Tee) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// Lost returns what the consumer has not seen.
func (t *Tee) Lost() Lost {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost, taken := t.late, t.consumer.taken
	lost.Bytes += taken.Bytes + t.spilledSize()
	lost.Lines += taken.Lines + t.spill.lines
	for rest := t.ring; rest.len() > 0; {
		p := rest.head(rest.len())
		lost.add(p)
		rest.from += int64(len(p))
	}
	return lost
}

// Ended waits for the end of the stream, also after the consumer was detached. It
// reports whether the stream ended by itself and the consumer has seen all of it, and
// returns what the consumer has not seen. The consumer must not call Next any more.
func (t *Tee) Ended() (whole bool, lost Lost) {
	<-t.ended
	t.closeSpill(true)
	if t.Err() != nil {
		return false, t.Lost()
	}
	return t.whole, lost
}
