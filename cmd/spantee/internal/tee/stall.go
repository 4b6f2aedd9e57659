package tee

import (
	"errors"
	"time"

	"github.com/spantee/spantee/exporter/standstill"
)

const (
	// StallLimit is how long the stream waits while the consumer makes no progress, and the
	// process stands still.
	StallLimit = 2 * time.Second

	// busyLimit is the limit if the process uses the processor meanwhile: a line of
	// 60 MB is one step of the mapper, and takes seconds on a busy machine.
	busyLimit = 20 * time.Second

	// stallCheck is how often somebody who waits checks for progress. Time is counted in
	// checks, because a stopped process does not check.
	stallCheck = 250 * time.Millisecond
)

// ErrStalled is why a consumer is detached that makes no progress.
var ErrStalled = errors.New("the mapper made no progress")

// A stall is how long the consumer has made no progress: in total, and without the time
// in which the process was computing, or waiting for a processor.
type stall struct {
	tee       *Tee
	advanced  int64
	watch     standstill.Watch
	idle, all time.Duration
	longest   time.Duration // of all idle times
}

func (t *Tee) newStall() *stall {
	return &stall{tee: t, advanced: t.advanced()}
}

// advanced returns a number that grows while the consumer makes progress.
func (t *Tee) advanced() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.ring.from
	if t.opts.Progress != nil {
		n += t.opts.Progress()
	}
	return n
}

// check updates a stall after some time.
func (s *stall) check(after time.Duration) {
	advanced := s.tee.advanced()
	if s.all += after; s.watch.Still(after) {
		s.idle += after
	}
	if advanced != s.advanced {
		s.idle, s.all = 0, 0
	}
	s.longest = max(s.longest, s.idle)
	s.advanced = advanced
}

// exceeds reports whether the consumer has made no progress for patience or, while the
// process was computing, for busyLimit.
func (s *stall) exceeds(patience time.Duration) bool {
	return s.idle >= patience || s.all >= max(patience, busyLimit)
}

// Await waits until done is closed. It returns false if the consumer makes no progress
// for patience. idle is the longest time in which the consumer and the process did nothing.
func (t *Tee) Await(done <-chan struct{}, patience time.Duration) (idle time.Duration, ok bool) {
	s := t.newStall()
	for !s.exceeds(patience) {
		wait := min(stallCheck, patience-s.idle)
		select {
		case <-done:
			return s.longest, true
		case <-time.After(wait):
			s.check(wait)
		}
	}
	return s.longest, isClosed(done) // both may have happened
}
