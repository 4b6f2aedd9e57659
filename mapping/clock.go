package mapping

import (
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// An instant is a number of nanoseconds since 1970, as in OTLP.
type instant = agent.Instant

const (
	microsecond = instant(time.Microsecond)

	// quantum is what all instants are multiples of. A span starts at a multiple
	// and ends a microsecond before one, so that it never ends in the microsecond
	// in which another starts: Jaeger would leave it out of the critical path.
	quantum = 2 * microsecond
)

func quantize(t instant) instant { return t - t%quantum }

// A clock puts the lines of one run on one timeline.
//
// What it knows of a line depends on the source:
//
//	            with a timestamp  without one            before the first one
//	pipe        stamped           arrived                arrived
//	fed         stamped           inferred: the last     inferred: when it came
//	recording   stamped           inferred: the last     inferred: the first
//	followed    stamped           inferred: the last     inferred: when it was read
//
// Fed is a capture that comes through a pipe, from cat. Where arrivals say nothing, a timestamp
// in whole seconds is inferred, too.
//
// In a pipe, arrivals are moved by ahead: the smallest time by which a line has come later than
// its timestamp. What is more is lateness, of that line and of what comes in one burst with it.
// In a file, an arrival is the place of the line. In a recording without timestamps, places are
// stretched to the time that the run took.
type clock struct {
	source    Source
	coarse    bool    // stamps are whole seconds
	fed       bool    // the stream is a capture that comes faster than it was made
	began     instant // when the first line came
	first     instant // the first stamp
	stamped   bool    // a stamp has been seen
	shift     instant // of all times of a recording, see Options.EndNow
	spread    spread  // in a file without timestamps
	lastStamp instant // shifted
	ahead     instant // how far timestamps are ahead of arrivals, at most
	late      burst
	skew      instant // added to timestamps; not 0 if spans placed by arrival were sent before the first
	reached   instant // how far the timeline has come
}

// A burst are lines that come together with one that has a timestamp.
type burst struct {
	from  instant // when it began
	ahead instant // how far its timestamp is ahead of its arrival
}

// Timestamps are believed if they lie between 2000 and 2100, and no more than a day
// after the one before.
var (
	earliest = instant(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	latest   = instant(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
)

const (
	maxJump = instant(24 * time.Hour)

	// A first line that comes so much later than its stamp was stamped by our clock, and is
	// late: the clocks of two machines differ by less, and a recording is older.
	leastLate = 500 * agent.Milliseconds
	mostLate  = instant(time.Minute)

	// maxBack is how far a timestamp may lie before the lines ahead of it. Some lines
	// are held back, and programs that agents start have clocks of their own.
	maxBack = instant(time.Minute)
)

// believed returns a timestamp, or 0 if it is implausible.
func (c *clock) believed(stamp instant) instant {
	stamp = quantize(stamp)
	switch {
	case stamp < earliest || stamp > latest:
		return 0
	case c.stamped && stamp+c.shift > c.lastStamp+maxJump:
		return 0
	}
	return stamp
}

// plausible returns another time that an event states, or 0 if it is implausible: a line tells of
// nothing that was more than a day before.
func (c *clock) plausible(stated instant) instant {
	if t := c.believed(stated); !c.stamped || t+c.shift+maxJump > c.lastStamp {
		return t
	}
	return 0
}

func newClock(s *stream, a *agent.Agent, arrival instant) clock {
	c := clock{source: s.opts.Source, coarse: a.CoarseStamps, began: arrival, shift: s.shift}
	c.spread = spread{from: arrival, at: s.now, scale: 1}
	switch {
	case s.found != nil:
		c.spread.at = earliest // before any timestamp
	case c.source == Recording:
		c.spread.at = s.written()
	}
	return c
}

// foresee takes what a first reading has found.
func (c *clock) foresee(f *foreseen) {
	if f.spread == nil {
		c.stamped, c.first = true, f.first+c.shift
		c.lastStamp, c.reached = c.first, c.first
		return
	}
	c.spread = *f.spread
	c.spread.at += c.shift
}

// live reports whether arrivals are times.
func (c *clock) live() bool { return c.source == Pipe }

// recording reports whether arrivals say nothing about when something happened.
func (c *clock) recording() bool { return !c.live() || c.fed }

// isLate reports whether the first line with a stamp has come late.
func isLate(stamp, arrival instant) bool {
	return stamp+leastLate < arrival && arrival < stamp+mostLate
}

// compare compares how much time has passed by the stream's own account with how much
// has passed since its first line came. A live stream runs ahead only if the agent began
// long before it printed its first line.
func (c *clock) compare(passed, arrival instant) {
	c.fed = c.live() && passed > 10*(arrival-c.began)+10*agent.Milliseconds
}

// setBack reports whether a timestamp lies far before the lines ahead of it. Such a
// clock tells nothing about the line.
func (c *clock) setBack(stamp instant) bool { return stamp != 0 && stamp+c.skew < c.reached-maxBack }

// at returns the moment of a line. Time never runs backwards within a run, because
// a span that ended before it started would show as years long.
func (c *clock) at(stamp, arrival instant) moment {
	m := moment{arrival + c.ahead, agent.Arrived}
	switch {
	case stamp != 0:
		m = moment{stamp + c.skew, agent.Stamped}
		if stamp >= c.lastStamp { // else the line tells of something earlier
			c.late = burst{arrival, m.at - arrival}
		}
		c.lastStamp, c.ahead = stamp, max(c.ahead, c.late.ahead)
		c.compare(stamp-c.first, arrival)
	case c.recording() && c.stamped:
		m.at = c.reached
	case !c.live():
		m.at = c.spread.instant(arrival)
	case c.stamped && arrival <= c.late.from+withinBurst:
		m = m.movedTo(arrival + c.late.ahead)
	}
	if c.recording() && (stamp == 0 || c.coarse) {
		m.known = agent.Inferred
	}
	m = m.notBefore(c.reached)
	c.reached = m.at
	return m
}

// now returns the moment at which something arrives that is no line.
func (c *clock) now(arrival instant) moment { return c.at(0, arrival) }

// judged returns m as it is known now: that a stream is a capture is known only once it has
// come too fast.
func (c *clock) judged(m moment) moment {
	if c.fed && m.known == agent.Arrived {
		m.known = agent.Inferred
	}
	return m
}

// guesses reports whether m is not when it was printed, or better.
func (c *clock) guesses(m moment) bool { return c.judged(m).known == agent.Inferred }

// after returns t, or the earliest later moment at which a span that started at
// start can end. Nothing that follows is earlier.
func (c *clock) after(start, t moment) moment {
	t = t.notBefore(start.at + quantum)
	c.reached = max(c.reached, t.at)
	return t
}

// place puts an event's line on the run's timeline, which it moves on, and returns when that was.
func (r *run) place(ev *agent.Event) moment {
	if (ev.Late || r.agent.CoarseStamps) && !r.clock.recording() && r.clock.stamped {
		ev.Time, ev.Known = 0, agent.Stamped // its arrival is more precise
	}
	for _, t := range []*instant{&ev.Start, &ev.End, &ev.Asked} {
		*t = r.clock.plausible(*t)
	}
	stamp := r.clock.believed(ev.Time)
	if r.ended && !r.clock.live() && !r.clock.stamped {
		stamp = 0 // the run's times are its lines' places
	}
	if stamp != 0 {
		stamp += r.clock.shift
		if !r.clock.stamped {
			r.takeFirstStamp(stamp, ev.Arrival)
		}
	}
	if r.clock.setBack(stamp) {
		stamp = 0
	}
	if ev.Kind == agent.RunEnd && !ev.Early && ev.Length < maxJump {
		r.clock.compare(ev.Length, ev.Arrival)
	}
	at := r.clock.at(stamp, ev.Arrival)
	if at.known == agent.Stamped && ev.Known == agent.Stated {
		at.known = agent.Stated
	}
	if r.events == 1 {
		r.beginAt(at)
	}
	return at
}

// stated returns the moment of a further time that an event states.
func (r *run) stated(t instant) moment {
	return moment{quantize(t) + r.clock.skew + r.clock.shift, agent.Stated}
}

// endedAt returns when what an event ends has ended, if the event states that, and at otherwise:
// some events are printed late.
func (r *run) endedAt(ev *agent.Event, at moment) moment {
	if ev.End != 0 {
		return earlier(r.stated(ev.End), at)
	}
	if stamp := r.clock.believed(ev.Time); stamp != 0 && ev.Known != agent.Inferred && !r.agent.CoarseStamps {
		return earlier(at, moment{r.stated(stamp).at, ev.Known})
	}
	return at
}
