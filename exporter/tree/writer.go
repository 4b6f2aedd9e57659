package tree

import (
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spantee/spantee/exporter/runs"
)

// A Writer draws traces as their spans arrive. It draws a trace when its root and,
// after that, a span of another trace have arrived, or at Close. Spans that arrive later,
// such as background work, are drawn one by one.
type Writer struct {
	out   io.Writer
	style Style

	mu     sync.Mutex
	traces []*trace // in the order of their first span
	drawn  []string // ids of the last maxDrawn traces drawn
	err    error
}

// maxDrawn bounds how many traces a Writer knows that it has drawn.
const maxDrawn = 1024

// NewWriter returns a Writer that draws on out.
func NewWriter(out io.Writer, style Style) *Writer {
	return &Writer{out: out, style: style}
}

// Export adds a finished span. The Writer keeps only what it draws, not the span.
func (w *Writer) Export(span *runs.Span) {
	w.mu.Lock()
	defer w.mu.Unlock()

	id := string(span.TraceID)
	w.traces = slices.DeleteFunc(w.traces, func(t *trace) bool {
		complete := t.run.Rooted && t.id != id
		if complete {
			w.draw(t)
		}
		return complete
	})
	i := slices.IndexFunc(w.traces, func(t *trace) bool { return t.id == id })
	if i < 0 && slices.Contains(w.drawn, id) && !span.MayBeRoot() {
		w.drawLate(span)
		return
	}
	if i < 0 {
		i = len(w.traces)
		w.traces = append(w.traces, &trace{id: id})
	}
	w.traces[i].add(span)
}

// Close draws the remaining traces as far as they have arrived, and returns the
// first write error.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.traces {
		w.draw(t)
	}
	w.traces = nil
	return w.err
}

func (w *Writer) draw(t *trace) {
	text := w.style.draw(t)
	if len(w.drawn) > 0 {
		text = "\n" + text
	}
	if len(w.drawn) == maxDrawn {
		w.drawn = append(w.drawn[:0], w.drawn[1:]...)
	}
	w.drawn = append(w.drawn, t.id)
	w.write(text)
}

func (w *Writer) write(text string) {
	if _, err := io.WriteString(w.out, text); err != nil && w.err == nil {
		w.err = err
	}
}

// drawLate draws a span of a trace that has been drawn.
func (w *Writer) drawLate(span *runs.Span) {
	n := newNode(span)
	line := strings.Join(append([]string{n.title, Duration(n.duration())}, n.notes()...), " · ")
	header := "trace " + hex.EncodeToString(span.TraceID) + ", after it was drawn"
	w.write(w.style.encode("\n" + header + "\n" + cut(line, w.style.width()) + "\n"))
}
