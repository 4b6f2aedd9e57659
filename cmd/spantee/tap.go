package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// tapBuffer is how far the consumer of a tap may fall behind the stream.
const tapBuffer = 4 << 20

var errBehind = errors.New("the stream comes faster than it can be traced; for a file there is time (spantee < FILE)")

// A tap feeds the stream to a consumer in a goroutine of its own. A consumer
// that falls behind may hold the stream up for as long as patience, all in all;
// then, or if it panics, the stream goes on without it.
type tap struct {
	consumer consumer
	patience time.Duration // what is left of it

	mu      sync.Mutex
	pending []byte    // what the consumer will take next
	came    time.Time // when the newest of it did
	over    bool      // nothing more will come
	failure error     // why not, if it is not the stream's end

	more chan struct{} // pending has grown, or the stream is over
	room chan struct{} // pending has been taken
	done chan struct{} // the consumer is finished
}

// A consumer may use the bytes it is given until it returns.
type consumer interface {
	consume(p []byte, came time.Time)
	tick()             // it begins, or a second has passed
	finish(whole bool) // nothing more will come; whole tells if that was the stream's end
}

func newTap(patience time.Duration, c consumer) *tap {
	t := &tap{
		consumer: c, patience: patience,
		more: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go t.run()
	return t
}

// write hands p to the consumer.
func (t *tap) write(p []byte) {
	if t == nil {
		return
	}
	for !t.add(p) {
		began := time.Now()
		select {
		case <-t.room:
		case <-time.After(t.patience):
		}
		if t.patience -= time.Since(began); t.patience <= 0 {
			t.end(errBehind)
		}
	}
}

// add tells whether there was room for p, or nobody to take it.
func (t *tap) add(p []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return true
	}
	if len(t.pending) > 0 && len(t.pending)+len(p) > tapBuffer {
		return false
	}
	t.pending = append(t.pending, p...)
	t.came = time.Now()
	notify(t.more)
	return true
}

// end tells that nothing more will come, and why if it is not the stream's
// end. done is closed once the consumer has taken the rest.
func (t *tap) end(failure error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.failure == nil {
		t.failure = failure
	}
	notify(t.more)
	notify(t.room)
}

// err returns why the consumer did not get the whole stream, nil if it did.
func (t *tap) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

func (t *tap) run() {
	defer close(t.done)
	t.guard(t.feed)
	t.guard(func() { t.consumer.finish(t.err() == nil) })
}

// guard makes a panic of the consumer its own affair.
func (t *tap) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			t.end(fmt.Errorf("a bug in spantee: %v", p))
		}
	}()
	f()
}

func (t *tap) feed() {
	var taken []byte
	second := time.NewTicker(time.Second)
	defer second.Stop()
	t.consumer.tick()
	for {
		select {
		case <-t.more:
		case <-second.C:
			t.consumer.tick()
			continue
		}
		t.mu.Lock()
		taken, t.pending = t.pending, taken[:0]
		came, over := t.came, t.over
		t.mu.Unlock()
		notify(t.room)
		t.consumer.consume(taken, came)
		if over {
			return
		}
	}
}

// notify wakes the reader of c, if it is not awake already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
