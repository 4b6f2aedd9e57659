package main

import (
	"math"
	"os"
	"sync"
	"time"
)

// An agentStderr passes an agent's stderr on, and keeps the last part for the root
// span. Its methods for exec do nothing for nil, an agent that has spantee's own
// stderr.
type agentStderr struct {
	in       *output
	agents   *os.File // the agent's end of the pipe
	stderr   *asyncStderr
	patience time.Duration // how long an unread stderr may block after the agent exits
	read     chan struct{} // closed when everything has been read

	mu   sync.Mutex
	kept []byte
}

// keptStderr is how much of an agent's stderr is kept. It is more than
// content.Tail records (2 KiB), because half of a secret cannot be recognized.
const keptStderr = 16 << 10

func newAgentStderr(w *os.File, patience time.Duration) (*agentStderr, error) {
	in, agents, err := outputPipe()
	if err != nil {
		return nil, err
	}
	// A running agent waits for a full stderr, as it would without spantee.
	stderr := newAsyncStderr(w, math.MaxInt64)
	return &agentStderr{in: in, agents: agents, stderr: stderr, patience: patience, read: make(chan struct{})}, nil
}

// start begins reading. It must be called after the agent was started or failed to
// start.
func (s *agentStderr) start() {
	if s == nil {
		return
	}
	s.agents.Close()
	go s.run()
}

func (s *agentStderr) run() {
	defer close(s.read)
	defer s.in.Close() // so that the writes of leftover processes fail
	buf := make([]byte, 32<<10)
	for {
		n, err := s.in.Read(buf)
		s.keep(buf[:n])
		if n > 0 {
			if _, err := s.stderr.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *agentStderr) keep(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p...)
	if over := len(s.kept) - keptStderr; over > 0 {
		s.kept = append(s.kept[:0], s.kept[over:]...)
	}
}

// agentEnded bounds how long stderr is read and may block.
func (s *agentStderr) agentEnded() {
	if s == nil {
		return
	}
	s.stderr.limit(s.patience, endBuffer)
	s.in.agentEnded()
	go s.stderr.Flush() // patience begins now
}

// endBuffer is how many bytes are buffered after the agent's end: more than a pipe
// holds by default (64 KiB), so that the pipe is read to its end even if nobody reads
// stderr.
const endBuffer = 4 * maxBuffer

// awaitRead waits until the last bytes are kept, or until over.
func (s *agentStderr) awaitRead(over <-chan struct{}) {
	if s == nil {
		return
	}
	select {
	case <-s.read:
	case <-over:
	}
}

// flush waits until everything is written, and reports whether stderr has a
// reader.
func (s *agentStderr) flush() bool {
	return s == nil || s.stderr.Flush()
}

func (s *agentStderr) String() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.kept)
}
