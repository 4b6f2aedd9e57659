package main

import (
	"time"
)

// A watch looks after a live stream once a second: it tells of a stall, and exec's
// limits.
type watch struct {
	stallAfter time.Duration // zero for never
	stalled    bool          // since the last byte
	limits     *limits       // nil if there are none
}

// look is called every second. came is when the last bytes did.
func (t *tracing) look(now time.Time) {
	idle := now.Sub(t.heard)
	if after := t.watch.stallAfter; t.live && after > 0 && idle >= after && !t.watch.stalled {
		t.watch.stalled = true
		t.came = now
		for _, agent := range t.mapper.Stalled(idle) {
			t.say.stalled(agent, idle)
			if t.metrics != nil {
				t.metrics.Stalled(agent)
			}
		}
		t.changed = true
	}
	if l := t.watch.limits; l != nil {
		t.reached(l.checkTime(now, idle))
	}
}

// reached acts on a limit; "" is none.
func (t *tracing) reached(limit string) {
	if limit == "" {
		return
	}
	t.mapper.LimitReached(limit)
	t.changed = true
	t.watch.limits.reached(limit, t.say)
}

// stalled says at once that an agent is silent: whoever waits for it is to know.
func (r *reporter) stalled(agent string, idle time.Duration) {
	if !r.quiet {
		r.line("%s has printed nothing for %v, and no tool is running", agent, idle.Round(time.Second))
	}
}
