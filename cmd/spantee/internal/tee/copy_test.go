package tee

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
)

func TestCopyIsExact(t *testing.T) {
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
				tee := seen.follow(reader(bytes.NewReader(in)), &out, Options{})
				if err := tee.Copy(); err != nil {
					t.Fatal(err)
				}
				tee.End(true)
				<-seen.done
				if !bytes.Equal(out.Bytes(), in) {
					t.Error("other bytes came out")
				}
				seen.want(t, in)
			})
		}
	}
}

// A line must be out before the next comes in.
func TestCopyDoesNotHoldBack(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	seen := new(recorder)
	tee := seen.follow(inR, outW, Options{})
	done := make(chan error)
	go func() { done <- tee.Copy() }()
	for _, chunk := range []string{"{\"type\":", "\"user\"}", "\n", "x"} {
		io.WriteString(inW, chunk)
		got := make([]byte, len(chunk))
		if _, err := io.ReadFull(outR, got); err != nil || string(got) != chunk {
			t.Fatalf("%q came out of %q, %v", got, chunk, err)
		}
	}
	inW.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	tee.End(true)
	<-seen.done
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

// Between two pipes of a fast stream, nothing is copied twice, left out, or copied
// and not seen, whoever is faster, and wherever it is stopped.
func TestCopyBetweenPipes(t *testing.T) {
	in := make([]byte, 8<<20)
	rand.Read(in)
	for _, stopAt := range []int{len(in), 1 << 20, 5<<20 + 1} {
		for writes, reads := range map[int]int{1 << 20: 100_000, 100_000: 1 << 20, 64 << 10: 4 << 10, 3 << 20: 3 << 20} {
			t.Run(fmt.Sprintf("writes of %d, reads of %d, stopped at %d", writes, reads, stopAt), func(t *testing.T) {
				inR, inW := newPipe(t)
				outR, outW := newPipe(t)
				seen := new(recorder)
				tee := seen.follow(inR, outW, Options{})
				written := make(chan struct{})
				go func() {
					defer close(written)
					for chunk := range slices.Chunk(in, writes) {
						if _, err := inW.Write(chunk); err != nil {
							return // stopped
						}
					}
					inW.Close()
				}()
				copied := make(chan error, 1)
				go func() { copied <- tee.Copy() }()

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
						tee.stop()
						tee.writing <- struct{}{} // without the patience of Stop
					}
					tee.End(true)
					outW.Close()
				}()
				io.Copy(&out, outR)
				<-stopped
				<-seen.done
				if !bytes.HasPrefix(in, out.Bytes()) {
					t.Error("other bytes came out")
				}
				seen.want(t, out.Bytes())
				inR.Close() // so that the writer ends
				<-written
				if stopAt < len(in) {
					<-copied
				}
			})
		}
	}
}

func TestCopyErrors(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken))
	var out bytes.Buffer
	err := New(in, &out, Options{}).Copy()
	if !errors.Is(err, broken) || errors.As(err, new(OutputError)) || out.String() != "abc" {
		t.Errorf("%v after %q, want %v after abc", err, &out, broken)
	}
	err = New(strings.NewReader("abc"), failingWriter{syscall.EPIPE}, Options{}).Copy()
	if !errors.Is(err, syscall.EPIPE) || !errors.As(err, new(OutputError)) {
		t.Errorf("a failed write ends with %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
