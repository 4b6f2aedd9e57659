package otlp

import (
	"net"
	"sync"
)

// A coalescingConn is a connection that writes in the background, and joins what is
// written meanwhile. net/http writes each HTTP/2 frame by itself, 16 KiB of a request,
// and each write wakes a collector on the same machine: that took a sixth of the
// time of a stream of small tool calls.
//
// The error of a write is returned by the next Write. Nothing is lost by that: only an
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

// maxPending is more than may be pending. A Write of as much is not joined with others.
const maxPending = 128 << 10

func coalesce(conn net.Conn) net.Conn {
	c := &coalescingConn{Conn: conn}
	c.changed.L = &c.mu
	return c
}

// Write waits for room, not until p is written.
func (c *coalescingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing && len(c.pending)+len(p) >= maxPending {
		c.changed.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case len(p) >= maxPending: // nothing is pending
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
