package mapping

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Open returns the spans that have not ended, as they would end if spantee were killed
// now. A span keeps its id when it ends later.
func (m *Mapper) Open() iter.Seq[Output] {
	return m.openUntil(m.arrival(), m.now)
}

// OpenAt is like Open, but spans last until now, however long the
// stream has been silent.
func (m *Mapper) OpenAt(now time.Time) iter.Seq[Output] {
	if m.opts.replay() { // whose arrival times mean nothing
		return m.Open()
	}
	at := max(m.now, quantize(instant(now.UnixNano())))
	return m.openUntil(at, at)
}

func (m *Mapper) openUntil(arrival, now instant) iter.Seq[Output] {
	return func(yield func(Output) bool) {
		if !m.closed {
			m.openIn(m.copied(now), arrival, yield)
		}
	}
}

// copied returns a Mapper for copies of the open runs, which can end without changing m.
func (m *Mapper) copied(now instant) *Mapper {
	c := &Mapper{stream: stream{
		opts: m.opts, capture: m.capture, names: m.names.clone(), now: now, place: m.place, stats: m.stats, lastWords: m.lastWords, copy: true,
		keys:  runKeys{before: m.keys.latest, older: m.keys.before}, // it adds to a map of its own
		event: attributes{field: fieldEventAttributes, max: m.opts.MaxAttributeBytes},
	}}
	c.sessions = newSessions(&c.stream)
	c.sessions.evicted = m.sessions.evicted // only read
	return c
}

// openIn ends copies of the open runs in ghost, and yields their spans.
func (m *Mapper) openIn(ghost *Mapper, arrival instant, yield func(Output) bool) {
	more := true // is wanted
	take := func() {
		for out := range ghost.outputs() {
			if more = more && yield(out); !more {
				return
			}
		}
	}
	for _, root := range m.roots { // in order; the last one lasts until now
		root.run, root.span = root.run.clone(&ghost.stream), root.span.clone()
		ghost.roots = append(ghost.roots, root)
	}
	for e := m.sessions.open.Back(); e != nil && more; e = e.Prev() {
		s := e.Value.(*session)
		for _, r := range s.ended {
			r := r.clone(&ghost.stream)
			r.endTasks(r.clock.at(0, arrival))
		}
		if s.run != nil {
			r := s.run.clone(&ghost.stream)
			r.abandon(r.clock.at(0, arrival), errKilled)
		}
		take()
	}
	if !more {
		return
	}
	ghost.sessions.endEvictedCalls(errKilled)
	if m.opts.Process != nil {
		if m.sessions.first != nil {
			ghost.sessions.first = m.sessions.first.clone(&ghost.stream)
		}
		ghost.emitRoots(errKilled)
	}
	take()
}

// clone returns a copy of r that can be ended without changing r.
func (r *run) clone(s *stream) *run {
	c := *r
	c.stream = s
	copies := map[*invocation]*invocation{}
	turns := map[*turn]*turn{}
	tools := map[*tool]*tool{}
	turn := func(t *turn) *turn {
		if t == nil {
			return nil
		}
		if turns[t] == nil {
			turns[t] = t.clone()
		}
		return turns[t]
	}
	c.order = nil
	for _, inv := range r.order {
		own := *inv
		own.turn, own.caller, own.lastTurn = turn(inv.turn), turn(inv.caller), turn(inv.lastTurn)
		own.dialog.asked, own.notices = slices.Clip(inv.dialog.asked), slices.Clone(inv.notices)
		own.dialog.content.List, own.busy.intervals = slices.Clone(inv.dialog.content.List), slices.Clone(inv.busy.intervals)
		copies[inv] = &own
		c.order = append(c.order, &own)
	}
	c.main = copies[r.main]
	c.nested = maps.Clone(r.nested)
	for id, inv := range c.nested {
		c.nested[id] = copies[inv]
	}
	cloneTools := func(all map[string]*tool) map[string]*tool {
		all = maps.Clone(all)
		for id, t := range all {
			own := *t
			own.inv = copies[t.inv]
			if own.turn != nil {
				own.turn = turn(t.turn)
			}
			own.arguments.wire = slices.Clip(t.arguments.wire)
			own.asked.List = slices.Clone(t.asked.List)
			all[id], tools[t] = &own, &own
		}
		return all
	}
	c.early = maps.Clone(r.early)
	c.tools, c.tasks = cloneTools(r.tools), cloneTools(r.tasks)
	for _, inv := range c.order {
		inv.task = tools[inv.task] // nil for nil
	}
	c.approvals = r.approvals.clone(copies)
	c.content.List = slices.Clone(r.content.List)
	c.notices = slices.Clone(r.notices)
	c.held = nil
	for _, h := range r.held {
		c.held = append(c.held, held{h.clone(), turn(h.turn), copies[h.times]})
	}
	return &c
}

// clone returns a copy of t that can be ended without changing t. Both can be
// appended to.
func (t *turn) clone() *turn {
	c := *t
	if t.log == nil {
		return &c
	}
	l := new(eventLog)
	*l, c.log = *t.log, l
	l.own.wire, l.at.wire = slices.Clip(l.own.wire), slices.Clip(l.at.wire)
	l.texts = slices.Clone(l.texts)
	l.speech = l.speech.Clone()
	l.waiting = slices.Clone(l.waiting)
	for i, s := range l.waiting {
		l.waiting[i] = s.clone()
	}
	return &c
}

func (s *span) clone() *span {
	c := *s
	c.attributes.wire = slices.Clip(s.attributes.wire)
	c.events.wire = slices.Clip(s.events.wire)
	c.texts = slices.Clone(s.texts)
	c.content.List = slices.Clone(s.content.List)
	return &c
}
