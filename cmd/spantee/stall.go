package main

import "time"

// A stall is how long the consumer has made no progress: in total, and without the
// time in which the process was computing. A line of 60 MB is one step, and takes
// seconds on a busy machine.
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
