package tree

import (
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spantee/spantee/exporter/runs"
)

// A Writer draws traces as their spans arrive. It draws a trace when its root and,
// after that, a span of another trace have arrived, or at Close. Spans that arrive later,
// such as background work, are listed at Close.
type Writer struct {
	out   io.Writer
	style Style

	mu     sync.Mutex
	traces []*partial // in the order of their first span
	drawn  []string   // ids of the last maxDrawn traces drawn
	late   []string   // lines for late spans of drawn traces, at most maxLate
	later  int        // number of further late spans
	err    error
}

// A partial is a trace that is not complete yet.
type partial struct {
	id      string
	run     runs.Run
	nodes   []*node
	lost    tally // nodes that were dropped
	hasRoot bool
}

const (
	// maxNodes bounds what a trace holds in memory; the less important half is
	// dropped whenever it is reached.
	maxNodes = 16384
	maxDrawn = 1024
	maxLate  = 20
)

// NewWriter returns a Writer that draws on out.
func NewWriter(out io.Writer, style Style) *Writer {
	return &Writer{out: out, style: style}
}

// Export adds a finished span. The Writer keeps only what it draws, not the span.
func (w *Writer) Export(span *runs.Span) {
	w.mu.Lock()
	defer w.mu.Unlock()

	id := string(span.TraceID)
	w.traces = slices.DeleteFunc(w.traces, func(p *partial) bool {
		complete := p.hasRoot && p.id != id
		if complete {
			w.draw(p)
		}
		return complete
	})
	i := slices.IndexFunc(w.traces, func(p *partial) bool { return p.id == id })
	if i < 0 && slices.Contains(w.drawn, id) && !span.MayBeRoot() {
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
	text := w.style.draw(p)
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

func (w *Writer) addLate(span *runs.Span) {
	if len(w.late) == maxLate {
		w.later++
		return
	}
	n := newNode(span)
	line := fmt.Sprintf("%s  %s", printable(n.name), Duration(n.duration()))
	if notes := n.notes(); len(notes) > 0 {
		line += "  " + strings.Join(notes, " · ")
	}
	line += " · trace " + hex.EncodeToString(span.TraceID)
	w.late = append(w.late, w.style.encode(cut(line, w.style.width()))+"\n")
}

// drawLate lists the spans of traces that have been drawn already.
func (w *Writer) drawLate() {
	if len(w.late) == 0 {
		return
	}
	text := fmt.Sprintf("\n%s ended after the trace was drawn:\n\n", plural(len(w.late)+w.later, "span")) + strings.Join(w.late, "")
	if w.later > 0 {
		text += w.style.encode(fmt.Sprintf("… and %s\n", plural(w.later, "more span")))
	}
	w.late, w.later = nil, 0
	w.write(text)
}

func (p *partial) add(span *runs.Span) {
	n := newNode(span)
	p.run.Add(span)
	p.hasRoot = p.hasRoot || n.maybeRoot
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
