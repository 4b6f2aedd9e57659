package main

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// pieceSize is how much is copied at once. It is small enough that a piece is still
// in the processor's cache when it is written and when it is mapped, and large enough
// that the programs in the pipe rarely wait for each other.
const pieceSize = 256 << 10

// A passthrough copies a stream and shows a tap what it copied.
type passthrough struct {
	in      io.Reader
	out     io.Writer
	tap     *tap          // may be nil
	busy    chan struct{} // full while a piece has been read and not yet written
	stopped atomic.Bool
}

func newPassthrough(in io.Reader, out io.Writer, tap *tap) *passthrough {
	return &passthrough{in: in, out: out, tap: tap, busy: make(chan struct{}, 1)}
}

// errOutput marks write errors, to distinguish them from read errors.
type errOutput struct{ error }

func (e errOutput) Unwrap() error { return e.error }

// run copies until in ends. Bytes are written as they come, before the tap sees
// them. Only an error of in or out stops the copy; the tap delays it while the
// mapper is behind and the spill is full. A copy that hangs in the tap, because of the
// disk, is continued by another one.
func (p *passthrough) run() error {
	ended := make(chan error, 1)
	var start func()
	start = func() {
		handOver := func() {
			<-p.busy
			go start()
		}
		if err := p.copy(handOver); !errors.Is(err, errHandedOver) {
			ended <- err
		}
	}
	go start()
	return <-ended
}

// errHandedOver ends a copy that another one continues.
var errHandedOver = errors.New("handed over")

func (p *passthrough) copy(handOver func()) error {
	scratch := make([]byte, pieceSize)
	var buf []byte
	for fullReads := 0; !p.stopped.Load(); {
		if buf == nil {
			buf = p.tap.space(scratch)
		}
		n, err := p.in.Read(buf)
		p.busy <- struct{}{}
		if n > 0 {
			if _, err := p.out.Write(buf[:n]); err != nil {
				return errOutput{err}
			}
			if !p.tap.wrote(buf[:n], handOver) {
				return errHandedOver
			}
			buf = nil
		}
		<-p.busy
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n >= fullPipe {
			if fullReads++; fullReads == bulkReads {
				enlargePipe(p.in)
				enlargePipe(p.out)
			}
		}
	}
	return nil
}

// After bulkReads reads of a full default pipe, a stream counts as bulk. Pipes are
// enlarged only then, because a thousand idle pipes of 1 MiB would use up a user's
// allowance.
const (
	fullPipe  = 64 << 10
	bulkReads = 8
)

// stop ends the copy between two pieces, even if the copy is blocked reading. It
// does not wait for an out that accepts nothing.
func (p *passthrough) stop() {
	p.stopped.Store(true)
	select {
	case p.busy <- struct{}{}:
	case <-time.After(stopPatience):
	}
}

// stopPatience is how long stop waits for a piece to be written.
const stopPatience = 100 * time.Millisecond
