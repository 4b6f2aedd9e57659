package exporter

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The attributes a tree reads. The mapping writes them; none has to be there.
const (
	attrOperation  = "gen_ai.operation.name"
	attrAgent      = "gen_ai.agent.name"
	attrModel      = "gen_ai.request.model"
	attrInput      = "gen_ai.usage.input_tokens"
	attrOutput     = "gen_ai.usage.output_tokens"
	attrFirstChunk = "gen_ai.response.time_to_first_chunk"
	attrErrorType  = "error.type"
	attrExitCode   = "process.exit.code"
	attrExecutable = "process.executable.name"
	attrText       = "spantee.text.deltas"
	attrThinking   = "spantee.thinking.deltas"
	attrContinues  = "spantee.continues"
	attrNoStart    = "spantee.start_missing"
	attrEstimated  = "spantee.time.estimated"
	attrBytes      = "spantee.delta.bytes"
	attrCount      = "spantee.delta.count"
	attrDirectory  = "process.working_directory"
	attrPath       = "file.path"
)

// attrDetails tell what a tool call was about, the most telling first.
var attrDetails = []string{"process.command_line", "cursor.tool.pattern", "cursor.tool.glob", attrPath, "url.full", "cursor.tool.search", "cursor.tool.description"}

// A node is a span with its place in the tree.
type node struct {
	span       *tracepb.Span
	start, end uint64
	deltas     int
	parts      []*node // the spans that continue it, when folded
	parent     *node
	children   []*node
	hidden     bool
}

func newNode(span *tracepb.Span) *node {
	n := &node{span: span, start: span.GetStartTimeUnixNano()}
	n.end = max(n.start, span.GetEndTimeUnixNano())
	text, thinking := n.attr(attrText), n.attr(attrThinking)
	if text != nil || thinking != nil {
		n.deltas = int(text.GetIntValue() + thinking.GetIntValue())
		return n
	}
	for _, e := range Resolve(span).GetEvents() {
		if strings.HasSuffix(e.GetName(), ".delta") {
			n.deltas += deltaCount(e)
		}
	}
	return n
}

// deltaCount says how many deltas an event stands for: neighbours may have been merged.
func deltaCount(e *tracepb.Span_Event) int {
	if v := attributeOf(e.GetAttributes(), attrCount); v != nil {
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

// A root of ours has a parent outside the trace when TRACEPARENT was set.
func (n *node) maybeRoot() bool {
	return len(n.span.GetParentSpanId()) == 0 || n.attr(attrOperation).GetStringValue() == "invoke_agent"
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
	if n.is("execute_tool") {
		t.tools++
		if n.failed() {
			t.failedTools++
		}
	}
}

// A traceTree is the spans of one trace id, in order and linked.
type traceTree struct {
	nodes      []*node
	tops       []*node // the roots, and without any the orphans
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

// byTime is the order of siblings; ids decide last, so that it is always the same.
func byTime(a, b *node) int {
	return cmp.Or(
		cmp.Compare(a.start, b.start),
		cmp.Compare(a.end, b.end),
		cmp.Compare(a.span.GetName(), b.span.GetName()),
		cmp.Compare(a.id(), b.id()),
	)
}

// grow hangs each node that is not hidden under the nearest such parent.
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

// byWeight puts first what a short tree must not leave out: roots, failures,
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

// fold makes one node of a model turn that was continued in further spans.
func fold(nodes []*node) []*node {
	slices.SortFunc(nodes, byTime)
	var folded []*node
	heads := make(map[string]*node) // by span id in hex
	for _, n := range nodes {
		id := hex.EncodeToString(n.span.GetSpanId())
		first := n.attr(attrContinues).GetStringValue()
		if head := heads[first]; head != nil && first != "" {
			head.parts = append(head.parts, n)
			head.end = max(head.end, n.end)
			head.deltas += n.deltas
			heads[id] = head
			continue
		}
		folded = append(folded, n)
		heads[id] = n
		if first != "" { // the one it continues is missing; it stands in
			heads[first] = n
		}
	}
	return folded
}
