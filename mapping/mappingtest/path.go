package mappingtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A Section is a stretch of the critical path. Start and End are microseconds
// since the epoch.
type Section struct {
	Span       *tracepb.Span
	Start, End int64
}

// A Path is the critical path of a trace, from its end to its start.
type Path []Section

// Of returns how long the path runs through span itself.
func (p Path) Of(span *tracepb.Span) time.Duration {
	var sum int64
	for _, section := range p {
		if section.Span == span {
			sum += section.End - section.Start
		}
	}
	return time.Duration(sum) * time.Microsecond
}

// step is the state of a span while Jaeger computes the path.
type step struct {
	span       *tracepb.Span
	parent     *step
	start, end int64
	children   []*step
}

// CriticalPath computes the path that Jaeger's UI shows, for each root in
// spans. It follows packages/jaeger-ui/src/components/TracePage/CriticalPath of
// jaegertracing/jaeger-ui (index.ts of 17f082d, and utils): from a span to the
// child that ends last, from that child's start back to the sibling that ended
// before it. Before means strictly before, in microseconds: a sibling that ends
// at that very instant is passed over, and its time falls to the parent.
func CriticalPath(spans []*tracepb.Span) Path {
	f := newFamily(spans)
	var path Path
	for _, root := range f.roots {
		path = walk(fit(blocking(f, root)), path)
	}
	return path
}

// blocking returns root's tree in Jaeger's order, depth first, without the
// consumers below producers: nobody waits for them (utils/cpspan.ts).
func blocking(f family, root *tracepb.Span) []*step {
	var steps []*step
	seen := map[*tracepb.Span]bool{}
	var visit func(span *tracepb.Span, parent *step)
	visit = func(span *tracepb.Span, parent *step) {
		if seen[span] {
			return
		}
		seen[span] = true
		start := micros(span.StartTimeUnixNano)
		length := int64(0)
		if span.EndTimeUnixNano > span.StartTimeUnixNano {
			length = micros(span.EndTimeUnixNano - span.StartTimeUnixNano)
		}
		s := &step{span: span, parent: parent, start: start, end: start + length}
		steps = append(steps, s)
		if parent != nil {
			parent.children = append(parent.children, s)
		}
		for _, child := range f.children[spanKey(span)] {
			if span.Kind != tracepb.Span_SPAN_KIND_PRODUCER || child.Kind != tracepb.Span_SPAN_KIND_CONSUMER {
				visit(child, s)
			}
		}
	}
	visit(root, nil)
	return steps
}

// fit cuts children to their parents and drops those that lie outside, so that
// nothing below them is found either (utils/sanitizeOverFlowingChildren.ts).
func fit(steps []*step) *step {
	for _, s := range steps[1:] {
		parent := s.parent
		before := s.start < parent.start && s.end <= parent.start
		if s.start >= parent.end || before {
			parent.children = slices.DeleteFunc(parent.children, func(child *step) bool { return child == s })
			continue
		}
		s.start = max(s.start, parent.start)
		s.end = min(s.end, parent.end)
	}
	return steps[0]
}

// walk goes back from the end of root to its start (index.ts).
func walk(root *step, path Path) Path {
	current, until := root, root.end
	returning := false // coming back from a child that started at until
	for current != nil {
		last := lastFinishing(current, until, returning)
		start := current.start
		if last != nil {
			start = last.end
		}
		if start != until {
			path = append(path, Section{current.span, start, until})
		}
		if last != nil {
			current, until, returning = last, last.end, false
		} else {
			current, until, returning = current.parent, current.start, true
		}
	}
	return path
}

// lastFinishing is utils/findLastFinishingChildSpan.ts. Of several that end
// together it returns the first.
func lastFinishing(s *step, until int64, returning bool) *step {
	var last *step
	for _, child := range s.children {
		if returning && child.end >= until {
			continue
		}
		if last == nil || child.end > last.end {
			last = child
		}
	}
	return last
}

// Uncovered returns how much of root's time no child of it covers: the share
// that is rightly root's own.
func Uncovered(root *tracepb.Span, spans []*tracepb.Span) time.Duration {
	end := micros(root.EndTimeUnixNano)
	covered := micros(root.StartTimeUnixNano)
	var sum int64
	for _, child := range newFamily(spans).children[spanKey(root)] {
		sum += max(0, min(end, micros(child.StartTimeUnixNano))-covered)
		covered = min(end, max(covered, micros(child.EndTimeUnixNano)))
	}
	return time.Duration(sum+end-covered) * time.Microsecond
}

// Covered checks that the critical path runs through a root itself only where no
// child covers it, within a hundredth of its time. It returns how many roots it
// checked. It skips traces with siblings that overlap in part, such as parallel
// tools that start one after the other, because the path cannot follow both.
func Covered(spans []*tracepb.Span) (walked int, err error) {
	byTrace := map[string][]*tracepb.Span{}
	for _, s := range spans {
		byTrace[string(s.TraceId)] = append(byTrace[string(s.TraceId)], s)
	}
	var problems []error
	for _, spans := range byTrace {
		if overlap(spans) {
			continue
		}
		path := CriticalPath(spans)
		for _, root := range newFamily(spans).roots {
			walked++
			length := time.Duration(root.EndTimeUnixNano - root.StartTimeUnixNano)
			own, uncovered := path.Of(root), Uncovered(root, spans)
			const rounding = 4 * time.Microsecond
			if (own - uncovered).Abs() > length/100+rounding {
				problems = append(problems, fmt.Errorf("the path runs through %s for %v of %v, of which no child covers %v",
					describe(root), own, length, uncovered))
			}
		}
	}
	return walked, errors.Join(problems...)
}

// overlap reports whether a span starts within a sibling and ends after it.
func overlap(spans []*tracepb.Span) bool {
	for _, a := range spans {
		for _, b := range spans {
			if string(a.ParentSpanId) == string(b.ParentSpanId) && a.StartTimeUnixNano < b.StartTimeUnixNano &&
				b.StartTimeUnixNano < a.EndTimeUnixNano && a.EndTimeUnixNano < b.EndTimeUnixNano {
				return true
			}
		}
	}
	return false
}
