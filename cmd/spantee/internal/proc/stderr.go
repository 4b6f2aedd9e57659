package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// A Stderr writes to stderr in the background, because stderr may be a full
// pipe without a reader. Once stderr has accepted nothing for patience, all output is
// discarded, because neither the stream nor its end may wait for it.
type Stderr struct {
	w io.Writer

	mu        sync.Mutex
	patience  time.Duration
	deadline  time.Time // ends patience; zero for none
	room      int       // bytes that may be buffered
	buffer    []byte
	offered   int           // bytes offered since the buffer was empty
	running   bool          // a goroutine is writing
	changed   chan struct{} // closed, and replaced, when another field changes
	gone      bool          // stderr has no reader
	hasStatus bool          // the last line is a status
}

const (
	// maxBuffer is how many bytes are buffered for a slow terminal.
	maxBuffer = 64 << 10

	// maxOffered is how full the buffer may be for what is offered: a burst is some thousand lines.
	maxOffered = 256 << 10

	// pipeBuf is how much is written at once, so that a slow reader counts as
	// progress.
	pipeBuf = 4 << 10
)

var errUnread = errors.New("nobody reads it")

// NewStderr returns a Stderr that writes to w, and gives up if nothing can be written
// for patience.
func NewStderr(w io.Writer, patience time.Duration) *Stderr {
	return &Stderr{w: w, patience: patience, room: maxBuffer, changed: make(chan struct{})}
}

// Write blocks only while the buffer is full.
func (s *Stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.await(func() bool { return len(s.buffer)-s.offered < s.room }) {
		return 0, errUnread
	}
	s.add(string(p))
	return len(p), nil
}

// Offer writes p unless the buffer is full. It never blocks, and takes no room from Write.
func (s *Stderr) Offer(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || len(s.buffer)+len(p) > maxOffered {
		return false
	}
	s.offered += len(p)
	s.add(string(p))
	return true
}

// add adds text below which a status may be drawn. It is called with s.mu held.
func (s *Stderr) add(text string) {
	if s.hasStatus {
		s.say(eraseLine)
		s.hasStatus = false
	}
	s.say(text)
}

// say writes text in the background. It is called with s.mu held.
func (s *Stderr) say(text string) {
	s.buffer = append(s.buffer, text...)
	if !s.running {
		s.running = true
		go s.write()
	}
}

// eraseLine empties the line that the cursor is on.
const eraseLine = "\r\x1b[2K"

// Status draws line in place of the last one, "" for none. Nobody waits for it:
// it is left out while a terminal is slow or stopped. The cursor stays at the
// start of the line, so that whatever the agent says on stderr begins there.
func (s *Stderr) Status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || line == "" && !s.hasStatus || line != "" && s.running {
		return
	}
	s.say(eraseLine)
	if s.hasStatus = line != ""; s.hasStatus {
		s.say(line + "\r")
	}
}

// ForgetStatus leaves the line that has the status to somebody else.
func (s *Stderr) ForgetStatus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasStatus = false
}

// write writes until the buffer is empty.
func (s *Stderr) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buffer) > 0 {
		piece := s.buffer[:min(len(s.buffer), pipeBuf)]
		s.buffer = s.buffer[len(piece):]
		s.mu.Unlock()
		_, err := s.w.Write(piece)
		s.mu.Lock()
		s.gone = s.gone || err != nil
		s.wake()
	}
	s.running, s.offered = false, 0
}

// wake wakes all waiters. It is called with s.mu held.
func (s *Stderr) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// limit changes the patience and the size of the buffer.
func (s *Stderr) limit(patience time.Duration, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience, s.room = patience, room
	s.wake()
}

// EndBy ends the patience at a deadline. After it, stderr gets MinPatience.
func (s *Stderr) EndBy(deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = deadline
	s.wake()
}

// Flush waits until the buffer is empty, and reports whether stderr has a reader.
func (s *Stderr) Flush() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.await(func() bool { return !s.running })
}

// await waits until done, which is called with s.mu held, returns true. It returns
// false if stderr has no reader.
func (s *Stderr) await(done func() bool) bool {
	for !s.gone && !done() {
		changed, patience := s.changed, s.patience
		if !s.deadline.IsZero() {
			patience = min(patience, max(time.Until(s.deadline), MinPatience))
		}
		s.mu.Unlock()
		late := !closesWithin(patience, changed)
		s.mu.Lock()
		if late && changed == s.changed && !s.gone {
			s.gone = true
			s.wake()
		}
	}
	return !s.gone
}

// closesWithin reports whether a channel is closed within patience. The last MinPatience is
// counted in steps, because a busy machine, which may delay the writing for longer than
// that, delays the steps as well.
func closesWithin(patience time.Duration, changed <-chan struct{}) bool {
	wait := patience - MinPatience
	for range 1 + lastSteps {
		select {
		case <-changed:
			return true
		case <-time.After(wait):
			wait = MinPatience / lastSteps
		}
	}
	return false
}

const (
	// MinPatience is the least time that a slow terminal gets.
	MinPatience = 100 * time.Millisecond

	lastSteps = 100
)

// TerminalWidth returns how many columns a terminal has, 0 if it does not say. It returns false
// if f is no terminal.
func TerminalWidth(f *os.File) (columns int, terminal bool) {
	if !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, _ = term.GetSize(int(f.Fd()))
	return columns, true
}
