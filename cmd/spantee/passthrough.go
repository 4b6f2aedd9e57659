package main

import (
	"io"
	"sync/atomic"
)

// A passthrough copies a stream and shows a tap what it copied.
type passthrough struct {
	in      io.Reader
	out     io.Writer
	tap     *tap        // may be nil
	stopped atomic.Bool // by a signal: what is read from now on is not copied
}

// errOutput marks the errors of writing, to tell them from those of reading.
type errOutput struct{ error }

func (e errOutput) Unwrap() error { return e.error }

// run copies until in ends. Bytes are written as they come, before the tap
// sees them: only in and out can stop them, and a tap that is full delay them,
// once.
func (p *passthrough) run() error {
	buf := make([]byte, 128<<10)
	for {
		n, err := p.in.Read(buf)
		if p.stopped.Load() {
			return nil
		}
		if n > 0 {
			if _, err := p.out.Write(buf[:n]); err != nil {
				return errOutput{err}
			}
			p.tap.write(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
