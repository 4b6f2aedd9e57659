package main

import (
	"errors"
	"time"
)

const (
	// stallLimit is how long the stream waits while neither the mapper nor the disk
	// makes progress. On a machine with a load of ten, a thread may be off the
	// processor for over 100 ms.
	stallLimit = 2 * time.Second

	// busyLimit is the limit if the process uses the processor meanwhile, and for a
	// single write to the disk.
	busyLimit = 20 * time.Second

	// stallLook is how often somebody who waits for the mapper or the disk checks its
	// progress. Time is counted in checks, because a stopped process does not check.
	stallLook = 250 * time.Millisecond
)

var (
	errStalled = errors.New("the mapper made no progress")
	errHung    = errors.New("the disk that buffers the stream did not answer in time")
)

// A stall is how long neither the consumer nor the disk has made progress: in total,
// and without the time in which the process was computing. A line of 60 MB is one
// step, and takes seconds on a busy machine.
type stall struct {
	moved     int64
	cpu       time.Duration
	idle, all time.Duration
}

// look updates the stall. It is called every stallLook.
func (s *stall) look(since time.Duration, moved int64, cpu time.Duration) {
	if s.all += since; cpu-s.cpu < time.Millisecond {
		s.idle += since
	}
	if moved != s.moved {
		s.idle, s.all = 0, 0
	}
	s.moved, s.cpu = moved, cpu
}

func (t *tap) newStall() *stall { return &stall{moved: t.advanced(), cpu: t.cpu()} }

// advanced returns a number that grows while the consumer or the disk makes
// progress. It is called with t.mu held.
func (t *tap) advanced() int64 { return t.ring.from + t.end() + t.consumer.progress() }

// lookAt updates s when stallLook has passed, and reports whether the stream must go
// on without the consumer. It is called with t.mu held.
func (t *tap) lookAt(s *stall) (mustGoOn bool) {
	s.look(stallLook, t.advanced(), t.cpu())
	if !t.live {
		return false
	}
	if s.idle >= stallLimit/2 {
		t.consumer.backlog(false) // the consumer may be waiting for the exporter
	}
	return s.idle >= stallLimit || s.all >= busyLimit
}

// watchWrite looks at a write to the spill after stallLook, when it has taken the
// given time, and again. If the disk hangs, it detaches the consumer and hands the
// copy over, because a goroutine that writes cannot be stopped. It is called with t.mu
// held.
func (t *tap) watchWrite(write *stall, took time.Duration) *time.Timer {
	return time.AfterFunc(stallLook, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case t.writing != write:
		case !t.lookAt(write) && took < busyLimit:
			t.watchWrite(write, took+stallLook)
		default:
			t.detach(errHung)
			t.hung = true
			t.notKept()
			t.handOver()
		}
	})
}

// detach lets the stream go on without the consumer. It is called with t.mu held.
func (t *tap) detach(why error) {
	if t.failure == nil {
		t.failure = why
	}
	notify(t.more)
	notify(t.room)
}
