package runs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Timeline is the steps of a run, to account for its time. Spans may be added in any
// order.
type Timeline struct{ steps []step }

type step struct {
	id, parent string
	kind       Kind
	tool, what string // of a call, and with the program that it ran
	start, end uint64
	output     uint64 // when a chat's answer began, 0 if unknown
	root       bool

	startInferred, endInferred bool

	children []*step
}

// maxSteps bounds the steps in memory. The shorter half is dropped when it is reached.
const maxSteps = 8192

// Add adds a span.
func (t *Timeline) Add(span *Span) {
	kind := span.Kind()
	if kind == Deltas { // a part of its chat
		return
	}
	s := step{id: string(span.ID), parent: string(span.Parent), kind: kind, start: span.Start, end: span.End, root: span.MayBeRoot()}
	s.startInferred, s.endInferred = span.Inferred()
	switch kind {
	case Chat:
		s.output = span.output()
	case Tool:
		s.what, s.tool = Cut(span.callName()), span.ToolName()
	case Agent, Other:
		s.what = Cut(span.Subject())
		s.tool = s.what
	}
	if t.steps = append(t.steps, s); len(t.steps) == maxSteps {
		slices.SortFunc(t.steps, func(a, b step) int {
			return cmp.Or(cmp.Compare(b.end-b.start, a.end-a.start), compareSteps(a, b))
		})
		t.steps = slices.Clone(t.steps[:maxSteps/2])
	}
}

// Calls tells calls of models and tools from calls with steps of their own, whose time is the time
// of those steps.
type Calls struct{ callers map[string]bool }

// maxCallers bounds the spans with steps in memory.
const maxCallers = 8192

// Add adds a finished span, and reports whether it is a call without steps. Steps end before
// their caller.
func (c *Calls) Add(s *Span) bool {
	kind := s.Kind()
	if c.callers == nil {
		c.callers = map[string]bool{}
	}
	if (kind == Agent || kind == Chat || kind == Tool) && len(c.callers) < maxCallers {
		c.callers[string(s.TraceID)+string(s.Parent)] = true
	}
	return (kind == Chat || kind == Tool) && !c.callers[string(s.TraceID)+string(s.ID)]
}

// callName is the tool of a call, with the program that a shell ran, which a span's name may
// lack.
func (s *Span) callName() string {
	name, program := s.Subject(), s.Text(semconv.ProcessExecutable)
	if program == "" || strings.HasSuffix(name, " "+program) {
		return name
	}
	return name + " " + program
}

func compareSteps(a, b step) int {
	return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(b.start, a.start), cmp.Compare(a.what, b.what), cmp.Compare(a.id, b.id))
}

// link makes the steps a tree, and returns its root, nil if there is none. A step whose
// parent is missing belongs to the root.
func (t *Timeline) link() (root *step) {
	slices.SortFunc(t.steps, compareSteps)
	byID := make(map[string]*step, len(t.steps))
	for i := range t.steps {
		s := &t.steps[i]
		s.children = nil
		byID[s.id] = s
		if s.root && (root == nil || s.start < root.start) {
			root = s
		}
	}
	var approvals []*step
	for i := range t.steps {
		s := &t.steps[i]
		switch parent := cmp.Or(byID[s.parent], root); {
		case s == root || parent == nil || s.kind == Background: // nobody waits for that
		case s.kind == Approval:
			approvals = append(approvals, s)
		default:
			parent.children = append(parent.children, s)
		}
	}
	for _, s := range approvals {
		if parent := cmp.Or(byID[s.parent], root); parent != nil {
			parent.asked(s)
		}
	}
	return root
}

// asked adds an approval to the call that waits for it: of those below s, the last that began
// before. A call that begins only when it is approved is not one of them.
func (s *step) asked(approval *step) {
	by := s
	for _, c := range s.children {
		if c.kind == Tool && c.start <= approval.start && c.end >= approval.end && (by == s || c.start > by.start) {
			by = c
		}
	}
	i, _ := slices.BinarySearchFunc(by.children, approval, func(a, b *step) int { return compareSteps(*a, *b) })
	by.children = slices.Insert(by.children, i, approval)
}
