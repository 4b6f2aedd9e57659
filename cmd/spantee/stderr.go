package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// An asyncStderr writes to stderr in the background, because stderr may be a full
// pipe without a reader. Once stderr has accepted nothing for patience, all output is
// discarded, because neither the stream nor its end may wait for it.
type asyncStderr struct {
	w *os.File

	mu       sync.Mutex
	patience time.Duration
	room     int // bytes that may be buffered
	buffer   []byte
	running  bool          // a goroutine is writing
	changed  chan struct{} // closed, and replaced, when another field changes
	gone     bool          // stderr has no reader
	drawn    bool          // the last line is a status
}

const (
	// maxBuffer is how many bytes are buffered for a slow terminal.
	maxBuffer = 64 << 10

	// pipeBuf is how much is written at once, so that a slow reader counts as
	// progress.
	pipeBuf = 4 << 10
)

var errUnread = errors.New("nobody reads it")

func newAsyncStderr(w *os.File, patience time.Duration) *asyncStderr {
	return &asyncStderr{w: w, patience: patience, room: maxBuffer, changed: make(chan struct{})}
}

// Write blocks only while the buffer is full.
func (s *asyncStderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.await(func() bool { return len(s.buffer) < s.room }) {
		return 0, errUnread
	}
	if s.drawn {
		s.say(eraseLine)
		s.drawn = false
	}
	s.say(string(p))
	return len(p), nil
}

// say writes text in the background. It is called with s.mu held.
func (s *asyncStderr) say(text string) {
	s.buffer = append(s.buffer, text...)
	if !s.running {
		s.running = true
		go s.write()
	}
}

// eraseLine empties the line that the cursor is on.
const eraseLine = "\r\x1b[2K"

// status draws line in place of the last one, "" for none. Nobody waits for it:
// it is left out while a terminal is slow or stopped. The cursor stays at the
// start of the line, so that whatever the agent says on stderr begins there.
func (s *asyncStderr) status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || line == "" && !s.drawn || line != "" && s.running {
		return
	}
	s.say(eraseLine)
	if s.drawn = line != ""; s.drawn {
		s.say(line + "\r")
	}
}

// forgetStatus leaves the line that has the status to somebody else.
func (s *asyncStderr) forgetStatus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = false
}

// write writes until the buffer is empty.
func (s *asyncStderr) write() {
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
	s.running = false
}

// wake wakes all waiters. It is called with s.mu held.
func (s *asyncStderr) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// limit changes the patience and the size of the buffer.
func (s *asyncStderr) limit(patience time.Duration, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience, s.room = patience, room
	s.wake()
}

// abandon discards all output from now on.
func (s *asyncStderr) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.wake()
}

// Flush waits until the buffer is empty, and reports whether stderr has a reader.
func (s *asyncStderr) Flush() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.await(func() bool { return !s.running })
}

// await waits until done, which is called with s.mu held, returns true. It returns
// false if stderr has no reader.
func (s *asyncStderr) await(done func() bool) bool {
	for !s.gone && !done() {
		changed, patience := s.changed, s.patience
		s.mu.Unlock()
		var late bool
		select {
		case <-changed:
		case <-time.After(patience):
			late = true
		}
		s.mu.Lock()
		if late && changed == s.changed && !s.gone {
			s.gone = true
			s.wake()
		}
	}
	return !s.gone
}

// lastPatience is the patience of commands without a flush timeout.
const lastPatience = 2 * time.Second

// printFinal writes text to w before the process exits.
func printFinal(w *os.File, patience time.Duration, text string) {
	s := newAsyncStderr(w, patience)
	_, _ = io.WriteString(s, text)
	s.Flush()
}
