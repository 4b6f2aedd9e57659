package main

import (
	"time"
)

// A watch watches a stream between its lines: it reports stalls, and acts on exec's
// limits.
type watch struct {
	*tracing
	lastArrival time.Time
	stalled     bool // since then
}

// arrived notes that bytes of the stream came.
func (w *watch) arrived(at time.Time) {
	w.lastArrival, w.stalled = at, false
	w.metrics.received(at)
}

// look checks for stalls and limits. It returns when to look again, zero if not
// before something comes.
func (w *watch) look(now time.Time) (next time.Duration) {
	idle := now.Sub(w.lastArrival)
	mayStall := w.to.Live && w.stallAfter > 0 && !w.stalled
	if mayStall && idle >= w.stallAfter {
		mayStall, w.stalled = false, true
		w.stream.At(now)
		for _, agent := range w.stream.Mapper.NoteStall(idle) {
			w.say.stalled(agent, idle)
			w.metrics.stalled(agent)
		}
		w.stream.Changed()
	}
	if w.limits != nil {
		w.limits.checkTime(now, idle)
		w.act()
		next = w.limits.nextTime(now, idle)
	}
	if mayStall {
		next = soonest(next, w.stallAfter-idle)
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

// act reports the limits that were reached since the last call and, with
// --on-limit=kill, ends the agent.
func (w *watch) act() {
	if w.limits == nil {
		return
	}
	for _, limit := range w.limits.takeReached() {
		w.stream.Mapper.NoteLimit(limit)
		w.stream.Changed()
		kill := w.limits.ownGroup()
		if kill {
			w.limits.agent.Kill()
		}
		w.say.limitReached(limit, kill)
	}
}
