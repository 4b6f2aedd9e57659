package tee

import (
	"fmt"
	"io"
	"time"
)

// A Chunk is a part of the stream for the consumer. It has no bytes if none came
// before the deadline.
type Chunk struct {
	Bytes   []byte
	Arrived time.Time // when they were read
	Behind  bool      // the consumer may wait, such as for a collector: the stream does not wait for the consumer
}

// Next reads the next bytes of the stream into buf. It returns at the deadline if
// none come. Its error is io.EOF at the end of the stream, and once the consumer is
// detached.
func (t *Tee) Next(buf []byte, deadline time.Time) (Chunk, error) {
	t.doneWithLast()
	for {
		t.rest()
		p, err := t.next(buf)
		if err != nil || len(p.Bytes) > 0 {
			return p, err
		}
		select {
		case <-t.more:
		case <-time.After(time.Until(deadline)):
			return Chunk{}, nil
		}
	}
}

// doneWithLast records that the consumer is done with the last chunk. The first bytes wait
// for that, and must not wait for the consumer's rest, too.
func (t *Tee) doneWithLast() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.consumer.taken = Lost{}
	if t.consumer.next > 0 {
		t.endFirst()
	}
}

// A pace says whether the stream comes faster than any consumer can work.
type pace struct {
	at   time.Time // when it was measured
	to   int64     // offset of the end of the stream then
	fast bool
}

const (
	// restTime is how long the pace is measured, at least.
	restTime = 2 * time.Millisecond

	// restSize is how much must come in that time: 200 MB a second.
	restSize = 400 << 10
)

// measure is called when the stream has come to an offset.
func (p *pace) measure(to int64, now time.Time) {
	if p.at.IsZero() {
		p.at = now
	}
	if d := now.Sub(p.at); d >= restTime {
		*p = pace{now, to, float64(to-p.to)/restSize >= float64(d)/float64(restTime)}
	}
}

const (
	// gatherTime is how long the consumer lets a few lines gather, after the first. Waking
	// it for each line would double the processor time of 1,000 lines a second.
	gatherTime = 50 * time.Millisecond

	// gatherSize is how much it lets gather.
	gatherSize = 64 << 10
)

// rest waits while the consumer need not work.
func (t *Tee) rest() {
	for wait := t.restFor(time.Now()); wait > 0; wait = t.restFor(time.Now()) {
		select {
		case <-t.ended:
		case <-time.After(wait):
		}
	}
}

// restFor returns how long the consumer must rest: while the stream arrives fast and
// there is room for it, because on a machine with two processors the consumer would
// take one of them from the copy or from the other programs in the pipe; and while
// lines gather.
func (t *Tee) restFor(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.consumer
	switch {
	case t.over() || t.failure != nil:
		return 0
	case t.pace.fast && now.Sub(t.pace.at) < 3*restTime && t.spill.hasRoom(t.spilledSize()):
		return restTime
	case c.next >= c.gathered && t.ring.to-c.next < gatherSize && now.Sub(c.began) < gatherTime:
		return gatherTime - now.Sub(c.began)
	}
	return 0
}

// next returns the next chunk, one without bytes if none has come. It does not hold mu while
// it reads from the spill.
func (t *Tee) next(buf []byte) (Chunk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.consumer
	if t.failure != nil {
		return Chunk{}, io.EOF
	}
	waiting := t.ring.to - c.next
	switch {
	case waiting == 0:
		c.lag = keepingUp
	case waiting > maxLag && c.lag == keepingUp && !t.opts.Recording:
		c.lag = behind
	}
	spilled := t.spilledSize()
	if spilled == 0 {
		t.closeSpill() // frees its disk space
	}
	switch {
	case waiting == 0 && t.over():
		return Chunk{}, io.EOF
	case waiting == 0:
		return Chunk{}, nil
	}
	size := min(int64(len(buf)), t.arrivals[0].to-c.next)
	if spilled == 0 {
		return t.took(buf[:t.ring.take(buf[:size])]), nil
	}
	f := t.spill.f
	at, n := t.spill.at(c.next, int(min(size, spilled)))
	t.mu.Unlock()
	n, err := f.ReadAt(buf[:n], at)
	t.mu.Lock()
	if n == 0 {
		t.detach(fmt.Errorf("cannot read back the spilled input: %w", err))
		return Chunk{}, io.EOF
	}
	chunk := t.took(buf[:n])
	t.spill.lines -= c.taken.Lines
	return chunk, nil
}

// took records that the consumer works on p. It is called with mu held.
func (t *Tee) took(p []byte) Chunk {
	c := &t.consumer
	chunk := Chunk{Bytes: p, Arrived: t.arrivals[0].at, Behind: c.lag == behind}
	if now := time.Now(); now.Sub(c.began) >= gatherTime {
		c.began, c.gathered = now, t.ring.to
	}
	c.next += int64(len(p))
	c.taken.add(p)
	t.arrivals.drop(c.next)
	t.madeRoom()
	return chunk
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
	t.closeSpill()
	t.endFirst()
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
	return t.lost()
}

func (t *Tee) lost() Lost {
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
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spill.over = true
	t.closeSpill()
	if t.failure != nil {
		return false, t.lost()
	}
	return t.whole, Lost{}
}
