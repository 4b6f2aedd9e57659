package mapping

import (
	"slices"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Open returns the spans that have not ended, as they would end if spantee were
// killed now. Ended for good, a span has the same id.
func (m *Mapper) Open() []*tracepb.Span {
	if m.closed {
		return nil
	}
	var open []*tracepb.Span
	ghost := &Mapper{opts: m.opts, capture: m.capture, now: m.now, stats: m.stats, replayed: m.replayed}
	ghost.opts.Emit = func(span *tracepb.Span) { open = append(open, span) }
	ghost.opts.RunEnded = func(Run) {}

	for _, root := range m.roots { // in their order: the last one lasts until now
		root.run, root.span = root.run.clone(ghost), proto.CloneOf(root.span)
		ghost.roots = append(ghost.roots, root)
	}
	arrival := m.arrival()
	for _, s := range m.byAge() {
		for _, r := range s.behind {
			r := r.clone(ghost)
			r.endTasks(r.clock.at(0, arrival))
		}
		if s.run != nil {
			r := s.run.clone(ghost)
			r.abandon(r.clock.at(0, arrival), errKilled)
		}
	}
	if m.opts.Process == nil {
		return open
	}
	if m.first != nil {
		ghost.first = m.first.clone(ghost)
	}
	ghost.emitRoots(errKilled)
	return open
}

// clone returns a run that can be ended without r taking note of it.
func (r *run) clone(m *Mapper) *run {
	c := *r
	c.m = m
	c.tools = make(map[string]*tool, len(r.tools))
	for id, t := range r.tools {
		t := *t
		c.tools[id] = &t
	}
	c.background = nil
	for _, t := range r.background {
		t := *t
		c.background = append(c.background, &t)
	}
	if r.turn != nil {
		t := *r.turn
		t.events.wire = slices.Clip(t.events.wire) // more is appended to a copy
		t.speech = slices.Clone(t.speech)
		t.waiting = slices.Clone(t.waiting)
		for i, f := range t.waiting {
			t.waiting[i].span, t.waiting[i].speech = proto.CloneOf(f.span), slices.Clone(f.speech)
		}
		c.turn = &t
	}
	return &c
}
