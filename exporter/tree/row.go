package tree

import (
	"strings"

	"github.com/spantee/spantee/exporter/runs"
)

// A Cell is one text of a row.
type Cell struct {
	Text  string
	Width int    // it is padded to so many columns, and cut unless it is the last
	Color string // an ANSI escape, "" for none
	Path  bool   // it is cut at its beginning, because its end says more
}

// The colors of cells, besides those of steps.
const (
	Bold   = bold
	Dim    = dim
	Red    = red
	Yellow = yellow
)

// Color returns the color of a step.
func Color(span *runs.Span) string {
	if span.Failed {
		return red
	}
	return colors[span.Kind()]
}

// Title names a step by its span's name without the operation, which only a model call keeps.
func Title(span *runs.Span) string { return title(span.Name) }

// Doing says in words what an open step is doing.
func Doing(span *runs.Span) string { return newNode(span).doing(span.LastEvent()) }

// Columns returns how many columns a text takes.
func Columns(text string) int { return cells(Printable(text)) }

// Row returns cells as one line, two columns apart. What does not fit into the width of the
// style is cut.
func (s Style) Row(row []Cell) string {
	var b strings.Builder
	gap, room := "", s.width()
	for i, c := range row {
		text := Printable(c.Text)
		width := room - cells(gap)
		if i < len(row)-1 && c.Width > 0 {
			width = min(width, c.Width)
		}
		if width <= 0 {
			break
		}
		n := node{about: text, isPath: c.Path}
		text = n.cut(text, width)
		padding := ""
		if i < len(row)-1 {
			padding = strings.Repeat(" ", max(0, min(c.Width, width)-cells(text)))
		}
		b.WriteString(gap + s.paint(c.Color, text) + padding)
		room -= cells(gap) + cells(text) + len(padding)
		gap = "  "
	}
	return s.encode(strings.TrimRight(b.String(), " ")) + "\n"
}

// Summary says what a run did and used.
func Summary(run *runs.Run) string {
	tools := Plural(run.Tools, "tool")
	if run.ToolErrors > 0 {
		tools += ", " + Thousands(run.ToolErrors) + " failed"
	}
	return strings.Join(append([]string{tools}, totals(run)...), " · ")
}
