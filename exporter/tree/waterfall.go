package tree

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spantee/spantee/mapping/semconv"
)

// A row is a line of the waterfall before it has its widths.
type row struct {
	*node
	branch   string // the lines that lead to it
	name     string
	duration string
	notes    []string
}

const (
	// narrow is the width below which there is no room for notes: what a call was
	// about stands beside its name.
	narrow = 60

	// minBar is what is left for the bars then.
	minBar = 8
)

func (s Style) waterfall(b *strings.Builder, tr *traceTree) {
	rows := rows(nil, tr.tops, "", true)
	const gaps = 2 + 1 + 2
	var name, duration, notes int
	for _, r := range rows {
		name = max(name, cells(r.branch)+cells(r.name))
		duration = max(duration, cells(r.duration))
		notes = max(notes, cells(strings.Join(r.notes, " · ")))
	}
	// A name may have two fifths of the line; of what is left the notes get at
	// most half and the bars the rest.
	most := s.Width * 2 / 5
	if s.Width < narrow {
		most, notes = s.Width-gaps-duration-minBar, 0
	}
	if name > most || s.Width < narrow {
		name = 0
		for i, r := range rows {
			rows[i].name = r.shortName(s.Width < narrow, s.Width < narrow)
			name = max(name, cells(r.branch)+cells(rows[i].name))
		}
	}
	name = min(name, most)
	left := s.Width - gaps - name - duration
	notes = min(notes, left/2)
	if notes == 0 {
		left += 2
	}
	bar := left - notes

	for _, r := range rows {
		b.WriteString(pad(cut(r.branch, name-1)+r.cut(r.name, name-cells(r.branch)), name))
		b.WriteString("  " + s.paint(r.color(), r.bar(tr, bar)))
		fmt.Fprintf(b, " %*s", duration, r.duration)
		for i, note := range r.fit(notes) {
			switch {
			case i > 0:
				b.WriteString(s.paint(dim, " · "+note))
			case r.failed():
				b.WriteString("  " + s.paint(red, note))
			default:
				b.WriteString("  " + s.paint(dim, note))
			}
		}
		b.WriteString("\n")
	}
}

// rows lays the tree out: roots without a branch, below them the branches.
func rows(to []row, nodes []*node, indent string, top bool) []row {
	for i, n := range nodes {
		branch, below := "├─ ", "│  "
		switch {
		case top:
			branch, below = "", ""
		case i == len(nodes)-1:
			branch, below = "└─ ", "   "
		}
		to = append(to, row{
			node:     n,
			branch:   indent + branch,
			name:     printable(n.span.GetName()),
			duration: humanDuration(n.duration()),
			notes:    n.notes(),
		})
		to = rows(to, n.children, indent+below, false)
	}
	return to
}

// shortName is the name without the words that all calls have in common. With
// detail it says what the call was about, marked if it failed.
func (n *node) shortName(detail, mark bool) string {
	name := n.title()
	if d := n.detail(); d != "" && detail {
		name = strings.TrimSuffix(name, " "+n.attr(semconv.ProcessExecutable).GetStringValue()) + " " + d
	}
	if mark && n.failed() {
		name = "✗ " + name
	}
	return name
}

// title is the name of a span without its operation, but for a call of a model.
func (n *node) title() string {
	operation, rest, _ := strings.Cut(n.span.GetName(), " ")
	switch {
	case rest == "":
	case operation == semconv.OperationExecuteTool, operation == semconv.OperationInvokeAgent:
		return printable(rest)
	case operation == semconv.OperationApproval:
		return printable("approval " + rest)
	}
	return printable(n.span.GetName())
}

// cut shortens text, which ends in the detail, to width columns. Of a path the
// end tells more than what is before it.
func (n *node) cut(text string, width int) string {
	detail := n.detail()
	before, isDetail := strings.CutSuffix(text, detail)
	room := width - cells(before)
	if cells(text) <= width || !isDetail || detail == "" || room < least || !n.isPath() {
		return cut(text, width)
	}
	runes := []rune(detail)
	for cells(string(runes)) > room-1 {
		runes = runes[1:]
	}
	return before + "…" + string(runes)
}

// least is how many columns there must be for something to read.
const least = 8

// fit takes the notes that fit into width: of a failure what fits of why, and of
// the detail, which is the last one, what fits.
func (r row) fit(width int) []string {
	var taken []string
	for i, note := range r.notes {
		switch {
		case i == len(r.notes)-1 && r.detail() != "" && width >= least:
			note = r.cut(note, width)
		case i == 0 && r.failed():
			note = cut(note, width)
		}
		if width -= cells(note); width < 0 {
			break
		}
		taken = append(taken, note)
		width -= 3 // for the mark between two
	}
	return taken
}

const waitLegend = "░ waiting for the model or an approval"

// waited is when a span stopped waiting for somebody else: a model for its first
// chunk, an approval for its answer.
func (n *node) waited() uint64 {
	switch {
	case n.is(semconv.OperationApproval):
		return n.end
	case n.is(semconv.OperationChat):
		first := n.attr(semconv.TimeToFirstChunk).GetDoubleValue() * 1e9
		if 0 < first && first < float64(n.duration()) { // a sender may say anything
			return n.start + uint64(first)
		}
	}
	return n.start
}

// bar draws when the span was, in cells of two halves. The root, which only
// repeats the scale, is a line; an instant is a thin mark.
func (r row) bar(tr *traceTree, width int) string {
	scale := float64(2*width) / float64(max(1, tr.end-tr.start))
	at := func(t uint64) int { return int(math.Round(float64(t-tr.start) * scale)) }
	from := min(at(r.start), 2*width-1)
	waited, to := at(r.waited()), max(at(r.end), from+1)

	glyphs := []rune(" ▌▐█")
	switch {
	case r.node.duration() < uint64(time.Microsecond):
		glyphs = []rune(" ▏▕ ")
	case r.parent == nil && r.maybeRoot():
		glyphs = []rune(" ╸╺━")
	}
	cells := make([]rune, width)
	for i := range cells {
		var busy, waits int
		for half := range 2 {
			switch x := 2*i + half; {
			case x < from || x >= to:
			case x < waited:
				waits |= 1 << half
			default:
				busy |= 1 << half
			}
		}
		cells[i] = glyphs[busy]
		if waits != 0 && busy == 0 {
			cells[i] = '░'
		}
	}
	return string(cells)
}

func (n *node) color() string {
	switch {
	case n.failed():
		return red
	case n.is(semconv.OperationChat):
		return cyan
	case n.is(semconv.OperationExecuteTool):
		return green
	case n.is(semconv.OperationApproval):
		return yellow
	case n.is(semconv.OperationBackground):
		return magenta
	}
	return ""
}
