package otlp

import (
	"net"
	"sync"
	"time"
)

// A coalescingConn is a connection that writes big frames in the background, and joins
// what is written meanwhile. net/http writes each HTTP/2 frame by itself, 16 KiB of a
// request, and each write wakes a collector on the same machine: that took a sixth of
// the time of a stream of small tool calls.
//
// The error of a write is returned by the next Write. That is no loss, because only an
// answer confirms a request.
type coalescingConn struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond // of what follows
	pending []byte    // to be written next
	spare   []byte    // the other buffer
	writing bool      // a goroutine writes
	err     error     // of the write that failed
}

const (
	// maxPending is how many bytes may be pending, if none of them came in a larger
	// Write.
	maxPending = 128 << 10

	// lastWrite is how long Close waits for what is pending, such as the alert that
	// ends TLS.
	lastWrite = 20 * time.Millisecond

	// bigFrame is the size from which a frame may be one of many. To start a goroutine
	// for each of the small ones would delay a short session.
	bigFrame = 16 << 10
)

func coalesce(conn net.Conn) net.Conn {
	c := &coalescingConn{Conn: conn}
	c.changed.L = &c.mu
	return c
}

// Write waits for room, not until p is written, unless p is small and nothing else is
// being written.
func (c *coalescingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) > 0 && len(c.pending)+len(p) > maxPending && c.err == nil {
		c.changed.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if !c.writing && len(p) < bigFrame {
		var n int
		n, c.err = c.Conn.Write(p)
		return n, c.err
	}
	c.pending = append(c.pending, p...)
	if !c.writing {
		c.writing = true
		go c.writePending()
	}
	return len(p), nil
}

// SetWriteDeadline does nothing. crypto/tls would cut off with it what it has just
// written.
func (c *coalescingConn) SetWriteDeadline(time.Time) error { return nil }

// Close closes the connection once nothing is pending, or after lastWrite.
func (c *coalescingConn) Close() error {
	late := time.AfterFunc(lastWrite, func() { _ = c.Conn.Close() })
	c.mu.Lock()
	for c.writing {
		c.changed.Wait()
	}
	c.mu.Unlock()
	late.Stop()
	return c.Conn.Close()
}

// writePending writes until nothing is pending.
func (c *coalescingConn) writePending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) > 0 && c.err == nil {
		p := c.pending
		c.pending = c.spare[:0]
		c.changed.Broadcast()
		c.mu.Unlock()
		_, err := c.Conn.Write(p)
		c.mu.Lock()
		c.spare, c.err = p, err
	}
	c.writing = false
	c.changed.Broadcast()
}
