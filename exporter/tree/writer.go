package tree

import (
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Writer draws traces as their spans arrive. It draws a trace once its root has
// arrived and then a span of another trace, or at Close. Spans that arrive later,
// such as background work, are listed at Close.
type Writer struct {
	out   io.Writer
	style Style

	mu     sync.Mutex
	traces []*partial // in the order of their first span
	drawn  []string   // ids of the last maxDrawn traces drawn
	late   []*node    // spans of those, at most maxLate
	later  int        // more of them
	err    error
}

// A partial is a trace that is not complete yet.
type partial struct {
	id      string
	nodes   []*node
	lost    tally
	hasRoot bool
}

const (
	// maxNodes bounds what a trace holds in memory; the less important half is
	// dropped whenever it is reached.
	maxNodes = 16384
	// maxDetail is how much of a command or a path is kept: more than a terminal
	// is wide.
	maxDetail = 512

	maxDrawn = 1024
	maxLate  = 20
)

// NewWriter returns a Writer that draws on out.
func NewWriter(out io.Writer, style Style) *Writer {
	return &Writer{out: out, style: style}
}

// Export adds a finished span. The Writer keeps only what it draws, and no events.
func (w *Writer) Export(span *tracepb.Span) {
	w.mu.Lock()
	defer w.mu.Unlock()

	id := string(span.GetTraceId())
	w.traces = slices.DeleteFunc(w.traces, func(p *partial) bool {
		complete := p.hasRoot && p.id != id
		if complete {
			w.draw(p)
		}
		return complete
	})
	i := slices.IndexFunc(w.traces, func(p *partial) bool { return p.id == id })
	if i < 0 && slices.Contains(w.drawn, id) && !newNode(span).maybeRoot() {
		w.addLate(span)
		return
	}
	if i < 0 {
		i = len(w.traces)
		w.traces = append(w.traces, &partial{id: id})
	}
	w.traces[i].add(span)
}

// Close draws the remaining traces as far as they have arrived, and returns the
// first write error.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.traces {
		w.draw(p)
	}
	w.traces = nil
	w.drawLate()
	return w.err
}

func (w *Writer) draw(p *partial) {
	text := w.style.draw(p.nodes, p.lost)
	if len(w.drawn) > 0 {
		text = "\n" + text
	}
	if len(w.drawn) == maxDrawn {
		w.drawn = append(w.drawn[:0], w.drawn[1:]...)
	}
	w.drawn = append(w.drawn, p.id)
	w.write(text)
}

func (w *Writer) write(text string) {
	if _, err := io.WriteString(w.out, text); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *Writer) addLate(span *tracepb.Span) {
	if len(w.late) == maxLate {
		w.later++
		return
	}
	n := newNode(span)
	n.span = slim(n.span)
	w.late = append(w.late, n)
}

// drawLate lists the spans of traces that have been drawn already.
func (w *Writer) drawLate() {
	if len(w.late) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s ended after the trace was drawn:\n\n", plural(len(w.late)+w.later, "span"))
	for _, n := range w.late {
		line := fmt.Sprintf("%s  %s", printable(n.span.GetName()), humanDuration(n.duration()))
		if notes := n.notes(); len(notes) > 0 {
			line += "  " + strings.Join(notes, " · ")
		}
		line += " · trace " + hex.EncodeToString(n.span.GetTraceId())
		b.WriteString(cut(line, w.style.width()) + "\n")
	}
	if w.later > 0 {
		fmt.Fprintf(&b, "… and %s\n", plural(w.later, "more span"))
	}
	w.late, w.later = nil, 0
	w.write(b.String())
}

func (p *partial) add(span *tracepb.Span) {
	n := newNode(span)
	n.span = slim(n.span)
	p.hasRoot = p.hasRoot || n.maybeRoot()
	p.nodes = append(p.nodes, n)
	if len(p.nodes) < maxNodes {
		return
	}
	slices.SortFunc(p.nodes, byWeight)
	for _, n := range p.nodes[maxNodes/2:] {
		p.lost.add(n)
	}
	p.nodes = slices.Clone(p.nodes[:maxNodes/2])
}

// slim returns a copy of a span with only what is drawn.
func slim(s *tracepb.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId:           s.GetTraceId(),
		SpanId:            s.GetSpanId(),
		ParentSpanId:      s.GetParentSpanId(),
		Flags:             s.GetFlags(),
		Name:              s.GetName(),
		StartTimeUnixNano: s.GetStartTimeUnixNano(),
		EndTimeUnixNano:   s.GetEndTimeUnixNano(),
		Status:            s.GetStatus(),
	}
	for _, kv := range s.GetAttributes() {
		switch kv.GetKey() {
		case semconv.OperationName, semconv.AgentName, semconv.RequestModel, semconv.InputTokens, semconv.OutputTokens,
			semconv.UsageInput, semconv.UsageOutput, semconv.UsageCost, semconv.UsageTotalCost, semconv.Retries, semconv.Reconnects, semconv.Compactions,
			semconv.TimeToFirstChunk, semconv.ErrorType, semconv.ProcessExitCode, semconv.ProcessExecutable,
			semconv.StartMissing, semconv.TimeEstimated:
			out.Attributes = append(out.Attributes, &commonpb.KeyValue{Key: kv.GetKey(), Value: kv.GetValue()})
		default:
			if v := kv.GetValue().GetStringValue(); v != "" && (kv.GetKey() == semconv.ProcessWorkingDirectory || slices.Contains(detailKeys, kv.GetKey())) {
				v = v[:min(len(v), maxDetail)]
				out.Attributes = append(out.Attributes, &commonpb.KeyValue{
					Key: kv.GetKey(), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}},
				})
			}
		}
	}
	return out
}
