package exporter

import (
	"io"
	"slices"
	"sync"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A TreeWriter draws traces as their spans come in. A trace is complete, and
// drawn, when its root has come and then a span of another trace, or at Close.
type TreeWriter struct {
	w    io.Writer
	tree Tree

	mu     sync.Mutex
	traces []*gathered // in the order of their first span
	drawn  bool        // something, so that the next is set off
	err    error
}

// gathered is a trace that is not complete yet.
type gathered struct {
	id    string
	nodes []*node
	lost  tally
	root  bool
}

// maxGathered bounds what a trace holds in memory; half of it, the least
// telling, is given up whenever it is reached.
const maxGathered = 16384

// maxDetail is how much of a command or a path is kept: more than a terminal is
// wide.
const maxDetail = 512

// NewTreeWriter returns a TreeWriter that draws on w.
func NewTreeWriter(w io.Writer, tree Tree) *TreeWriter {
	return &TreeWriter{w: w, tree: tree}
}

// Export takes a finished span. Of the span it keeps what is drawn: not its events.
func (t *TreeWriter) Export(span *tracepb.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()

	id := string(span.GetTraceId())
	t.traces = slices.DeleteFunc(t.traces, func(g *gathered) bool {
		complete := g.root && g.id != id
		if complete {
			t.draw(g)
		}
		return complete
	})
	i := slices.IndexFunc(t.traces, func(g *gathered) bool { return g.id == id })
	if i < 0 {
		i = len(t.traces)
		t.traces = append(t.traces, &gathered{id: id})
	}
	t.traces[i].add(span)
}

// Close draws what has come of the traces that are left, and returns the first
// error of the writer.
func (t *TreeWriter) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.traces {
		t.draw(g)
	}
	t.traces = nil
	return t.err
}

func (t *TreeWriter) draw(g *gathered) {
	text := t.tree.draw(g.nodes, g.lost)
	if t.drawn {
		text = "\n" + text
	}
	t.drawn = true
	if _, err := io.WriteString(t.w, text); err != nil && t.err == nil {
		t.err = err
	}
}

func (g *gathered) add(span *tracepb.Span) {
	n := newNode(span)
	n.span = slim(n.span)
	g.root = g.root || n.maybeRoot()
	g.nodes = append(g.nodes, n)
	if len(g.nodes) < maxGathered {
		return
	}
	slices.SortFunc(g.nodes, byWeight)
	for _, n := range g.nodes[maxGathered/2:] {
		g.lost.add(n)
	}
	g.nodes = slices.Clone(g.nodes[:maxGathered/2])
}

// slim is a span with nothing but what a Tree draws.
func slim(s *tracepb.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId:           s.GetTraceId(),
		SpanId:            s.GetSpanId(),
		ParentSpanId:      s.GetParentSpanId(),
		Name:              s.GetName(),
		StartTimeUnixNano: s.GetStartTimeUnixNano(),
		EndTimeUnixNano:   s.GetEndTimeUnixNano(),
		Status:            s.GetStatus(),
	}
	for _, kv := range s.GetAttributes() {
		switch kv.GetKey() {
		case attrOperation, attrAgent, attrModel, attrInput, attrOutput, attrFirstChunk, attrErrorType,
			attrExitCode, attrExecutable, attrContinues, attrNoStart, attrEstimated:
			out.Attributes = append(out.Attributes, &commonpb.KeyValue{Key: kv.GetKey(), Value: kv.GetValue()})
		default:
			if v := kv.GetValue().GetStringValue(); v != "" && (kv.GetKey() == attrDirectory || slices.Contains(attrDetails, kv.GetKey())) {
				v = v[:min(len(v), maxDetail)]
				out.Attributes = append(out.Attributes, &commonpb.KeyValue{
					Key: kv.GetKey(), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}},
				})
			}
		}
	}
	return out
}
