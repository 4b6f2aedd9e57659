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
	return m.open(m.now)
}

// OpenAt is like Open, but spans last until now, however long the
// stream has been silent.
func (m *Mapper) OpenAt(now time.Time) iter.Seq[Output] {
	if m.opts.replay() { // whose arrival times mean nothing
		return m.Open()
	}
	return m.open(max(m.now, quantize(instant(now.UnixNano()))))
}

// open ends copies of the open runs, and returns their spans.
func (m *Mapper) open(now instant) iter.Seq[Output] {
	return func(yield func(Output) bool) {
		if m.closed {
			return
		}
		c := m.copied(now)
		for e := m.sessions.open.Back(); e != nil; e = e.Prev() {
			s := *e.Value.(*session)
			s.ended = slices.Clone(s.ended)
			for i, r := range s.ended {
				s.ended[i] = r.clone(&c.stream)
			}
			if s.run != nil {
				s.run = s.run.clone(&c.stream)
			}
			s.abandon(c.arrival(), errKilled)
			for out := range c.outputs() {
				if !yield(out) {
					return
				}
			}
		}
		c.sessions.endEvictedCalls(errKilled)
		if m.opts.Process != nil {
			c.emitRoots(errKilled)
		}
		c.outputs()(yield)
	}
}

// copied returns a Mapper for copies of the open runs, which can end without changing m.
func (m *Mapper) copied(now instant) *Mapper {
	names := *m.names // with a count of its own
	c := &Mapper{stream: stream{
		opts: m.opts, capture: m.capture, names: &names, now: now, place: m.place, stats: m.stats, lastWords: m.lastWords,
		keys: m.keys, copy: true,
	}}
	c.sessions = newSessions(&c.stream)
	c.sessions.known = m.sessions.known // only read
	if r := m.sessions.first; r != nil {
		c.sessions.first = r.clone(&c.stream)
	}
	for _, root := range m.roots { // in order; the last one lasts until now
		root.run, root.span = root.run.clone(&c.stream), root.span.clone()
		c.roots = append(c.roots, root)
	}
	return c
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
	c.approvals = nil
	for _, a := range r.approvals {
		own := *a
		own.inv = copies[a.inv]
		c.approvals = append(c.approvals, &own)
	}
	c.content.List = slices.Clone(r.content.List)
	c.notices = slices.Clone(r.notices)
	c.held = nil
	for _, h := range r.held {
		c.held = append(c.held, held{h.clone(), turn(h.turn), copies[h.times]})
	}
	for _, t := range turns {
		t.inv = copies[t.inv]
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
	l.own.events = slices.Clone(l.own.events)
	l.children = slices.Clone(l.children)
	for i := range l.children {
		l.children[i].events = slices.Clone(l.children[i].events)
	}
	l.speech = l.speech.Clone()
	return &c
}

func (s *span) clone() *span {
	c := *s
	c.attributes.wire = slices.Clip(s.attributes.wire)
	c.events = slices.Clone(s.events)
	c.content.List = slices.Clone(s.content.List)
	return &c
}
