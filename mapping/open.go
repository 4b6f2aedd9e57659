package mapping

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Open returns the spans that have not ended, as they would end if spantee were killed
// now, however long the stream has been silent. A span keeps its id when it ends later.
func (m *Mapper) Open(now time.Time) iter.Seq[Output] {
	return func(yield func(Output) bool) {
		if m.closed {
			return
		}
		at := m.now
		if m.opts.Source != Recording { // else nothing happens now
			at = max(at, quantize(instant(now.UnixNano())))
		}
		c := m.clone(at) // whose runs can be ended
		for e := m.sessions.open.Back(); e != nil; e = e.Prev() {
			s := *e.Value.(*session)
			s.ended = copied(s.ended, func(r *run) *run { return r.clone(&c.stream) })
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
		if m.opts.Process != nil {
			c.emitRoots(errKilled)
		}
		c.outputs()(yield)
	}
}

// clone returns a Mapper for copies of the open runs, which can end without changing m.
func (m *Mapper) clone(now instant) *Mapper {
	names := *m.names // with a count of its own
	c := &Mapper{stream: stream{
		opts: m.opts, capture: m.capture, names: &names, now: now, position: m.position, stats: m.stats, lastWords: m.lastWords,
		keys: m.keys, copy: true,
	}}
	c.sessions = newSessions(&c.stream)
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
	own, c := *r, copier{}
	own.stream = s
	own.main = c.invocation(r.main)
	own.order = copied(r.order, c.invocation)
	own.nested = copiedMap(r.nested, c.invocation)
	own.tools, own.tasks = copiedMap(r.tools, c.tool), copiedMap(r.tasks, c.tool)
	own.pauses = slices.Clone(r.pauses) // their ends change none of them
	if r.firstChat != nil {
		own.firstChat = r.firstChat.clone()
	}
	own.content.List, own.notices = slices.Clone(r.content.List), slices.Clone(r.notices)
	return &own
}

// A copier has the copies of what a run points to.
type copier map[any]any

// copyOnce returns the copy of a thing, nil for nil. A copy that is new is passed to own,
// which copies what both would change.
func copyOnce[T any](c copier, thing *T, own func(*T)) *T {
	if thing == nil {
		return nil
	}
	if known, ok := c[thing]; ok {
		return known.(*T)
	}
	made := *thing
	c[thing] = &made
	own(&made)
	return &made
}

func (c copier) invocation(inv *invocation) *invocation {
	return copyOnce(c, inv, func(own *invocation) {
		own.task, own.turn = c.tool(inv.task), c.turn(inv.turn)
		own.dialog.asked, own.dialog.content.List = slices.Clip(inv.dialog.asked), slices.Clone(inv.dialog.content.List)
		own.notices, own.busy.intervals = slices.Clone(inv.notices), slices.Clone(inv.busy.intervals)
	})
}

func (c copier) tool(t *tool) *tool {
	return copyOnce(c, t, func(own *tool) {
		own.inv, own.turn = c.invocation(t.inv), c.turn(t.turn)
		own.arguments.wire, own.asked.List = slices.Clip(t.arguments.wire), slices.Clone(t.asked.List)
	})
}

func (c copier) turn(t *turn) *turn {
	return copyOnce(c, t, func(own *turn) {
		own.inv = c.invocation(t.inv)
		if t.events == nil {
			return
		}
		l := *t.events
		l.own.events = slices.Clone(l.own.events)
		l.children = copied(l.children, func(g eventGroup) eventGroup {
			g.events = slices.Clone(g.events)
			return g
		})
		l.speech = l.speech.Clone()
		own.events = &l
	})
}

func copied[T any](list []T, copyOf func(T) T) []T {
	list = slices.Clone(list)
	for i := range list {
		list[i] = copyOf(list[i])
	}
	return list
}

func copiedMap[T any](m map[string]T, copyOf func(T) T) map[string]T {
	m = maps.Clone(m)
	for key := range m {
		m[key] = copyOf(m[key])
	}
	return m
}

func (s *span) clone() *span {
	c := *s
	c.attributes.wire = slices.Clip(s.attributes.wire)
	c.content.List = slices.Clone(s.content.List)
	return &c
}
