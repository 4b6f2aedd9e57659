package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slowConn is a connection whose writes wait to be taken.
type slowConn struct {
	net.Conn
	writes chan []byte
	closed chan struct{}
	once   sync.Once
}

func (c *slowConn) Write(p []byte) (int, error) {
	select {
	case c.writes <- bytes.Clone(p):
		return len(p), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func newSlowConn() *slowConn {
	return &slowConn{writes: make(chan []byte), closed: make(chan struct{})}
}

// TestCoalesce writes more than is taken, and expects it in few pieces.
func TestCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowConn()
		c := coalesce(slow)
		frame, big := bytes.Repeat([]byte("f"), 16<<10), bytes.Repeat([]byte("b"), maxPending)
		var want []byte
		returned := 0
		go func() {
			for _, p := range [][]byte{[]byte("first"), frame, frame, big, frame, nil, frame} {
				want = append(want, p...)
				if n, err := c.Write(p); n != len(p) || err != nil {
					t.Errorf("Write of %d bytes returned %d, %v", len(p), n, err)
				}
				returned++
			}
		}()
		synctest.Wait()
		if returned == 7 {
			t.Error("all writes returned before one was taken")
		}
		var got []byte
		var sizes []int
		for synctest.Wait(); len(got) < len(want); synctest.Wait() {
			p := <-slow.writes
			got, sizes = append(got, p...), append(sizes, len(p))
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes were written, in another order or others than the %d", len(got), len(want))
		}
		if most := 5; len(sizes) > most || returned != 7 {
			t.Errorf("the pieces have %v bytes after %d writes, want at most %d pieces", sizes, returned, most)
		}
	})
}

// TestCoalesceBound writes until Write waits.
func TestCoalesceBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowConn()
		c := coalesce(slow)
		frame := make([]byte, 16<<10)
		written := 0
		var failed error
		go func() {
			for failed == nil {
				if _, failed = c.Write(frame); failed == nil {
					written += len(frame)
				}
			}
		}()
		synctest.Wait()
		if written < len(frame) || written > 2*maxPending { // those that are being written, and those that are pending
			t.Errorf("%d bytes were accepted, of which none was taken, want at most %d", written, 2*maxPending)
		}
		_ = slow.Close()
		synctest.Wait()
		if !errors.Is(failed, net.ErrClosed) {
			t.Errorf("the Write that waited returned %v, want %v", failed, net.ErrClosed)
		}
		if _, err := c.Write(frame); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the next Write returned %v, want %v", err, net.ErrClosed)
		}
	})
}

// TestCoalesceClose writes just before the end, as TLS does, to one that reads and to
// one that does not.
func TestCoalesceClose(t *testing.T) {
	near, far := net.Pipe()
	c := coalesce(near)
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(far)
		read <- fmt.Sprintf("%s %v", all, err)
	}()
	good := strings.Repeat("good", bigFrame)
	for _, s := range []string{good, "bye"} {
		if _, err := c.Write([]byte(s)); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(c.SetWriteDeadline(time.Now()), c.Close()); err != nil {
		t.Error(err)
	}
	if got, want := <-read, good+"bye <nil>"; got != want {
		t.Errorf("read %d bytes that end with %.40q, want %d", len(got), got[max(0, len(got)-40):], len(want))
	}
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowConn()
		c := coalesce(slow)
		_, _ = c.Write(make([]byte, bigFrame))
		_, _ = c.Write([]byte("bye"))
		_ = c.Close()
		if _, err := c.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the Write after Close returned %v, want %v", err, net.ErrClosed)
		}
	})
}
