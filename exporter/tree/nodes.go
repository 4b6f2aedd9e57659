package tree

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A node is the part of a span that is drawn, and its place in the tree.
type node struct {
	id, parentID string
	name         string
	kind         runs.Kind
	start, end   uint64
	failure      string // "" if it did not fail
	firstChunk   time.Duration
	deltas       int64
	exact        bool // the span itself says how many deltas there were
	executable   string
	detail       string // what a tool call was about, if that was recorded
	isPath       bool   // detail is a path
	folder       string // where an agent works
	startMissing bool
	estimated    bool
	maybeRoot    bool

	parent   *node
	children []*node
	hidden   bool
}

func newNode(s *runs.Span) *node {
	n := &node{
		id: string(s.ID), parentID: string(s.Parent), name: s.Name, kind: s.Kind(), start: s.Start, end: s.End,
		failure: printable(s.Failure()), firstChunk: s.FirstChunk(), executable: s.Text(semconv.ProcessExecutable),
		folder: s.Text(semconv.ProcessWorkingDirectory), startMissing: s.Bool(semconv.StartMissing),
		estimated: s.Bool(semconv.TimeEstimated), maybeRoot: s.MayBeRoot(),
	}
	n.deltas, n.exact = s.DeltaCount()
	n.detail, n.isPath = s.Detail()
	return n
}

func (n *node) duration() time.Duration { return between(n.start, n.end) }

// A tally counts spans that are not drawn.
type tally struct{ spans, failed int }

func (t *tally) add(n *node) {
	t.spans++
	if n.failure != "" {
		t.failed++
	}
}

// A traceTree is the spans of one trace, sorted and linked.
type traceTree struct {
	nodes      []*node
	tops       []*node // the roots, or the orphans if there are none
	root       *node   // the first of the roots, or nil
	start, end uint64
	timeless   bool // a recording without times: everything happened at once
}

// duration formats a duration, "" if there are no times.
func (tr *traceTree) duration(d time.Duration) string {
	if tr.timeless {
		return ""
	}
	return Duration(d)
}

func (tr *traceTree) length() time.Duration { return between(tr.start, tr.end) }

// newTraceTree links nodes, at least one of them, into a tree. A span whose
// parent is not among them hangs under the root.
func newTraceTree(nodes []*node) *traceTree {
	nodes = fold(nodes)
	tr := &traceTree{nodes: nodes, start: nodes[0].start}
	byID := index(nodes)
	for _, n := range nodes {
		tr.end = max(tr.end, n.end)
	}
	isRoot := func(n *node) bool { return n.maybeRoot && byID[n.parentID] == nil }
	if i := slices.IndexFunc(nodes, isRoot); i >= 0 {
		tr.root = nodes[i]
	}
	tr.timeless = tr.length() < time.Millisecond && (len(nodes) > 2 || tr.root != nil && tr.root.estimated)
	for _, n := range nodes {
		if isRoot(n) {
			continue
		}
		p := byID[n.parentID]
		if p == nil || p.under(n) {
			p = tr.root
		}
		n.parent = p
	}
	tr.grow()
	return tr
}

func index(nodes []*node) map[string]*node {
	byID := make(map[string]*node, len(nodes))
	for _, n := range nodes {
		byID[n.id] = n
	}
	return byID
}

// fold sorts nodes, and merges the deltas spans of a chat into the chat.
func fold(nodes []*node) []*node {
	byID := index(nodes)
	slices.SortFunc(nodes, byTime)
	var folded []*node
	for _, n := range nodes {
		chat := byID[n.parentID]
		if n.kind != runs.Deltas || chat == nil || chat.kind != runs.Chat {
			folded = append(folded, n)
			continue
		}
		chat.end = max(chat.end, n.end)
		chat.failure = cmp.Or(chat.failure, n.failure)
		if !chat.exact {
			chat.deltas += n.deltas
		}
	}
	return folded
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
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
}

// grow attaches each node that is not hidden to its nearest ancestor that is not
// hidden.
func (tr *traceTree) grow() {
	tr.tops = nil
	for _, n := range tr.nodes {
		n.children = nil
	}
	for _, n := range tr.nodes {
		if n.hidden {
			continue
		}
		p := n.parent
		for p != nil && p.hidden {
			p = p.parent
		}
		if p == nil {
			tr.tops = append(tr.tops, n)
		} else {
			p.children = append(p.children, n)
		}
	}
}

// byWeight orders nodes by importance in a short tree: roots, failures, then the
// longest.
func byWeight(a, b *node) int {
	return cmp.Or(first(a.maybeRoot, b.maybeRoot), first(a.failure != "", b.failure != ""), cmp.Compare(b.duration(), a.duration()), byTime(a, b))
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// hide hides all but limit spans.
func (tr *traceTree) hide(limit int, hidden tally) tally {
	if len(tr.nodes) <= limit {
		return hidden
	}
	ranked := slices.SortedFunc(slices.Values(tr.nodes), byWeight)
	for _, n := range ranked[limit:] {
		n.hidden = true
		hidden.add(n)
	}
	tr.grow()
	return hidden
}

func (n *node) isCall() bool { return n.kind == runs.Chat || n.kind == runs.Tool }

// about returns what a tool call was about: a path relative to its agent's folder.
func (n *node) about() string {
	about := n.detail
	for p := n.parent; n.isPath && p != nil; p = p.parent {
		if p.folder != "" {
			about = strings.TrimPrefix(about, p.folder+"/")
			break
		}
	}
	return printable(about)
}

// title is the name of a span without its operation, which only a model call keeps.
func (n *node) title() string {
	operation, rest, _ := strings.Cut(n.name, " ")
	switch {
	case rest == "":
	case operation == semconv.OperationExecuteTool, operation == semconv.OperationInvokeAgent:
		return printable(rest)
	case operation == semconv.OperationApproval:
		return printable("approval " + rest)
	}
	return printable(n.name)
}

// shortName is the title. With detail it says what the call was about, and with mark
// whether it failed.
func (n *node) shortName(detail, mark bool) string {
	name := n.title()
	if about := n.about(); about != "" && detail {
		name = strings.TrimSuffix(name, " "+n.executable) + " " + about
	}
	if mark && n.failure != "" {
		name = "✗ " + name
	}
	return name
}

// notes returns what the bar does not show, most important first.
func (n *node) notes() []string {
	var notes []string
	if n.failure != "" {
		notes = append(notes, "✗ "+n.failure)
	}
	if n.firstChunk > 0 && n.kind == runs.Chat {
		notes = append(notes, "first chunk "+Duration(n.firstChunk))
	}
	switch {
	case n.kind == runs.Agent: // its chats state the counts
	case n.deltas == 1:
		notes = append(notes, "1 delta")
	case n.deltas > 1:
		notes = append(notes, roughly(int(n.deltas))+" deltas")
	}
	about := n.about()
	if n.executable != "" && about == "" && !strings.HasSuffix(n.name, " "+n.executable) {
		notes = append(notes, printable(n.executable))
	}
	if n.startMissing {
		notes = append(notes, "start missing")
	}
	if n.estimated {
		notes = append(notes, "times estimated")
	}
	if about != "" {
		notes = append(notes, about)
	}
	return notes
}
