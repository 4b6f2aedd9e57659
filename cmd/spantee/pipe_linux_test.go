package main

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTeePipe(t *testing.T) {
	inR, inW := newPipe(t)
	outR, outW := newPipe(t)
	if n := teePipe(inR, outW, 100); n != 0 {
		t.Errorf("passed %d bytes of an empty pipe", n)
	}
	inW.WriteString("hello, world")
	if n := teePipe(inR, outW, 5); n != 5 {
		t.Errorf("passed %d bytes of hello", n)
	}
	if n := teePipe(inR, outW, 100); n != 12 {
		t.Errorf("passed %d bytes of hello, world", n)
	}
	inW.Close()
	if in, err := io.ReadAll(inR); string(in) != "hello, world" || err != nil {
		t.Errorf("%q left, %v", in, err)
	}
	if n := teePipe(inR, outW, 100); n != 0 {
		t.Errorf("passed %d bytes at the end", n)
	}
	outW.Close()
	if out, err := io.ReadAll(outR); string(out) != "hellohello, world" || err != nil {
		t.Errorf("passed %q, %v", out, err)
	}
}

func TestTeePipeCannot(t *testing.T) {
	catchSignals() // SIGPIPE
	inR, inW := newPipe(t)
	inW.WriteString("hello")
	fullR, full := newPipe(t)
	for _, f := range []*os.File{inR, full} {
		if err := unix.SetNonblock(int(f.Fd()), false); err != nil { // as most pipes are in a shell
			t.Fatal(err)
		}
	}
	size, err := unix.FcntlInt(full.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	full.Write(make([]byte, size))
	unreadR, unread := newPipe(t)
	unreadR.Close()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, out := range map[string]*os.File{
		"full": full, "not read": unread, "not for writing": fullR, "not a pipe": file,
	} {
		if n := teePipe(inR, out, 100); n != 0 {
			t.Errorf("a pipe that is %s: passed %d bytes", name, n)
		}
	}
	if n := teePipe(file, unread, 100); n != 0 {
		t.Errorf("passed %d bytes of a file", n)
	}
}

func TestEnlargePipe(t *testing.T) {
	r, w := newPipe(t)
	for range 2 {
		enlargePipe(w)
	}
	if size, err := unix.FcntlInt(r.Fd(), unix.F_GETPIPE_SZ, 0); size != bigPipe {
		t.Errorf("%d bytes, %v", size, err)
	}
}
