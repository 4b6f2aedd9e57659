package mapping

import (
	"time"

	"github.com/spantee/spantee/mapping/semconv"
)

// NoteStall records that the stream was silent for idle. Every open run without a running
// tool gets an event on its root. NoteStall returns the agents of those runs.
func (m *Mapper) NoteStall(idle time.Duration) (agents []string) {
	m.tick()
	for _, r := range m.openRuns() {
		if len(r.tools) == 0 {
			r.note(semconv.EventStall, func(a *attributes) { a.int(semconv.IdleMillis, idle.Milliseconds()) })
			agents = append(agents, r.main.name)
		}
	}
	return agents
}

// NoteLimit records on the root of every open run that a limit was reached.
func (m *Mapper) NoteLimit(limit string) {
	m.tick()
	for _, r := range m.openRuns() {
		r.note(semconv.EventLimit, func(a *attributes) { a.str(semconv.Limit, limit) })
	}
}

// openRuns returns the runs that have not ended, including that of a silent
// Process.
func (m *Mapper) openRuns() (runs []*run) {
	if m.first != nil {
		runs = append(runs, m.first)
	}
	for e := m.sessions.open.Back(); e != nil; e = e.Prev() {
		if r := e.Value.(*session).run; r != nil {
			runs = append(runs, r)
		}
	}
	return runs
}

// note adds an event with the current time to the root. The event is not part of
// the stream, so it does not move the run's clock.
func (r *run) note(name string, describe func(*attributes)) {
	a := attributes{field: fieldEventAttributes, max: r.m.opts.MaxAttributeBytes}
	describe(&a)
	at := max(r.clock.last, quantize(r.m.now+r.clock.offset))
	r.notices = append(r.notices, notice{name, at, a.wire})
}
