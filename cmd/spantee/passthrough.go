package main

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// pieceSize is how much is copied at once. It is small enough that a piece is still
// in the processor's cache when it is written and when it is mapped, and large enough
// that the programs in the pipe rarely wait for each other.
const pieceSize = 512 << 10

// A passthrough copies a stream and shows a tap what it copied.
type passthrough struct {
	in      io.Reader
	out     io.Writer
	tap     *tap          // may be nil
	busy    chan struct{} // full from when a piece has been read, or is passed by teePipe, until the tap has it
	stopped atomic.Bool
	ended   chan error // what run returns
}

func newPassthrough(in io.Reader, out io.Writer, tap *tap) *passthrough {
	p := &passthrough{in: in, out: out, tap: tap, busy: make(chan struct{}, 1), ended: make(chan error, 1)}
	if tap != nil {
		tap.handOver = p.handOver
	}
	return p
}

// errOutput marks write errors, to distinguish them from read errors.
type errOutput struct{ error }

func (e errOutput) Unwrap() error { return e.error }

// run copies until in ends. Bytes are written as they come, before the tap sees
// them. Only an error of in or out stops the copy; the tap delays it while the spill
// is written or full.
func (p *passthrough) run() error {
	go p.start()
	return <-p.ended
}

func (p *passthrough) start() {
	if err := p.copy(); !errors.Is(err, errHandedOver) {
		p.ended <- err
	}
}

// handOver lets another goroutine copy, because the one that does hangs in the tap.
func (p *passthrough) handOver() {
	<-p.busy
	go p.start()
}

// errHandedOver ends a copy that another goroutine continues.
var errHandedOver = errors.New("handed over")

func (p *passthrough) copy() error {
	scratch := make([]byte, pieceSize)
	var buf []byte
	bulk := false
	for fullReads := 0; !p.stopped.Load(); {
		if buf == nil {
			buf = p.tap.space(scratch)
		}
		n, err := p.pass(buf, bulk)
		if n > 0 {
			if !p.tap.wrote(buf[:n]) {
				return errHandedOver
			}
			buf = nil
		}
		<-p.busy
		if errors.Is(err, io.EOF) {
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
		bulk = n >= fullPipe && fullReads >= bulkReads
	}
	return nil
}

// pass reads a piece into buf and writes it to out. It returns the length of what it
// has written, with p.busy full. Writing copies each byte, which takes a fifth of the
// time of a fast stream: in bulk, out gets the pages of in instead, unless in is a
// reader that decides itself where the stream ends.
func (p *passthrough) pass(buf []byte, bulk bool) (int, error) {
	in, isFile := p.in.(*os.File)
	out, ok := p.out.(*os.File)
	if bulk && isFile && ok {
		p.busy <- struct{}{}
		if n := teePipe(in, out, len(buf)); n > 0 {
			return io.ReadFull(in, buf[:n])
		}
		<-p.busy
	}
	n, err := p.in.Read(buf)
	p.busy <- struct{}{}
	if n > 0 {
		if _, err := p.out.Write(buf[:n]); err != nil {
			return 0, errOutput{err}
		}
	}
	return n, err
}

// After bulkReads reads of a full default pipe, a stream counts as bulk. Pipes are
// enlarged only then, because a thousand idle pipes of 1 MiB would use up a user's
// allowance.
const (
	fullPipe  = 64 << 10
	bulkReads = 8
)

// stop ends the copy between two pieces, even if the copy is blocked reading. It
// does not wait for an out that accepts nothing, nor for a tap that has no room.
func (p *passthrough) stop() {
	p.stopped.Store(true)
	select {
	case p.busy <- struct{}{}:
	case <-time.After(stopPatience):
	}
}

// stopPatience is how long stop waits for a piece.
const stopPatience = 100 * time.Millisecond
