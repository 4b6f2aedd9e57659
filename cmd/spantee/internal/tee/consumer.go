package tee

import (
	"bytes"
	"io"
	"time"
)

// maxChunk is how much Next returns at most.
const maxChunk = 64 << 10

// Next returns the next bytes of the stream, and when they were read. They are valid until the
// next call, and must not be changed. Next returns none at the deadline if none come. Its
// error is io.EOF at the end of the stream, and once the consumer is detached.
func (t *Tee) Next(deadline time.Time) (p []byte, arrived time.Time, err error) {
	t.release()
	for {
		t.gather()
		p, arrived, err = t.next()
		if err != nil || len(p) > 0 {
			return p, arrived, err
		}
		select {
		case <-t.more:
		case <-time.After(time.Until(deadline)):
			return nil, time.Time{}, nil
		}
	}
}

// release removes the bytes that Next returned last from the ring.
func (t *Tee) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring.from += int64(t.reading)
	t.reading = 0
	t.arrivals.drop(t.ring.from)
	if t.ring.free() >= ringSize/2 {
		notify(t.room)
	}
}

// A batch is the lines that had gathered when the consumer began to read them.
type batch struct {
	began time.Time
	end   int64 // offset in the stream
}

const (
	// gatherTime is how long the consumer lets a few lines gather, after the first. Waking
	// it for each line would double the processor time of 1,000 lines a second.
	gatherTime = 50 * time.Millisecond

	// gatherSize is how much it lets gather.
	gatherSize = 64 << 10
)

// gather waits while lines gather.
func (t *Tee) gather() {
	for wait := t.gatherFor(time.Now()); wait > 0; wait = t.gatherFor(time.Now()) {
		select {
		case <-t.ended:
		case <-time.After(wait):
		}
	}
}

func (t *Tee) gatherFor(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(t.ended) || t.failure != nil || t.ring.from < t.batch.end || t.ring.len() >= gatherSize {
		return 0
	}
	return t.batch.began.Add(gatherTime).Sub(now)
}

// next returns the next bytes, none if none have come.
func (t *Tee) next() (p []byte, arrived time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil || t.ring.len() == 0 && isClosed(t.ended) {
		return nil, time.Time{}, io.EOF
	}
	if t.ring.len() == 0 {
		return nil, time.Time{}, nil
	}
	if now := time.Now(); now.Sub(t.batch.began) >= gatherTime {
		t.batch = batch{now, t.ring.to}
	}
	first := t.arrivals[0]
	p = t.ring.head(int(min(maxChunk, first.to-t.ring.from)))
	t.reading = len(p)
	return p, first.at, nil
}

// Detach lets the stream go on without the consumer.
func (t *Tee) Detach(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// Lost counts the part of the stream that the consumer has not seen.
type Lost struct{ Bytes, Lines int64 }

func (l *Lost) add(p []byte) {
	l.Bytes += int64(len(p))
	l.Lines += int64(bytes.Count(p, []byte{'\n'}))
}

// Lost returns what the consumer has not seen. The chunk that it works on counts.
func (t *Tee) Lost() Lost {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost := t.late
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
	if t.Err() != nil {
		return false, t.Lost()
	}
	return t.whole, Lost{}
}
