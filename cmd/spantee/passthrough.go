package main

import (
	"io"
	"time"
)

// A passthrough copies a stream and shows a tap what it copied.
type passthrough struct {
	in   io.Reader
	out  io.Writer
	tap  *tap          // may be nil
	busy chan struct{} // full while something that was read is on its way
}

func newPassthrough(in io.Reader, out io.Writer, tap *tap) *passthrough {
	return &passthrough{in: in, out: out, tap: tap, busy: make(chan struct{}, 1)}
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
		p.busy <- struct{}{}
		if n > 0 {
			if _, err := p.out.Write(buf[:n]); err != nil {
				return errOutput{err}
			}
			p.tap.write(buf[:n])
		}
		<-p.busy
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stop ends the copy, which may be reading, between two pieces. It does not
// wait for an out that takes nothing.
func (p *passthrough) stop() {
	select {
	case p.busy <- struct{}{}:
	case <-time.After(livePatience):
	}
}
