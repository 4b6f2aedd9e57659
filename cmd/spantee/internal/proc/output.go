package proc

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Lingering is the total time to wait for output after the agent's end: a process
// that the agent left running may keep the pipe open forever.
const Lingering = time.Second

// An Output reads what an agent prints. After the agent exits, it returns EOF even if
// a leftover process still has the pipe open: when the pipe stays empty, or when only
// that process can still be writing.
type Output struct {
	*os.File
	over     atomic.Bool
	cut      atomic.Bool   // another process still had the pipe open
	patience time.Duration // remaining time to wait for bytes
	due      time.Time     // when patience ends if bytes come all the time
	pending  int           // bytes that the agent itself may have left in the pipe
}

// maxPipe is the most a pipe can hold, unless root has raised the system's limit.
const maxPipe = 1 << 20

// Cut reports whether another process still had the pipe open at the end.
func (o *Output) Cut() bool { return o.cut.Load() }

// outputPipe returns a pipe. w is the agent's end.
func outputPipe() (out *Output, w *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &Output{File: r, patience: Lingering}, w, nil
}

func (o *Output) Read(p []byte) (int, error) {
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

// agentEnded limits further reading, and wakes a waiting Read.
func (o *Output) agentEnded() {
	o.due, o.pending = time.Now().Add(Lingering), maxPipe
	o.over.Store(true)
	_ = o.SetReadDeadline(time.Now()) // Windows has no deadlines: there, Read waits for whoever has the pipe open
}
