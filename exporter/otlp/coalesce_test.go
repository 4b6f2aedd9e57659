package otlp

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// A slowConn is a connection whose writes wait to be taken.
type slowConn struct {
	net.Conn
	writes chan []byte
	closed chan struct{}
}

func (c *slowConn) Write(p []byte) (int, error) {
	select {
	case c.writes <- bytes.Clone(p):
		return len(p), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
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
		if returned != 3 { // the big one waits until nothing is pending
			t.Errorf("%d writes returned before one was taken, want 3", returned)
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
		if written < len(frame) || written >= 2*maxPending { // those that are being written, and those that are pending
			t.Errorf("%d bytes were accepted, of which none was taken, want less than %d", written, 2*maxPending)
		}
		close(slow.closed)
		synctest.Wait()
		if !errors.Is(failed, net.ErrClosed) {
			t.Errorf("the Write that waited returned %v, want %v", failed, net.ErrClosed)
		}
		if _, err := c.Write(frame); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the next Write returned %v, want %v", err, net.ErrClosed)
		}
	})
}
