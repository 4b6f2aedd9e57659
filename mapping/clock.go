package mapping

// An instant is nanoseconds since 1970, as OTLP has it.
type instant int64

func (t instant) seconds(since instant) float64 {
	return float64(t-since) / 1e9
}

// A clock puts the lines of one run on one timeline.
//
// Of a live pipe, a line without a stamp counts by its arrival, corrected by
// how far the newest stamp lay from its own arrival: so an old capture fed
// through cat stays where its stamps are. In a replay arrival means nothing
// and is the number of the line: a line without a stamp inherits the last one.
type clock struct {
	replay  bool
	stamped bool    // a stamp has been seen
	offset  instant // of the newest stamp from its arrival
	skew    instant // added to stamps; not 0 if arrivals were sent before the first
	last    instant
}

// at returns the instant of a line. Time never runs back within a run: a span
// that ended before it starts would show as years long.
func (c *clock) at(stamp, arrival instant) instant {
	t := arrival + c.offset
	switch {
	case stamp != 0:
		t, c.stamped = stamp+c.skew, true
		c.offset = t - arrival
	case c.replay && c.stamped:
		t = c.last
	}
	c.last = max(c.last, t)
	return c.last
}
