package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func TestPassthroughIsExact(t *testing.T) {
	random := make([]byte, 3<<20)
	rand.Read(random)
	for name, in := range map[string][]byte{
		"nothing":          {},
		"a line":           []byte("{\"type\":\"user\"}\n"),
		"no final newline": []byte("{\"type\":\"user\"}"),
		"CRLF and a BOM":   []byte("\uFEFF{}\r\n\r\n"),
		"not UTF-8":        []byte("\xff\xfe\n\x00\n"),
		"random bytes":     random,
		"one long line":    bytes.Repeat([]byte("x"), 16<<20),
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"whole":         func(r io.Reader) io.Reader { return r },
			"halves":        iotest.HalfReader,
			"data with EOF": iotest.DataErrReader,
			"byte by byte":  iotest.OneByteReader,
		} {
			if how == "byte by byte" && len(in) > 1000 {
				continue
			}
			t.Run(name+", "+how, func(t *testing.T) {
				var out bytes.Buffer
				seen := new(recorder)
				tap := newTap(seen, true, t.TempDir(), 1<<30)
				p := newPassthrough(reader(bytes.NewReader(in)), &out, tap)
				if err := p.run(); err != nil {
					t.Fatal(err)
				}
				tap.close(true)
				<-tap.done
				if !bytes.Equal(out.Bytes(), in) {
					t.Error("other bytes came out")
				}
				seen.want(t, in)
			})
		}
	}
}

// A line must be out before the next comes in.
func TestPassthroughDoesNotHoldBack(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	tap := newTap(new(recorder), true, "", 0)
	done := make(chan error)
	go func() { done <- newPassthrough(inR, outW, tap).run() }()
	for _, piece := range []string{"{\"type\":", "\"user\"}", "\n", "x"} {
		io.WriteString(inW, piece)
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(outR, got); err != nil || string(got) != piece {
			t.Fatalf("%q came out of %q, %v", got, piece, err)
		}
	}
	inW.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	tap.close(true)
	<-tap.done
}

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

// Between two pipes of a fast stream, nothing is passed twice, left out, or passed
// and not shown to the tap, whoever is faster, and wherever it is stopped.
func TestPassthroughBetweenPipes(t *testing.T) {
	in := make([]byte, 16<<20)
	rand.Read(in)
	for _, stopAt := range []int{len(in), 1 << 20, 5<<20 + 1} {
		for writes, reads := range map[int]int{1 << 20: 100_000, 100_000: 1 << 20, 64 << 10: 4 << 10, 3 << 20: 3 << 20} {
			t.Run(fmt.Sprintf("writes of %d, reads of %d, stopped at %d", writes, reads, stopAt), func(t *testing.T) {
				inR, inW := newPipe(t)
				outR, outW := newPipe(t)
				seen := new(recorder)
				tap := newTap(seen, true, t.TempDir(), 1<<30)
				p := newPassthrough(inR, outW, tap)
				written := make(chan struct{})
				go func() {
					defer close(written)
					for piece := range slices.Chunk(in, writes) {
						if _, err := inW.Write(piece); err != nil {
							return // stopped
						}
					}
					inW.Close()
				}()
				copied := make(chan error, 1)
				go func() { copied <- p.run() }()

				var out bytes.Buffer
				buf := make([]byte, reads)
				for out.Len() < stopAt {
					n, err := outR.Read(buf)
					if err != nil {
						t.Fatal(err)
					}
					out.Write(buf[:n])
				}
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					if stopAt == len(in) {
						if err := <-copied; err != nil {
							t.Error(err)
						}
					} else {
						p.stopped.Store(true)
						p.busy <- struct{}{} // without stop's patience
					}
					tap.close(true)
					outW.Close()
				}()
				io.Copy(&out, outR)
				<-stopped
				<-tap.done
				if !bytes.HasPrefix(in, out.Bytes()) {
					t.Error("other bytes came out")
				}
				seen.want(t, out.Bytes())
				inR.Close() // so that the writer ends
				<-written
				if stopAt < len(in) {
					<-p.busy // so that the copy ends: it finds both pipes closed
					<-copied
				}
			})
		}
	}
}

// Where a process that the agent left running is cut off, the tap has seen what was
// passed.
func TestPassthroughOfACutOutput(t *testing.T) {
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
	seen := new(recorder)
	tap := newTap(seen, true, t.TempDir(), 1<<30)
	copied := make(chan error, 1)
	go func() {
		copied <- newPassthrough(out, passedW, tap).run()
		passedW.Close()
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
	tap.close(true)
	<-tap.done
	seen.want(t, passed.Bytes())
	out.Close()
	<-written
	w.Close()
}

func TestPassthroughErrors(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken))
	var out bytes.Buffer
	err := newPassthrough(in, &out, nil).run()
	if !errors.Is(err, broken) || out.String() != "abc" || endOfCopy(err) != (exitStatus{code: statusFailed}) {
		t.Errorf("%v after %q, want %v after abc", err, &out, broken)
	}

	err = newPassthrough(strings.NewReader("abc"), failingWriter{syscall.EPIPE}, nil).run()
	if end := endOfCopy(err); end.signal != brokenPipe || end.interrupted() {
		t.Errorf("EPIPE ends by %v", end)
	}
	err = newPassthrough(strings.NewReader("abc"), failingWriter{syscall.ENOSPC}, nil).run()
	if end := endOfCopy(err); end != (exitStatus{code: statusFailed}) {
		t.Errorf("ENOSPC ends by %v", end)
	}
	// EPIPE of reading is no closed stdout.
	if end := endOfCopy(syscall.EPIPE); end != (exitStatus{code: statusFailed}) {
		t.Errorf("EPIPE from stdin ends by %v", end)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
