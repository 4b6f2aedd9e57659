package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

func (t *tap) run() {
	defer close(t.done)
	defer t.ticker.Stop()
	t.guard(t.feed)
	<-t.ended // the stream may go on without the consumer
	t.awaitKept()
	t.guard(func() {
		var lost untraced
		if t.err() != nil {
			lost = t.lost()
		}
		t.consumer.finish(t.whole && t.err() == nil, lost)
	})
	t.mu.Lock()
	left := t.spill // by a consumer that was detached
	t.mu.Unlock()
	if left != nil {
		_ = left.f.Close() // without t.mu, because the disk may hang
	}
}

// awaitKept waits until the last piece is in the spill, or counted as lost.
func (t *tap) awaitKept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.keeping != nil {
		t.mu.Unlock()
		<-t.more
		t.mu.Lock()
	}
}

// guard recovers a panic of the consumer, so that the stream goes on.
func (t *tap) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.detach(fmt.Errorf("a bug in spantee: %v", p))
		}
	}()
	f()
}

// feed consumes the stream until its end. While there is a backlog, and room for
// more, it runs on a thread with a lower priority than the copy. A thread's
// priority cannot be raised again, so the thread stays locked and ends with its
// goroutine.
func (t *tap) feed() {
	t.tick()
	for t.feedSome(false) {
		addProcessors()
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			lowerPriority()
			t.guard(func() { t.feedSome(true) })
		}()
		<-done
	}
}

// addProcessors leaves the choice between the copy, the mapper and the sender to
// the operating system. With only as many Ps as processors, the copy would wait in
// Go's own scheduler, which has no priorities.
var addProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) })

// feedSome consumes the stream until the kind of thread must change. It returns
// false at the end of the stream.
func (t *tap) feedSome(yielding bool) (more bool) {
	for {
		p, came, next := t.next(yielding)
		switch next {
		case atEnd:
			return false
		case change:
			return true
		case await:
			select {
			case <-t.more:
			case <-t.ticker.C:
				t.tick()
			}
			continue
		}
		if yielding {
			t.rest()
		}
		t.consumer.consume(p, came)
		t.consumed(len(p))
		if !t.ticking {
			t.ticking = true
			t.ticker.Reset(time.Second)
		}
		select {
		case <-t.ticker.C:
			t.tick()
		default:
		}
	}
}

// A pour says whether the stream comes faster than any consumer can work.
type pour struct {
	on    bool
	since time.Time // when that was found
	total int64     // bytes of the stream then
}

const (
	// pourLook is how long a pour goes on before it is looked at again.
	pourLook = 20 * time.Millisecond

	// pourSize is how much must have come by then: 200 MB a second.
	pourSize = 4 << 20
)

// rest waits while the stream pours in and there is room for it: a consumer that
// works meanwhile, even with the lowest priority, slows the copy down by a third.
func (t *tap) rest() {
	for t.pours() {
		select {
		case <-t.ended:
		case <-time.After(pourLook):
		}
	}
}

// pours reports whether the consumer can leave the processors to the copy.
func (t *tap) pours() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.urgent || t.failure != nil || t.spillMax == 0 {
		return false
	}
	if now := time.Now(); now.Sub(t.pour.since) >= pourLook {
		t.pour = pour{t.total-t.pour.total >= pourSize, now, t.total}
	}
	return t.pour.on
}

// A feedAction is what feedSome does next.
type feedAction int

const (
	takePiece feedAction = iota
	await
	change // to a thread that yields, or back
	atEnd
)

// next returns a piece of the stream and when it came, or what else to do.
func (t *tap) next(yielding bool) (p []byte, came time.Time, next feedAction) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.ring.len() == 0 {
		switch {
		case t.failure != nil:
			return nil, came, atEnd
		case t.spill != nil && !t.spill.empty():
			t.refill()
		case t.spill != nil && t.writing != nil:
			return nil, came, await
		case t.spill != nil:
			t.closeSpill()
		case t.over && t.keeping == nil:
			return nil, came, atEnd
		default:
			if t.behind {
				t.behind, t.urgent = false, false
				t.consumer.backlog(false)
			}
			if yielding {
				return nil, came, change
			}
			return nil, came, await
		}
	}
	switch {
	case t.failure != nil:
		return nil, came, atEnd
	case yielding != (t.behind && !t.urgent):
		return nil, came, change
	}
	first := t.came[0]
	return t.ring.head(min(pieceSize, int(first.to-t.ring.from))), first.at, takePiece
}

// consumed frees the room of n bytes. It wakes the reader of a recording only when half
// of the ring is free, so that the reader passes on several pieces before it waits
// again.
func (t *tap) consumed(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring.from += int64(n)
	t.came.drop(t.ring.from)
	if t.live || t.ring.free() >= ringSize/2 {
		notify(t.room)
	}
}

// refill moves a piece from the spill to the empty ring. It is called with t.mu
// held, and releases it while it reads.
func (t *tap) refill() {
	s, size := t.spill, t.spill.to-t.spill.from
	p := t.ring.space(pieceSize)
	t.mu.Unlock()
	n, err := s.read(p, size)
	t.mu.Lock()
	if err != nil {
		t.detach(fmt.Errorf("cannot read back the spilled input: %w", err))
		return
	}
	s.from += int64(n)
	t.ring.to += int64(n)
	notify(t.room)
}

// closeSpill frees the disk space of an empty spill, which may be a gigabyte. It is
// called with t.mu held, and releases it meanwhile.
func (t *tap) closeSpill() {
	s := t.spill
	t.spill = nil
	notify(t.room)
	t.mu.Unlock()
	_ = s.f.Close()
	t.mu.Lock()
}

func (t *tap) tick() {
	next := t.consumer.tick()
	t.ticking = 0 < next && next <= time.Second
	if next > 0 {
		t.ticker.Reset(next)
	}
}

// notify wakes the reader of c, if it is not awake already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
