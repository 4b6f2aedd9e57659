package main

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// lingering is the total time to wait for output after the agent's end: a process
// that the agent left running may keep the pipe open forever.
const lingering = time.Second

// An output reads what an agent prints. After the agent's end it returns EOF once
// there is nothing more to read, even if another process still has the pipe open.
type output struct {
	*os.File
	over     atomic.Bool
	cut      atomic.Bool   // another process still had the pipe open
	patience time.Duration // remaining time to wait for bytes
	due      time.Time     // when patience ends if bytes come all the time
	pending  int           // bytes that the agent itself may have left in the pipe
}

// maxPipe is what a pipe holds at most, unless root says so.
const maxPipe = 1 << 20

// outputPipe returns a pipe of which an agent gets w.
func outputPipe() (out *output, w *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &output{File: r, patience: lingering}, w, nil
}

func (o *output) Read(p []byte) (int, error) {
	for {
		over := o.over.Load()
		began := time.Now()
		if over {
			if o.pending <= 0 && began.After(o.due) {
				o.cut.Store(true)
				return 0, io.EOF
			}
			// Data already in the pipe is read, however long writing it takes.
			_ = o.SetReadDeadline(began.Add(max(o.patience, 10*time.Millisecond)))
		}
		n, err := o.File.Read(p)
		if over {
			o.patience -= time.Since(began)
			o.pending -= n
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case o.patience <= 0:
			o.cut.Store(true)
			return 0, io.EOF
		}
	}
}

// agentEnded wakes a Read that is waiting.
func (o *output) agentEnded() {
	o.due, o.pending = time.Now().Add(lingering), maxPipe
	o.over.Store(true)
	_ = o.SetReadDeadline(time.Now()) // Windows has no deadlines: there, Read waits for whoever has the pipe open
}
