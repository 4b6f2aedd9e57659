package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// collect is a tap's consumer that keeps all it is shown.
func collect(b *bytes.Buffer) consume {
	return func(p []byte) {
		b.Write(p)
		for i := range p {
			p[i] = '#' // what a consumer must not keep
		}
	}
}

type consume func(p []byte)

func (c consume) consume(p []byte, _ time.Time) { c(p) }
func (c consume) tick()                         {}
func (c consume) finish(bool)                   {}

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
		"one long line":    bytes.Repeat([]byte("x"), 64<<20),
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
				var out, tapped bytes.Buffer
				tap := newTap(time.Minute, collect(&tapped))
				p := newPassthrough(reader(bytes.NewReader(in)), &out, tap)
				if err := p.run(); err != nil {
					t.Fatal(err)
				}
				tap.end(nil)
				<-tap.done
				if !bytes.Equal(out.Bytes(), in) {
					t.Error("other bytes came out")
				}
				if !bytes.Equal(tapped.Bytes(), in) {
					t.Error("the tap saw other bytes")
				}
			})
		}
	}
}

// A line must be out before the next comes in.
func TestPassthroughDoesNotHoldBack(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	tap := newTap(time.Minute, consume(func([]byte) {}))
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
	tap.end(nil)
	<-tap.done
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

// A consumer that panics is cut off, and the stream goes on.
func TestTapSurvivesPanic(t *testing.T) {
	in := bytes.Repeat([]byte("0123456789abcdef\n"), tapBuffer/4)
	var out bytes.Buffer
	tap := newTap(time.Minute, consume(func([]byte) { panic("a bug") }))
	if err := newPassthrough(bytes.NewReader(in), &out, tap).run(); err != nil {
		t.Fatal(err)
	}
	tap.end(nil)
	<-tap.done
	if !bytes.Equal(out.Bytes(), in) {
		t.Error("other bytes came out")
	}
	if err := tap.err(); err == nil || err.Error() != "a bug in spantee: a bug" {
		t.Errorf("failure %v", err)
	}
}

// A consumer that hangs holds the stream up for as long as patience, once.
func TestTapLeavesHangingConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		tap := newTap(100*time.Millisecond, consume(func([]byte) { <-hang }))
		in := bytes.Repeat([]byte("0123456789abcdef\n"), tapBuffer/2)
		var out bytes.Buffer
		began := time.Now()
		if err := newPassthrough(bytes.NewReader(in), &out, tap).run(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("the stream was held up for %v", took)
		}
		if !bytes.Equal(out.Bytes(), in) {
			t.Error("other bytes came out")
		}
		if err := tap.err(); !errors.Is(err, errBehind) {
			t.Errorf("failure %v", err)
		}
		close(hang)
		<-tap.done
	})
}

// A consumer that is slow for a while gets everything, and waiting for it adds
// up.
func TestTapWaitsForSlowConsumer(t *testing.T) {
	for slow, want := range map[time.Duration]error{10 * time.Millisecond: nil, 40 * time.Millisecond: errBehind} {
		synctest.Test(t, func(t *testing.T) {
			var tapped bytes.Buffer
			tap := newTap(100*time.Millisecond, consume(func(p []byte) {
				time.Sleep(slow)
				tapped.Write(p)
			}))
			in := bytes.Repeat([]byte("0123456789abcdef\n"), tapBuffer/2) // eight times what fits
			began := time.Now()
			if err := newPassthrough(bytes.NewReader(in), io.Discard, tap).run(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the stream was held up for %v", took)
			}
			tap.end(nil)
			<-tap.done
			if err := tap.err(); !errors.Is(err, want) || err == nil && !bytes.Equal(tapped.Bytes(), in) {
				t.Errorf("%d of %d bytes taken, %v", tapped.Len(), len(in), err)
			}
		})
	}
}
