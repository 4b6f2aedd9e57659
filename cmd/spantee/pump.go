package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/mapping"
)

// A pump takes the pieces of a stream from the tee, maps them, and watches the stream
// between them.
type pump struct {
	*tracing
	tee  *tee.Tee
	done chan struct{} // closed when the stream is mapped
	log  logSearch

	lastArrival time.Time // of bytes
	stalled     bool      // since then
	generation  int       // of the runs

	atEnd func(*mapping.Mapper) // called before the mapper is closed; may be nil

	// The result, once done is closed.
	lost        tee.Lost
	unprotected error
}

// start begins to trace what the tee copies from in to out.
func (t *tracing) start(in io.Reader, out *os.File) *pump {
	t.open.status = t.say.mayShowStatus(out)
	p := &pump{tracing: t, done: make(chan struct{}), lastArrival: time.Now()}
	p.tee = tee.New(in, out, tee.Options{Recording: !t.to.Live, Progress: t.stream.Emitted})
	if t.isNeeded() {
		go p.run()
	} else {
		p.tee.Detach(errUnneeded)
		close(p.done)
	}
	return p
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

// tickInterval is how often the stream is watched, whether anything comes or not.
const tickInterval = time.Second

// follow maps the stream.
func (p *pump) follow() {
	for due := time.Now(); ; {
		if now := time.Now(); !now.Before(due) {
			p.tick(now)
			due = now.Add(tickInterval)
		}
		bytes, arrived, err := p.tee.Next(due)
		switch {
		case err != nil:
			return
		case len(bytes) > 0:
			p.consume(bytes, arrived)
		}
	}
}

// consume maps a piece of the stream.
func (p *pump) consume(bytes []byte, arrived time.Time) {
	p.lastArrival, p.stalled = arrived, false
	p.metrics.received(arrived)
	p.open.fitViewer()
	p.stream.Write(bytes, arrived)
	stats := p.stream.Mapper.Stats()
	p.claims.begun(stats.Session, stats.Runs)
	if p.to.Live {
		p.log.follow(p.stream.Mapper, arrived)
	}
	p.checkLimits(0)
	if stats.Generation != p.generation {
		p.generation = stats.Generation
		p.open.tick(time.Now(), 0)
	}
}

// tick does what is due because time passes.
func (p *pump) tick(now time.Time) {
	idle := now.Sub(p.lastArrival)
	p.log.search(p.stream.Mapper)
	p.checkStall(now, idle)
	p.checkLimits(idle)
	p.open.tick(now, idle)
	p.stream.Save()
	p.metrics.save()
}

// checkStall reports once that the agent is silent.
func (p *pump) checkStall(now time.Time, idle time.Duration) {
	if !p.to.Live || p.stallAfter == 0 || p.stalled || idle < p.stallAfter {
		return
	}
	p.stalled = true
	p.stream.At(now)
	for _, agent := range p.stream.Mapper.NoteStall(idle) {
		p.say.stalled(agent, idle)
		p.metrics.stalled(agent)
	}
	p.stream.Changed()
}

// checkLimits reports the limits that were reached since the last call and, with
// --on-limit=kill, ends the agent. With --grace, it ends an agent that stays after its result.
func (p *pump) checkLimits(idle time.Duration) {
	for _, limit := range p.limits.check(idle) {
		p.stream.Mapper.NoteLimit(limit)
		p.stream.Changed()
		kill := p.limits.onLimit == onLimitKill
		if kill {
			_, finished := p.stream.Mapper.Finished()
			p.limits.end(finished && isTime(limit))
		}
		p.say.limitReached(limit, kill)
	}
	if p.limits.graceIsOver(idle) {
		if _, finished := p.stream.Mapper.Finished(); finished {
			p.limits.end(true)
			p.say.graceOver(p.limits.grace)
		}
	}
}

// finish ends all spans.
func (p *pump) finish(whole bool, lost tee.Lost) {
	p.say.w.Status("")
	p.stream.At(time.Now())
	p.lost = lost
	p.stream.Mapper.SetUntraced(lost.Bytes, lost.Lines)
	if p.atEnd != nil {
		p.atEnd(p.stream.Mapper)
	}
	p.unprotected = p.stream.Close(!whole)
}

// mapperReserve is the part of the flush timeout that is left for a mapper that has
// waited for the disk all the time. With a flush timeout under a second, a mapper
// that makes no progress gets this long in addition to half of that.
const mapperReserve = 500 * time.Millisecond

// end ends the trace. All of it, whatever is waited for, ends by one deadline: the flush
// timeout after the stream ended or, if the mapper had a backlog, after the mapper made
// its last progress.
func (p *pump) end(interrupted bool) {
	defer p.open.feed.Close()
	idle, ok := p.awaitMapper(interrupted)
	p.endBy(p.flushTimeout - min(idle, p.flushTimeout))
	o := &p.result
	if !ok {
		o.failure, o.lost, o.hangs = cmp.Or(p.tee.Err(), tee.ErrStalled), p.tee.Lost(), true
		p.endMetrics()
		return
	}
	o.stats, o.unprotected = p.stream.Mapper.Stats(), p.unprotected
	p.say.unknownTypes(p.stream.Mapper.UnknownTypes())
	if err := p.tee.Err(); !errors.Is(err, errUnneeded) {
		o.failure, o.lost = err, p.lost
	}
	p.endAll()
}

// awaitMapper waits for the mapper as long as the mapper makes progress. It returns
// whether the mapper has finished, and how much of the flush timeout was spent.
func (p *pump) awaitMapper(interrupted bool) (spent time.Duration, finished bool) {
	p.tee.End(!interrupted)
	if !p.to.Live && !interrupted { // leave it to the exporter, which notices when a collector accepts nothing
		_, finished = p.tee.Await(p.done, math.MaxInt64)
		return 0, finished
	}
	p.setWait(false)
	patience := max(p.flushTimeout-mapperReserve, p.flushTimeout/2)
	p.endBy(patience / 2) // the mapper may be waiting for stderr
	if spent, finished = p.tee.Await(p.done, patience); finished {
		return spent, true
	}
	// The mapper may be waiting for the exporter's disk, which Close gives up.
	p.endBy(0)
	p.deliverSpans()
	_, finished = p.tee.Await(p.done, mapperReserve)
	return p.flushTimeout, finished
}
