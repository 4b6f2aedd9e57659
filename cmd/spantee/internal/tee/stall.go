package tee

import (
	"errors"
	"time"
)

const (
	// StallLimit is how long the stream waits while neither the consumer nor the disk
	// makes progress. On a machine with a load of ten, a thread may be off the
	// processor for over 100 ms.
	StallLimit = 2 * time.Second

	// busyLimit is the limit if the process uses the processor meanwhile: a line of
	// 60 MB is one step of the mapper, and takes seconds on a busy machine.
	busyLimit = 20 * time.Second

	// stallLook is how often somebody who waits checks for progress. Time is counted in
	// checks, because a stopped process does not check.
	stallLook = 250 * time.Millisecond
)

// Why a consumer is detached.
var (
	ErrStalled = errors.New("the mapper made no progress")
	ErrDisk    = errors.New("the disk that buffers the stream did not answer in time")
)

// A stall is how long neither the consumer nor the disk has made progress: in total,
// and without the time in which the process was computing.
type stall struct {
	advanced  int64
	cpu       time.Duration
	idle, all time.Duration
	longest   time.Duration // of all idle times
}

func (t *Tee) newStall() *stall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &stall{advanced: t.advanced(), cpu: t.cpu()}
}

// look updates a stall after some time. It is called with mu held.
func (t *Tee) look(s *stall, after time.Duration) {
	advanced, cpu := t.advanced(), t.cpu()
	if s.all += after; cpu-s.cpu < time.Millisecond {
		s.idle += after
	}
	if advanced != s.advanced {
		s.idle, s.all = 0, 0
	}
	s.longest = max(s.longest, s.idle)
	s.advanced, s.cpu = advanced, cpu
}

// advanced returns a number that grows while the consumer or the disk makes
// progress. It is called with mu held.
func (t *Tee) advanced() int64 {
	n := t.consumer.next + t.ring.from
	if t.opts.Progress != nil {
		n += t.opts.Progress()
	}
	return n
}

// Await waits until done is closed. It returns false if the consumer makes no progress
// for patience. idle is the longest time in which the consumer and the process did nothing.
func (t *Tee) Await(done <-chan struct{}, patience time.Duration) (idle time.Duration, ok bool) {
	stalled := t.newStall()
	for {
		look := min(stallLook, patience-stalled.idle)
		select {
		case <-done:
			return stalled.longest, true
		case <-time.After(look):
		}
		t.mu.Lock()
		t.look(stalled, look)
		t.mu.Unlock()
		if stalled.idle < patience && stalled.all < max(patience, busyLimit) {
			continue
		}
		select {
		case <-done: // both happened
			return stalled.longest, true
		default:
			return stalled.longest, false
		}
	}
}
