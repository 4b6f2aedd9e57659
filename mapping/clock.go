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
// In a live pipe, a line without a timestamp is placed by its arrival time,
// corrected by the offset of the newest timestamp from its own arrival: an old
// capture fed through cat keeps its own times. In a recording, arrivals mean
// nothing, and an arrival is the line number: a line without a timestamp inherits
// the last one.
type clock struct {
	replay    bool
	stamped   bool    // a stamp has been seen
	shift     instant // of all stamps, see Options.Shift
	lastStamp instant // shifted
	offset    instant // of the newest timestamp from its arrival
	skew      instant // added to timestamps; not 0 if spans placed by arrival were sent before the first
	last      instant
}

// Timestamps are believed if they lie between 2000 and 2100 and within a day of the
// one before.
var (
	earliest = instant(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	latest   = instant(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
)

const maxJump = instant(24 * time.Hour)

// believed returns a timestamp, or 0 if it is implausible.
func (c *clock) believed(stamp instant) instant {
	stamp = quantize(stamp)
	switch {
	case stamp < earliest || stamp > latest:
		return 0
	case c.stamped && (stamp+c.shift > c.lastStamp+maxJump || stamp+c.shift < c.lastStamp-maxJump):
		return 0
	}
	return stamp
}

// at returns the instant of a line. Time never runs backwards within a run, because
// a span that ended before it started would show as years long.
func (c *clock) at(stamp, arrival instant) instant {
	t := arrival + c.offset
	switch {
	case stamp != 0:
		c.stamped, c.lastStamp = true, stamp
		t = stamp + c.skew
		c.offset = t - arrival
	case c.replay && c.stamped:
		t = c.last
	}
	c.last = max(c.last, t)
	return c.last
}

// after returns t, or the earliest later instant at which a span that started at
// start can end. Nothing that follows is earlier.
func (c *clock) after(start, t instant) instant {
	t = max(t, start+quantum)
	c.last = max(c.last, t)
	return t
}
