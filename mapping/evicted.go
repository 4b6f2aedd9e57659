package mapping

import "strconv"

// An evictedRun is what is remembered of a run that ended early because too many
// sessions were open, so that a later line of its session continues the trace.
type evictedRun struct {
	model        string
	traceID      [16]byte
	rootID       [8]byte
	clock        clock
	part         int // in the run
	turns, tools int
	began, idle  bool
	call         *evictedCall // nil if there is none
}

// An evictedCall is the call that was in flight when its run was evicted.
type evictedCall struct {
	id, name string
	n        int
	start    instant
}

// evict ends a run at its last line, and returns what it takes to continue the run.
// The newest call stays in flight.
func (r *run) evict() *evictedRun {
	r.settleKey()
	e := &evictedRun{
		model: r.main.model, traceID: r.ids.trace, rootID: r.ids.root,
		part: r.part, began: r.began, idle: r.main.answered(),
	}
	if t := r.newestCall(); t != nil && (!r.clock.replay || r.clock.stamped) {
		e.call = &evictedCall{t.id, t.name, t.n, t.start}
		delete(r.tools, t.id)
		r.main.busy.running--
	}
	r.abandon(r.clock.last, errIncomplete, false)
	e.clock, e.turns, e.tools = r.clock, r.counts.turns, r.counts.tools
	return e
}

// continued returns a run that continues the evicted one of a session. Its spans are below
// the same root, but their ids are derived from another key: nothing is known of the ids
// that were used.
func (s *stream) continued(of *session, arrival instant) *run {
	e := of.evicted
	r := s.newRun(of.agent, of.id, of.runs, arrival)
	r.part = e.part + 1
	r.ids = newIDs(digest("part", string(e.traceID[:]), string(e.rootID[:]), strconv.Itoa(r.part), strconv.FormatInt(int64(e.clock.last), 10)))
	r.ids.trace, r.ids.root = e.traceID, e.rootID
	r.events, r.began = 1, e.began
	r.before.turns, r.before.tools = e.turns, e.tools
	r.counts.spans, r.counts.turns, r.counts.tools = 1, e.turns, e.tools
	if e.clock.stamped || !e.clock.replay {
		r.clock, r.start = e.clock, e.clock.last
	}
	inv := r.main
	inv.start, inv.wait, inv.model = r.start, r.start, e.model
	if e.idle {
		inv.state = idle
	}
	if c := e.call; c != nil {
		t := &tool{id: c.id, n: c.n, inv: inv, name: c.name, start: c.start, floor: c.start}
		t.arguments = s.attributes(fieldAttributes, nil)
		r.tools[t.id] = t
		inv.busy.running = 1
	}
	return r
}
