package runs

import (
	"cmp"
	"maps"
	"math"
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
	what       string // names its share
	tool       string // what counts its time
	start, end uint64
	output     uint64 // when a chat's answer began, 0 if unknown
	root       bool

	startInferred, endInferred bool

	children   []*step
	background []*step // work that the step may wait for when nothing else runs
}

const (
	// maxSteps bounds the steps in memory. The shorter half is dropped when it is reached.
	maxSteps = 8192

	waiting = "waiting "
)

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
	case Hook:
		s.what = "hooks"
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

// A Share is the part of a run's time that went to steps of one name.
type Share struct {
	Step    string  `json:"step"` // such as "shell npm", or "waiting for the model"
	Seconds float64 `json:"seconds"`
	Calls   int     `json:"calls"` // of a tool
}

// Longest returns at most n parts of a run's time, on its critical path, the longest first. There
// are none if the times are unknown: of a run without times, or without its root.
func (t *Timeline) Longest(n int) []Share {
	root := t.link()
	if root == nil || len(root.children) == 0 || root.end-root.start < uint64(timeless(len(t.steps))) {
		return nil
	}
	byName := map[string]*share{}
	root.spend(root.start, root.end, func(s *step, what string, time uint64) {
		if byName[what] == nil {
			byName[what] = &share{what: what}
		}
		byName[what].add(s, time)
	})
	all := slices.SortedFunc(maps.Values(byName), func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.what, b.what))
	})
	list := make([]Share, min(n, len(all)))
	for i, s := range all[:len(list)] {
		list[i] = Share{s.what, math.Round(float64(s.time)/1000) / 1e6, s.calls}
	}
	return list
}

// link makes the steps a tree, and returns its root, nil if there is none. A step whose
// parent is missing belongs to the root.
func (t *Timeline) link() (root *step) {
	slices.SortFunc(t.steps, compareSteps)
	byID := make(map[string]*step, len(t.steps))
	for i := range t.steps {
		s := &t.steps[i]
		s.children, s.background = nil, nil
		byID[s.id] = s
		if s.root && (root == nil || s.start < root.start) {
			root = s
		}
	}
	var approvals []*step
	for i := range t.steps {
		s := &t.steps[i]
		switch parent := cmp.Or(byID[s.parent], root); {
		case s == root || parent == nil:
		case s.kind == Approval:
			approvals = append(approvals, s)
		case s.kind == Background:
			parent.background = append(parent.background, s)
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

// spend divides a part of a step's time among the step and those below it. Of several that
// overlap, the step waited for the one that ended last.
func (s *step) spend(from, to uint64, add func(s *step, what string, time uint64)) {
	for _, c := range s.children {
		if start, end := max(c.start, from), min(c.end, to); start < end {
			s.spendIdle(end, to, add)
			c.spend(start, end, add)
			to = start
		}
	}
	s.spendIdle(from, to, add)
}

// spendIdle adds time of a step in which nothing below it ran but background work.
func (s *step) spendIdle(from, to uint64, add func(s *step, what string, time uint64)) {
	for _, c := range s.background {
		if start, end := max(c.start, from), min(c.end, to); start < end {
			s.spendAlone(end, to, add)
			add(c, waiting+"for background work", end-start)
			to = start
		}
	}
	s.spendAlone(from, to, add)
}

// spendAlone adds time of a step in which nothing below it ran.
func (s *step) spendAlone(from, to uint64, add func(s *step, what string, time uint64)) {
	what, answered := s.what, uint64(0)
	switch s.kind {
	case Approval:
		what = waiting + "for an approval"
	case Chat:
		what = waiting + "for the model"
		if s.output > 0 {
			answered = to - min(to, max(from, s.output))
		}
	case Agent:
		if s.root || len(s.children) > 0 {
			what = "between steps"
		}
	}
	if answered > 0 {
		add(s, "streaming answers", answered)
	}
	if time := to - from - answered; time > 0 {
		add(s, what, time)
	}
}

// A share is the time of a run that went to steps of one name.
type share struct {
	what  string
	time  uint64
	calls int
	last  *step
}

func (s *share) add(of *step, time uint64) {
	s.time += time
	if of.kind == Tool && of != s.last { // a call may have several parts
		s.calls++
	}
	s.last = of
}
