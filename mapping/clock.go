package mapping

import (
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// An instant is a number of nanoseconds since 1970, as in OTLP.
type instant = agent.Instant

const (
	microsecond = instant(time.Microsecond)

	// quantum is what all instants are multiples of: spans start at one, and end
	// a microsecond before one. So no span ever ends at the microsecond at which
	// another starts, which makes Jaeger leave it out of the critical path.
	quantum = 2 * microsecond
)

func quantize(t instant) instant { return t - t%quantum }

// A clock puts the lines of one run on one timeline.
//
// In a live pipe, a line without a stamp counts by its arrival, corrected by
// the distance between the newest stamp and its own arrival: so an old capture
// fed through cat stays where its stamps are. In a recording arrivals mean
// nothing, and an arrival is the number of the line: a line without a stamp
// inherits the last one.
type clock struct {
	replay    bool
	stamped   bool    // a stamp has been seen
	shift     instant // of all stamps, see Options.Shift
	lastStamp instant // shifted
	offset    instant // from the arrival of the newest stamp to it
	skew      instant // added to stamps; not 0 if arrivals were sent before the first
	last      instant
}

// The stamps that are believed lie between 2000 and 2100 and within a day of
// the one before.
var (
	earliest = instant(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	latest   = instant(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
)

const maxJump = instant(24 * time.Hour)

// believed returns a stamp, 0 if it cannot be one.
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

// at returns the instant of a line. Time never runs back within a run: a span
// that ended before it starts would show as years long.
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

// after returns t, or as little later as a span that lasts from start to t
// needs. What follows is no earlier.
func (c *clock) after(start, t instant) instant {
	t = max(t, start+quantum)
	c.last = max(c.last, t)
	return t
}
