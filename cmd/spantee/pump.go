package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/mapping"
)

// A pump takes the pieces of a stream from the tee, maps them, and watches the stream
// between them.
type pump struct {
	*tracing
	tee    *tee.Tee
	done   chan struct{} // closed when the stream is mapped
	watch  watch
	status *statusLine // nil if none is drawn

	atEnd func(*mapping.Mapper) // called before the mapper is closed; may be nil

	// The result, once done is closed.
	lost        tee.Lost
	unprotected error
}

// start returns the copy from in to out, and begins to trace it.
func (t *tracing) start(in io.Reader, out *os.File) *tee.Tee {
	p := &pump{tracing: t, done: make(chan struct{}), status: newStatusLine(t.say, out), watch: watch{tracing: t, lastArrival: time.Now()}}
	p.tee = tee.New(in, out, tee.Options{
		Recording: !t.to.Live, SpillDir: t.spillDir(), SpillMax: t.spillMax.bytes,
		Ahead:    t.aheadOfKill(),
		Progress: t.stream.Emitted, Hurry: func() { t.setWait(false) },
	})
	t.pump = p
	if t.hasDestination() || t.metrics != nil || t.limits != nil {
		go p.run()
	} else {
		p.tee.Detach(errUnneeded)
		close(p.done)
	}
	return p.tee
}

// maxAhead is how long the first bytes may wait for a disk, within the flush timeout.
const maxAhead = 250 * time.Millisecond

// aheadOfKill returns how long the first bytes may wait until their run is in the journal:
// if spantee is killed, what came out has at least a root.
func (t *tracing) aheadOfKill() time.Duration {
	if !t.to.Live || t.to.Exporter == nil || t.cfg.spool == nil {
		return 0
	}
	return min(maxAhead, t.flushTimeout)
}

// errUnneeded detaches a mapper whose spans have no destination.
var errUnneeded = errors.New("tracing is disabled")

// run maps the stream until its end. If the mapper panics, the stream goes on.
func (p *pump) run() {
	defer close(p.done)
	p.guard(p.follow)
	whole, lost := p.tee.Ended()
	p.guard(func() { p.finish(whole, lost) })
}

// guard recovers a panic of the mapper.
func (p *pump) guard(f func()) {
	defer func() {
		if why := recover(); why != nil {
			p.tee.Detach(fmt.Errorf("a bug in spantee: %v", why))
		}
	}()
	f()
}

// follow maps the stream.
func (p *pump) follow() {
	buf := make([]byte, tracer.MaxPiece)
	behind := false
	for due := after(p.tick()); ; {
		piece, err := p.tee.Next(buf, due)
		if err != nil {
			return
		}
		if len(piece.Bytes) > 0 {
			if piece.Behind != behind {
				behind = piece.Behind
				p.setWait(behind)
			}
			p.consume(piece.Bytes, piece.Arrived)
		}
		soon := time.Now().Add(time.Second)
		switch {
		case !due.IsZero() && !due.Add(time.Second).After(soon):
			due = after(p.tick())
		case due.IsZero() || due.After(soon):
			due = soon
		}
	}
}

// after returns when a delay is over, the zero time if there is none.
func after(delay time.Duration) time.Time {
	if delay == 0 {
		return time.Time{}
	}
	return time.Now().Add(delay)
}

// consume maps a piece of the stream.
func (p *pump) consume(bytes []byte, arrived time.Time) {
	p.watch.arrived(arrived)
	p.metrics.count()
	p.open.fitViewer()
	p.stream.Write(bytes, arrived)
	p.claims.begun(p.stream.Mapper.Stats())
	p.watch.act()
	p.open.showChanged()
}

// tick is called one second after bytes arrive, again until the journal has
// everything, and when the stream may have been silent for too long. It returns how
// long until it must be called in any case, 0 for never.
func (p *pump) tick() time.Duration {
	now := time.Now()
	next := soonest(p.watch.look(now), soonest(p.open.show(), p.status.show(now, p)))
	if p.stream.Save() {
		next = soonest(next, time.Second)
	}
	p.metrics.save()
	return next
}

// finish ends all spans.
func (p *pump) finish(whole bool, lost tee.Lost) {
	p.status.erase()
	p.stream.At(time.Now())
	p.lost = lost
	p.stream.Mapper.SetUntraced(lost.Bytes, lost.Lines)
	if p.atEnd != nil {
		p.atEnd(p.stream.Mapper)
	}
	p.unprotected = p.stream.Close(!whole)
	go p.metrics.count() // while the spans are delivered
}
