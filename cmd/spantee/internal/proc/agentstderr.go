package proc

import (
	"math"
	"os"
	"sync"
	"time"
)

// An AgentStderr passes an agent's stderr on, and keeps the last part for the root
// span. Its methods for exec do nothing for nil, an agent that has spantee's own
// stderr.
type AgentStderr struct {
	in       *Output
	Agents   *os.File // the agent's end of the pipe
	stderr   *Stderr
	patience time.Duration // how long an unread stderr may block after the agent exits
	read     chan struct{} // closed when everything has been read

	mu   sync.Mutex
	kept []byte
}

// keptStderr is how much of an agent's stderr is kept. It is more than
// content.Tail records (2 KiB), because half of a secret cannot be recognized.
const keptStderr = 16 << 10

// NewAgentStderr returns the stderr of an agent, which is passed on to w. patience is
// how long an unread stderr may block once the agent has ended.
func NewAgentStderr(w *os.File, patience time.Duration) (*AgentStderr, error) {
	in, agents, err := outputPipe()
	if err != nil {
		return nil, err
	}
	// A running agent waits for a full stderr, as it would without spantee.
	stderr := NewStderr(w, math.MaxInt64)
	return &AgentStderr{in: in, Agents: agents, stderr: stderr, patience: patience, read: make(chan struct{})}, nil
}

// Start begins reading. It must be called after the agent was started or failed to
// start.
func (s *AgentStderr) Start() {
	if s == nil {
		return
	}
	s.Agents.Close()
	go s.run()
}

func (s *AgentStderr) run() {
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

func (s *AgentStderr) keep(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p...)
	if over := len(s.kept) - keptStderr; over > 0 {
		s.kept = append(s.kept[:0], s.kept[over:]...)
	}
}

// AgentEnded bounds how long stderr is read and may block.
func (s *AgentStderr) AgentEnded() {
	if s == nil {
		return
	}
	s.stderr.limit(s.patience, endBuffer)
	s.in.AgentEnded()
	go s.stderr.Flush() // patience begins now
}

// endBuffer is how many bytes are buffered after the agent's end: more than a pipe
// holds by default (64 KiB), so that the pipe is read to its end even if nobody reads
// stderr.
const endBuffer = 4 * maxBuffer

// AwaitRead waits until the last bytes are kept, or until over.
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
	return string(s.kept)
}
