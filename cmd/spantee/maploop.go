package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
)

// A mapLoop reads the pieces of a stream from the tee, maps them, and watches the stream
// between them.
type mapLoop struct {
	stream     *tracer.Stream
	sinks      *sinks
	ending     *ending
	reporter   *reporter
	tee        *tee.Tee
	done       chan struct{} // closed when the stream is mapped
	stallAfter time.Duration // 0 if the agent may be silent
	log        follow.LogSearch
	ahead      io.Reader // of a recording: all of it, nil without one

	lastArrival time.Time // of bytes
	stalled     bool      // since then

	atEnd func(*mapping.Mapper) // called before the mapper is closed; may be nil

	// The result, once done is closed.
	lost        tee.Lost
	unprotected error
}

// start begins to trace what the tee copies from in to out.
func (s *setup) start(in io.Reader, out *os.File) *mapLoop {
	l := &mapLoop{
		stream: s.stream, sinks: s.sinks, ending: s.ending, reporter: s.sinks.reporter,
		done: make(chan struct{}), stallAfter: s.sinks.opts.stallAfter, lastArrival: time.Now(), ahead: s.ahead,
	}
	l.sinks.activity.status = l.reporter.mayShowStatus(out)
	l.tee = tee.New(in, out, tee.Options{Waits: !l.sinks.common.Live, Progress: l.stream.Emitted})
	if l.sinks.needed {
		go l.run()
	} else {
		l.tee.Detach(errUnneeded)
		close(l.done)
	}
	return l
}

// errUnneeded detaches a mapper whose spans have no destination.
var errUnneeded = errors.New("tracing is disabled")

// run maps the stream until its end. If the mapper panics, the stream goes on.
func (l *mapLoop) run() {
	defer close(l.done)
	l.mapStream()
	l.finish()
}

// catchPanic is deferred, and detaches a mapper that panics.
func (l *mapLoop) catchPanic() {
	if why := recover(); why != nil {
		l.tee.Detach(fmt.Errorf("a bug in spantee: %v", why))
	}
}

// tickInterval is how often the stream is watched, whether anything comes or not.
const tickInterval = time.Second

// mapStream maps what the tee has read, until its end.
func (l *mapLoop) mapStream() {
	defer l.catchPanic()
	if l.ahead != nil {
		l.stream.Mapper.Survey(untilStopped{l.ahead, l.tee})
	}
	for due := time.Now(); ; {
		if now := time.Now(); !now.Before(due) {
			l.tick(now)
			due = now.Add(tickInterval)
		}
		bytes, arrived, err := l.tee.Next(due)
		if err != nil {
			return
		}
		if len(bytes) == 0 {
			continue
		}
		l.lastArrival, l.stalled, l.sinks.activity.silent = arrived, false, 0
		l.sinks.metrics.received(arrived)
		l.stream.Write(bytes, arrived)
		l.mapped(arrived)
	}
}

// untilStopped reads while the tee was not stopped.
type untilStopped struct {
	io.Reader
	tee *tee.Tee
}

func (r untilStopped) Read(p []byte) (int, error) {
	if r.tee.Stopped() {
		return 0, io.EOF
	}
	return r.Reader.Read(p)
}

// mapped does what is due because a piece of the stream was mapped.
func (l *mapLoop) mapped(arrived time.Time) {
	stats := l.stream.Mapper.Stats()
	l.sinks.claims.Begun(stats.Session, stats.Runs)
	if l.sinks.common.Live {
		l.log.Begin(l.stream.Mapper, arrived)
	}
	l.checkLimits(0)
}

// tick does what is due because time passes.
func (l *mapLoop) tick(now time.Time) {
	idle := now.Sub(l.lastArrival)
	if l.sinks.common.Live {
		l.stream.EndLine(l.lastArrival)
	}
	l.log.Search(l.stream.Mapper)
	l.checkStall(now, idle)
	l.checkLimits(idle)
	l.sinks.activity.silent = idle
	l.stream.Tick(now, l.sinks.watched())
}

// checkStall reports once that the agent is silent.
func (l *mapLoop) checkStall(now time.Time, idle time.Duration) {
	if !l.sinks.common.Live || l.stallAfter == 0 || l.stalled || idle < l.stallAfter {
		return
	}
	l.stalled = true
	l.stream.At(now)
	for _, agent := range l.stream.Mapper.NoteStall(idle) {
		l.reporter.stalled(agent, idle)
		l.sinks.metrics.stalled(agent)
	}
	l.stream.Changed()
}

// checkLimits reports the limits that were reached since the last call and, with
// --on-limit=kill, ends the agent. With --grace, it ends an agent that stays after its result.
func (l *mapLoop) checkLimits(idle time.Duration) {
	finished := func() bool {
		_, finished := l.stream.Mapper.Finished()
		return finished
	}
	for _, limit := range l.sinks.limits.Reached(idle) {
		l.stream.Mapper.NoteLimit(limit)
		l.stream.Changed()
		action := ""
		if l.sinks.limits.Enforce(limit, finished()) {
			action = ": ending the agent"
		}
		l.reporter.say("the agent reached --%s%s", limit, action)
	}
	if l.sinks.limits.EndGrace(idle, finished) {
		l.reporter.say("the agent has not exited although it printed its result and then nothing for %v: ending it", l.sinks.limits.Grace)
	}
}

// finish ends all spans.
func (l *mapLoop) finish() {
	defer l.catchPanic()
	whole, lost := l.tee.Ended()
	l.reporter.w.Status("")
	l.stream.At(time.Now())
	l.lost = lost
	l.stream.Mapper.SetUntraced(lost.Bytes, lost.Lines)
	if l.atEnd != nil {
		l.atEnd(l.stream.Mapper)
	}
	l.unprotected = l.stream.Close(!whole)
}

// mapperReserve is the part of the flush timeout that is left for a mapper that has
// waited for the disk all the time. With a flush timeout under a second, a mapper
// that makes no progress gets this long in addition to half of that.
const mapperReserve = 500 * time.Millisecond

// end ends the trace. All of it, whatever is waited for, ends by one deadline: the flush
// timeout after the stream ended or, if the mapper had a backlog, after the mapper made
// its last progress.
func (l *mapLoop) end(interrupted bool) {
	spent, ok := l.awaitMapper(interrupted)
	o := &l.ending.result
	if !ok {
		o.failure, o.lost, o.hangs = cmp.Or(l.tee.Err(), tee.ErrStalled), l.tee.Lost(), true
		l.ending.endBy(0)
		if l.sinks.exporter == nil {
			l.ending.endMetrics(exporter.Report{})
		}
		return
	}
	o.stats, o.unprotected = l.stream.Mapper.Stats(), l.unprotected
	l.reporter.unknownTypes(l.stream.Mapper.UnknownTypes())
	if err := l.tee.Err(); !errors.Is(err, errUnneeded) {
		o.failure, o.lost = err, l.lost
	}
	l.ending.endAll(spent)
}

// awaitMapper waits for the mapper as long as the mapper makes progress. It returns
// whether the mapper has finished, and how much of the flush timeout was spent.
func (l *mapLoop) awaitMapper(interrupted bool) (spent time.Duration, finished bool) {
	l.tee.End(!interrupted)
	if !l.sinks.common.Live && !interrupted { // leave it to the exporter, which notices when a collector accepts nothing
		_, finished = l.tee.Await(l.done, math.MaxInt64)
		return 0, finished
	}
	l.sinks.endStream()
	patience := max(l.ending.timeout-mapperReserve, l.ending.timeout/2)
	l.ending.endBy(patience / 2) // the mapper may be waiting for stderr
	if spent, finished = l.tee.Await(l.done, patience); finished {
		return spent, true
	}
	// The mapper may be waiting for the exporter's disk, which Close gives up.
	l.ending.endBy(0)
	l.ending.deliverSpans()
	_, finished = l.tee.Await(l.done, mapperReserve)
	return l.ending.timeout, finished
}
