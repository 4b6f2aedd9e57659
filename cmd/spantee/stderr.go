package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A voice writes to stderr in the background, because stderr may be a full pipe
// without a reader. Once stderr has accepted nothing for patience, all output is
// discarded, because neither the stream nor its end may wait for it.
type voice struct {
	w        *os.File
	patience time.Duration

	mu      sync.Mutex
	words   []byte
	running bool          // a goroutine is writing
	moved   chan struct{} // closed, and replaced, when the goroutine has written some
	gone    bool          // stderr has no reader
	drawn   bool          // the last line is a status
}

const (
	// maxWords is how many bytes are buffered for a slow terminal.
	maxWords = 64 << 10

	// pipeBuf is how much is written at once, so that a slow reader counts as
	// progress.
	pipeBuf = 4 << 10
)

var errUnread = errors.New("nobody reads it")

func newVoice(w *os.File, patience time.Duration) *voice {
	return &voice{w: w, patience: patience, moved: make(chan struct{})}
}

// Write blocks only while the buffer is full.
func (v *voice) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.await(func() bool { return len(v.words) < maxWords }) {
		return 0, errUnread
	}
	if v.drawn {
		v.say(eraseLine)
		v.drawn = false
	}
	v.say(string(p))
	return len(p), nil
}

// say writes words on the side. It is called with v.mu held.
func (v *voice) say(words string) {
	v.words = append(v.words, words...)
	if !v.running {
		v.running = true
		go v.write()
	}
}

// eraseLine empties the line that the cursor is on.
const eraseLine = "\r\x1b[2K"

// status draws line in place of the last one, "" for none. Nobody waits for it:
// it is left out while a terminal is slow or stopped. The cursor stays at the
// start of the line, so that whatever the agent says on stderr begins there.
func (v *voice) status(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone || line == "" && !v.drawn || line != "" && v.running {
		return
	}
	v.say(eraseLine)
	if v.drawn = line != ""; v.drawn {
		v.say(line + "\r")
	}
}

// forgetStatus leaves the line that has the status to somebody else.
func (v *voice) forgetStatus() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drawn = false
}

// write writes until the buffer is empty.
func (v *voice) write() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.words) > 0 {
		words := v.words[:min(len(v.words), pipeBuf)]
		v.words = v.words[len(words):]
		v.mu.Unlock()
		_, err := v.w.Write(words)
		v.mu.Lock()
		v.gone = v.gone || err != nil
		close(v.moved)
		v.moved = make(chan struct{})
	}
	v.running = false
}

// Flush waits until the buffer is empty, or stderr has no reader.
func (v *voice) Flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.await(func() bool { return !v.running })
}

// await waits until done, which is called with v.mu held, returns true. It returns
// false if stderr has no reader.
func (v *voice) await(done func() bool) bool {
	for !v.gone && !done() {
		moved := v.moved
		v.mu.Unlock()
		var late bool
		select {
		case <-moved:
		case <-time.After(v.patience):
			late = true
		}
		v.mu.Lock()
		v.gone = v.gone || late && moved == v.moved
	}
	return !v.gone
}

// lastPatience is the patience of commands without a flush timeout.
const lastPatience = 2 * time.Second

// lastWords writes words to w before the process exits.
func lastWords(w *os.File, patience time.Duration, words string) {
	v := newVoice(w, patience)
	_, _ = io.WriteString(v, words)
	v.Flush()
}
