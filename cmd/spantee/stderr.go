package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A voice is stderr, written to on the side: it may be a pipe that is full and
// that nobody reads. Once it has taken nothing for patience all words are lost,
// because neither the stream nor its end may wait for them.
type voice struct {
	w        *os.File
	patience time.Duration

	mu      sync.Mutex
	words   []byte
	running bool          // a goroutine writes
	moved   chan struct{} // closed, and replaced, when that has written some
	gone    bool          // nobody listens
}

const (
	// maxWords is how much is kept for a slow terminal.
	maxWords = 64 << 10

	// pipeBuf is how much is written at once, so that somebody who reads slowly is
	// seen to read.
	pipeBuf = 4 << 10
)

var errUnread = errors.New("nobody reads it")

func newVoice(w *os.File, patience time.Duration) *voice {
	return &voice{w: w, patience: patience, moved: make(chan struct{})}
}

// Write waits only while a lot has not been written yet.
func (v *voice) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.await(func() bool { return len(v.words) < maxWords }) {
		return 0, errUnread
	}
	v.words = append(v.words, p...)
	if !v.running {
		v.running = true
		go v.write()
	}
	return len(p), nil
}

// write writes until there are no more words.
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

// Flush waits until all words are out, or nobody listens.
func (v *voice) Flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.await(func() bool { return !v.running })
}

// await waits until done, which is asked with v.mu held. It returns false if
// nobody listens.
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

// lastPatience is that of commands that have no flush timeout.
const lastPatience = 2 * time.Second

// lastWords are said when nothing else is to be done.
func lastWords(w *os.File, patience time.Duration, words string) {
	v := newVoice(w, patience)
	_, _ = io.WriteString(v, words)
	v.Flush()
}
