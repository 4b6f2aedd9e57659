package tree

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A trace is the spans of one trace, as far as they have arrived.
type trace struct {
	id            string
	run           runs.Run
	timeline      runs.Timeline
	nodes         []*node
	omitted       int // nodes that were dropped
	omittedFailed int // of these

	// link sets the following fields.
	tops       []*node // the roots, or the orphans if there are none
	root       *node   // the first of the roots, or nil
	start, end uint64
	timeless   bool // only the order of the steps is known
}

// A node is the part of a span that is drawn, and its place in the tree.
type node struct {
	id, parentID string
	title        string // the name without its operation, which only a model call keeps
	kind         runs.Kind
	start, end   uint64
	failure      string // "" if it did not fail
	firstChunk   time.Duration
	deltas       int64
	executable   string
	about        string // what a tool call was about, if that was recorded
	isPath       bool   // about is a path, which link makes relative to the agent's folder
	folder       string // where an agent works
	startMissing bool
	estimated    bool
	maybeRoot    bool

	parent   *node
	children []*node
}

func newNode(s *runs.Span) *node {
	n := &node{
		id: string(s.ID), parentID: string(s.Parent), title: title(s.Name), kind: s.Kind(), start: s.Start, end: s.End,
		failure: Printable(s.Failure()), firstChunk: s.FirstChunk(), deltas: s.Int(semconv.TextDeltas) + s.Int(semconv.ThinkingDeltas),
		executable: Printable(s.Text(semconv.ProcessExecutable)), folder: Printable(s.Text(semconv.ProcessWorkingDirectory)),
		startMissing: s.Bool(semconv.StartMissing), estimated: s.Estimated(), maybeRoot: s.MayBeRoot(),
	}
	about, isPath := s.Detail()
	n.about, n.isPath = Printable(about), isPath
	return n
}

func title(name string) string {
	operation, rest, _ := strings.Cut(name, " ")
	switch {
	case rest == "":
	case operation == semconv.OperationExecuteTool, operation == semconv.OperationInvokeAgent:
		return Printable(rest)
	case operation == semconv.OperationApproval:
		return Printable("approval " + rest)
	}
	return Printable(name)
}

func (n *node) duration() time.Duration { return between(n.start, n.end) }

// maxNodes bounds what a trace holds in memory; the less important half is dropped
// whenever it is reached.
const maxNodes = 16384

// add adds a span. Deltas spans are not drawn: the chat that they belong to covers their
// time, and states how many deltas there were.
func (t *trace) add(span *runs.Span) {
	t.run.Add(span)
	t.timeline.Add(span)
	if span.Kind() == runs.Deltas {
		return
	}
	n := newNode(span)
	t.nodes = append(t.nodes, n)
	if len(t.nodes) == maxNodes {
		t.keep(maxNodes / 2)
	}
}

// keep drops all but the most important nodes: roots, failures, then the longest.
func (t *trace) keep(limit int) {
	if len(t.nodes) <= limit {
		return
	}
	rank := func(n *node) int {
		switch {
		case n.maybeRoot:
			return 0
		case n.failure != "":
			return 1
		}
		return 2
	}
	slices.SortFunc(t.nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.duration(), a.duration()), byTime(a, b))
	})
	for _, n := range t.nodes[limit:] {
		t.omitted++
		if n.failure != "" {
			t.omittedFailed++
		}
	}
	t.nodes = slices.Clone(t.nodes[:limit])
}

// link makes the nodes a tree, when all have been added. A span whose parent is not among
// them hangs under the root.
func (t *trace) link() {
	slices.SortFunc(t.nodes, byTime)
	byID := make(map[string]*node, len(t.nodes))
	for _, n := range t.nodes {
		byID[n.id] = n
	}
	isRoot := func(n *node) bool { return n.maybeRoot && byID[n.parentID] == nil }
	if i := slices.IndexFunc(t.nodes, isRoot); i >= 0 {
		t.root = t.nodes[i]
	}
	t.start, t.end = t.run.Start, t.run.End
	t.timeless = t.run.Timeless()
	for _, n := range t.nodes {
		p := byID[n.parentID]
		if !isRoot(n) && (p == nil || p.under(n)) {
			p = t.root
		}
		n.parent = p
		if p == nil {
			t.tops = append(t.tops, n)
		} else {
			p.children = append(p.children, n)
		}
	}
	for _, n := range t.nodes {
		for p := n.parent; n.isPath && p != nil; p = p.parent {
			if p.folder != "" {
				n.about = strings.TrimPrefix(n.about, p.folder+"/")
				break
			}
		}
	}
}

// under reports whether n is other or below it.
func (n *node) under(other *node) bool {
	for ; n != nil; n = n.parent {
		if n == other {
			return true
		}
	}
	return false
}

// byTime orders siblings. Ids decide last, so that the order is stable.
func byTime(a, b *node) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.title, b.title), cmp.Compare(a.id, b.id))
}

// length is how long the runs took, as their last root says: background work may end later.
func (t *trace) length() time.Duration {
	if t.root == nil {
		return between(t.start, t.end)
	}
	end := t.root.end
	for _, n := range t.tops {
		end = max(end, n.end)
	}
	return between(t.start, end)
}

// duration formats a duration, "" if there is none: what has no time ends within a millisecond.
func (t *trace) duration(d time.Duration) string {
	if t.timeless || d < time.Millisecond {
		return ""
	}
	return Duration(d)
}

func (n *node) isCall() bool { return n.kind == runs.Chat || n.kind == runs.Tool }

// call is the title with what the call was about.
func (n *node) call() string {
	if n.about == "" {
		return n.title
	}
	return strings.TrimSuffix(n.title, " "+n.executable) + " " + n.about
}

// timesEstimated is a note on a call whose start or end was inferred.
const timesEstimated = "times estimated"

// notes returns what the bar does not show, most important first.
func (n *node) notes() []string {
	var notes []string
	if n.failure != "" {
		notes = append(notes, "✗ "+n.failure)
	}
	if n.firstChunk > 0 && n.kind == runs.Chat {
		notes = append(notes, "first chunk "+Duration(n.firstChunk))
	}
	if n.deltas > 0 && n.kind != runs.Agent { // its chats state the counts
		notes = append(notes, Plural(int(n.deltas), "delta"))
	}
	if n.executable != "" && n.about == "" && !strings.HasSuffix(n.title, " "+n.executable) {
		notes = append(notes, n.executable)
	}
	if n.startMissing {
		notes = append(notes, "start missing")
	}
	if n.estimated {
		notes = append(notes, timesEstimated)
	}
	if n.about != "" {
		notes = append(notes, n.about)
	}
	return notes
}
