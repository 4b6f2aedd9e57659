package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// manyLines returns a session of deltas, for .ci/run one that fills the ring ten times.
func manyLines() []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}` + "\n")
	for i := range cases(20_000, 200_000) {
		fmt.Fprintf(&b, `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"%d"}]},"session_id":"s","timestamp_ms":%d}`+"\n", i, 1790000000000+i)
	}
	return b.Bytes()
}

// spliceWriter writes the file $STREAM to the pipe on stdout with vmsplice(2), which
// lends the pipe its own memory. It changes that memory as soon as it may: once as much as
// the pipe holds was accepted after it.
func spliceWriter() {
	size, err := unix.FcntlInt(1, unix.F_GETPIPE_SZ, 0)
	var stream, memory []byte
	if err == nil {
		stream, err = os.ReadFile(os.Getenv("STREAM"))
	}
	if err == nil {
		memory, err = unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	}
	piece, flags := size, 0 // two buffers of the pipe's size
	switch os.Args[1] {
	case "pages": // a ring of pages
		piece = os.Getpagesize()
	case "gift":
		flags = unix.SPLICE_F_GIFT
	}
	for at := 0; err == nil && len(stream) > 0; at = (at + piece) % len(memory) {
		n := copy(memory[at:at+piece], stream)
		stream = stream[n:]
		for rest := memory[at : at+n]; err == nil && len(rest) > 0; rest = rest[n:] {
			v := unix.Iovec{Base: &rest[0]}
			v.SetLen(len(rest))
			n, err = unix.Vmsplice(1, []unix.Iovec{v}, flags)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The stream is passed on byte for byte, also from writers that change the memory
// which they have rest to a pipe.
func TestExactFromSplicingWriters(t *testing.T) {
	long(t)
	t.Parallel()
	in := manyLines()
	path := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(path, in, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"buffers", "pages", "gift"} {
		t.Run(kind, func(t *testing.T) {
			cmd := spantee(t, nil, "--to=/dev/null", "--agent=cursor")
			r, w := newPipe(t)
			cmd.Stdin = r
			writer := exec.Command(lookPath(t, "splice-writer"), kind)
			writer.Env = append(os.Environ(), "STREAM="+path)
			writer.Stdout, writer.Stderr = w, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r.Close()
			if err := writer.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if err := writer.Wait(); err != nil {
				t.Error("the writer:", err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(cmd.stdout.Bytes(), in) {
				t.Errorf("%d bytes came out, of %d, or others", cmd.stdout.Len(), len(in))
			}
			checkStderr(t, cmd.stderr.String(), "")
		})
	}
}

// An end is one end of a stream: the file for spantee, and for the test, which may be
// nil.
type end struct{ theirs, ours *os.File }

func pipeEnds(t *testing.T) (r, w *os.File) { return newPipe(t) }

func socketEnds(t *testing.T) (a, b *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b = os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

// terminalEnds returns the ends of a terminal that changes no bytes.
func terminalEnds(t *testing.T) (ours, theirs *os.File) {
	ours, theirs, err := pty.Open()
	if err == nil {
		_, err = term.MakeRaw(int(theirs.Fd()))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return ours, theirs
}

func openFile(t *testing.T, flag int) *os.File {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "stream"), flag|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The stream is passed on byte for byte between all kinds of files.
func TestExactBetweenFiles(t *testing.T) {
	long(t)
	t.Parallel()
	in := manyLines()
	inputs := map[string]func(t *testing.T) end{
		"pipe":     func(t *testing.T) end { r, w := pipeEnds(t); return end{r, w} },
		"socket":   func(t *testing.T) end { a, b := socketEnds(t); return end{a, b} },
		"terminal": func(t *testing.T) end { ours, theirs := terminalEnds(t); return end{theirs, ours} },
		"mapped file": func(t *testing.T) end {
			f := openFile(t, os.O_RDWR)
			if err := f.Truncate(int64(len(in))); err != nil {
				t.Fatal(err)
			}
			memory, err := unix.Mmap(int(f.Fd()), 0, len(in), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			copy(memory, in)
			t.Cleanup(func() { unix.Munmap(memory) })
			return end{f, nil}
		},
	}
	outputs := map[string]func(t *testing.T) end{
		"pipe":     func(t *testing.T) end { r, w := pipeEnds(t); return end{w, r} },
		"socket":   func(t *testing.T) end { a, b := socketEnds(t); return end{a, b} },
		"terminal": func(t *testing.T) end { ours, theirs := terminalEnds(t); return end{theirs, ours} },
		"file":     func(t *testing.T) end { return end{openFile(t, os.O_RDWR), nil} },
		"file opened with O_APPEND": func(t *testing.T) end {
			return end{openFile(t, os.O_RDWR|os.O_APPEND), nil}
		},
	}
	for from, input := range inputs {
		for to, output := range outputs {
			t.Run("from a "+from+" to a "+to, func(t *testing.T) {
				stdin, stdout := input(t), output(t)
				cmd := spantee(t, nil, "--to=/dev/null", "--agent=cursor", "-q")
				cmd.Stdin, cmd.Stdout = stdin.theirs, stdout.theirs
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if stdin.ours != nil {
					stdin.theirs.Close()
					go func() {
						stdin.ours.Write(in)
						if from != "terminal" { // which would drop what was not read yet
							stdin.ours.Close()
						}
					}()
				}
				got := make([]byte, len(in))
				if stdout.ours != nil {
					stdout.theirs.Close()
					if n, err := io.ReadFull(stdout.ours, got); err != nil {
						t.Errorf("%v after %d bytes of %d", err, n, len(in))
					}
					if stdin.ours != nil {
						stdin.ours.Close()
					}
					if more, _ := io.ReadAll(stdout.ours); len(more) > 0 {
						t.Errorf("%d bytes too many came out", len(more))
					}
				}
				if stdout.ours == nil && from == "terminal" {
					awaitSize(t, stdout.theirs, int64(len(in)))
					stdin.ours.Close()
				}
				if err := cmd.Wait(); err != nil && from != "terminal" { // its end is an error of reading
					t.Error(err)
				}
				if stdout.ours == nil {
					var err error
					if got, err = os.ReadFile(stdout.theirs.Name()); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(got, in) {
					t.Error("other bytes came out")
				}
			})
		}
	}
}

// awaitSize waits until a file has grown to a size.
func awaitSize(t *testing.T, f *os.File, size int64) {
	for {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= size {
			return
		}
	}
}
