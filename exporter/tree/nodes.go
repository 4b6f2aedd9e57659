package tree

import (
	"cmp"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// detailKeys are the attributes that tell what a tool call was about, the most
// telling first.
var detailKeys = []string{
	semconv.ProcessCommandLine, semconv.ToolPattern, semconv.ToolGlob, semconv.FilePath,
	semconv.URLFull, semconv.ToolSearch, semconv.ToolDescription,
}

// A node is a span with its place in the tree.
type node struct {
	span       *tracepb.Span
	start, end uint64
	deltas     int
	exact      bool    // the span itself says how many deltas there were
	parts      []*node // its deltas spans, when folded
	parent     *node
	children   []*node
	hidden     bool
}

func newNode(span *tracepb.Span) *node {
	n := &node{span: span, start: span.GetStartTimeUnixNano()}
	n.end = max(n.start, span.GetEndTimeUnixNano())
	text, thinking := n.attr(semconv.TextDeltas), n.attr(semconv.ThinkingDeltas)
	if text != nil || thinking != nil {
		n.deltas, n.exact = int(text.GetIntValue()+thinking.GetIntValue()), true
		return n
	}
	for _, e := range span.GetEvents() {
		if strings.HasSuffix(e.GetName(), ".delta") {
			n.deltas += deltaCount(e)
		}
	}
	return n
}

// deltaCount says how many deltas an event stands for: neighbours may have been merged.
func deltaCount(e *tracepb.Span_Event) int {
	if v := attributeOf(e.GetAttributes(), semconv.DeltaCount); v != nil {
		return int(v.GetIntValue())
	}
	return 1
}

func (n *node) attr(key string) *commonpb.AnyValue { return attributeOf(n.span.GetAttributes(), key) }

func attributeOf(attrs []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, kv := range attrs {
		if kv.GetKey() == key {
			return kv.GetValue()
		}
	}
	return nil
}

func (n *node) id() string       { return string(n.span.GetSpanId()) }
func (n *node) duration() uint64 { return n.end - n.start }
func (n *node) is(kind string) bool {
	return n.span.GetName() == kind || strings.HasPrefix(n.span.GetName(), kind+" ")
}

// maybeRoot reports whether the span may be a run's root, even if it has a
// parent, which is in another process if TRACEPARENT was set.
func (n *node) maybeRoot() bool {
	const known, remote = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK), uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	switch {
	case len(n.span.GetParentSpanId()) == 0:
		return true
	case n.span.GetFlags()&known != 0:
		return n.span.GetFlags()&remote != 0
	}
	return n.attr(semconv.OperationName).GetStringValue() == semconv.OperationInvokeAgent
}

func (n *node) failed() bool {
	return n.span.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR ||
		slices.ContainsFunc(n.parts, (*node).failed)
}

// A tally counts spans that are not drawn, or all of them for the header.
type tally struct{ spans, failed, tools, failedTools int }

func (t *tally) add(n *node) {
	t.spans++
	if n.failed() {
		t.failed++
	}
	if n.is(semconv.OperationExecuteTool) {
		t.tools++
		if n.failed() {
			t.failedTools++
		}
	}
}

// A traceTree is the spans of one trace, sorted and linked.
type traceTree struct {
	nodes      []*node
	tops       []*node // the roots, or the orphans if there are none
	root       *node   // the first of the roots, or nil
	start, end uint64
}

// newTraceTree links nodes, at least one of them, into a tree. A span whose
// parent is not among them hangs under the root.
func newTraceTree(nodes []*node) *traceTree {
	slices.SortFunc(nodes, byTime)
	tr := &traceTree{nodes: nodes, start: nodes[0].start}

	byID := make(map[string]*node, len(nodes))
	for _, n := range nodes {
		tr.end = max(tr.end, n.end)
		byID[n.id()] = n
		for _, p := range n.parts {
			byID[p.id()] = n
		}
	}
	isRoot := func(n *node) bool {
		return n.maybeRoot() && byID[string(n.span.GetParentSpanId())] == nil
	}
	if i := slices.IndexFunc(nodes, isRoot); i >= 0 {
		tr.root = nodes[i]
	}
	for _, n := range nodes {
		if isRoot(n) {
			continue
		}
		p := byID[string(n.span.GetParentSpanId())]
		if p == nil || p.under(n) {
			p = tr.root
		}
		n.parent = p
	}
	tr.grow()
	return tr
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
	return cmp.Or(
		cmp.Compare(a.start, b.start),
		cmp.Compare(a.end, b.end),
		cmp.Compare(a.span.GetName(), b.span.GetName()),
		cmp.Compare(a.id(), b.id()),
	)
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

// byWeight orders nodes by what a short tree must not leave out: roots, failures,
// then the longest.
func byWeight(a, b *node) int {
	return cmp.Or(
		compareBool(b.maybeRoot(), a.maybeRoot()),
		compareBool(b.failed(), a.failed()),
		cmp.Compare(b.duration(), a.duration()),
		byTime(a, b),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// fold merges the deltas spans of a chat into the chat.
func fold(nodes []*node) []*node {
	byID := make(map[string]*node, len(nodes))
	for _, n := range nodes {
		byID[n.id()] = n
	}
	slices.SortFunc(nodes, byTime)
	var folded []*node
	for _, n := range nodes {
		chat := byID[string(n.span.GetParentSpanId())]
		if n.span.GetName() != semconv.OperationDeltas || chat == nil || !chat.is(semconv.OperationChat) {
			folded = append(folded, n)
			continue
		}
		chat.parts = append(chat.parts, n)
		chat.end = max(chat.end, n.end)
		if !chat.exact {
			chat.deltas += n.deltas
		}
	}
	return folded
}
