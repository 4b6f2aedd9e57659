package main

import (
	"time"
)

// A watch watches a stream between its lines: it reports stalls, and checks exec's
// limits.
type watch struct {
	stallAfter time.Duration // zero for never
	stalled    bool          // since the last byte
	limits     *limits       // nil if there are none
}

// look checks for stalls and limits. It returns when to look again, zero if not
// before something comes.
func (t *tracing) look(now time.Time) (next time.Duration) {
	idle := now.Sub(t.lastArrival)
	if after := t.watch.stallAfter; t.live && after > 0 && idle >= after && !t.watch.stalled {
		t.watch.stalled = true
		t.arrival = now
		for _, agent := range t.mapper.NoteStall(idle) {
			t.say.stalled(agent, idle)
			if t.metrics != nil {
				t.metrics.stalled(agent)
			}
		}
		t.changed = true
	}
	if l := t.watch.limits; l != nil {
		t.reached(l.checkTime(now, idle))
		next = l.nextTime(now, idle)
	}
	if after := t.watch.stallAfter; t.live && after > 0 && !t.watch.stalled {
		next = soonest(next, after-idle)
	}
	return next
}

// soonest returns the shorter of two delays, where zero means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// reached acts on a limit; "" is none.
func (t *tracing) reached(limit string) {
	if limit == "" {
		return
	}
	t.mapper.NoteLimit(limit)
	t.changed = true
	t.watch.limits.reached(limit, t.say)
}

// stalled reports at once that an agent is silent, because somebody may be waiting
// for it.
func (r *reporter) stalled(agent string, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.quiet {
		r.line("%s has printed nothing for %v, and no tool is running", agent, idle.Round(time.Second))
	}
}
