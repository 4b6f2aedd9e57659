package proc

import (
	"bytes"
	"io"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tee"
)

// newPipe returns a pipe that the test's end closes.
func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// Where a process that the agent left running is cut off, the mapper gets what was
// passed on.
func TestACutOutput(t *testing.T) {
	out, w, err := outputPipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for piece := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(piece)
		}
	}()
	passedR, passedW := newPipe(t)
	stream := tee.New(out, passedW, tee.Options{})
	copied := make(chan error, 1)
	go func() {
		err := stream.Copy()
		passedW.Close()
		stream.End(true)
		copied <- err
	}()
	seen := make(chan []byte)
	go func() {
		var all []byte
		for {
			piece, _, err := stream.Next(time.Now().Add(time.Hour))
			if err != nil {
				break
			}
			all = append(all, piece...)
		}
		stream.Ended()
		seen <- all
	}()
	var passed bytes.Buffer
	if _, err := io.CopyN(&passed, passedR, 16<<20); err != nil {
		t.Fatal(err)
	}
	out.due, out.pending = time.Now(), maxPipe
	out.over.Store(true)
	if _, err := io.Copy(&passed, passedR); err != nil {
		t.Error(err)
	}
	if err := <-copied; err != nil || !out.cut.Load() {
		t.Errorf("%v, cut %v", err, out.cut.Load())
	}
	if !bytes.Equal(<-seen, passed.Bytes()) {
		t.Error("the mapper got other bytes")
	}
	out.Close()
	<-written
	w.Close()
}

// What the agent has printed is read to its end, even if that took so long to be
// written that no patience is left for what it left running.
func TestOutputEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // later: somebody has it open
	want := bytes.Repeat([]byte("x"), 50_000)
	if _, err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	out := &Output{File: r}
	out.agentEnded()
	got, err := io.ReadAll(iotest.HalfReader(out))
	if !bytes.Equal(got, want) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
