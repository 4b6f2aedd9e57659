package proc

import (
	"math"
	"os"
	"sync"
	"time"
)

// An AgentStderr passes an agent's stderr on, and keeps the last part for the root
// span. Its methods do nothing for nil.
type AgentStderr struct {
	in       *Output
	stderr   *Stderr
	patience time.Duration // how long an unread stderr may block after the agent exits
	read     chan struct{} // closed when everything has been read

	mu   sync.Mutex
	tail []byte
}

// tailSize is how much of the end of an agent's stderr is remembered. It is more than
// content.Tail records (2 KiB), because half of a secret cannot be recognized.
const tailSize = 16 << 10

// newAgentStderr passes on what the agent writes to w. A running agent waits for a full
// stderr, as it would without spantee.
func newAgentStderr(in *Output, w *os.File, patience time.Duration) *AgentStderr {
	s := &AgentStderr{in: in, stderr: NewStderr(w, math.MaxInt64), patience: patience, read: make(chan struct{})}
	go s.run()
	return s
}

func (s *AgentStderr) run() {
	defer close(s.read)
	defer s.in.Close() // so that the writes of leftover processes fail
	buf := make([]byte, 32<<10)
	for {
		n, err := s.in.Read(buf)
		s.addTail(buf[:n])
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

func (s *AgentStderr) addTail(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, p...)
	if over := len(s.tail) - tailSize; over > 0 {
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
}

// agentEnded bounds how long stderr is read and may block.
func (s *AgentStderr) agentEnded() {
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

// AwaitRead waits until the last bytes are read, or until over.
func (s *AgentStderr) AwaitRead(over <-chan struct{}) {
	if s == nil {
		return
	}
	select {
	case <-s.read:
	case <-over:
	}
}

// Flush waits until everything is written, and reports whether stderr has a
// reader.
func (s *AgentStderr) Flush() bool {
	return s == nil || s.stderr.Flush()
}

func (s *AgentStderr) String() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.tail)
}
