package tree

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
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
	// narrow is the width below which there is no room for notes. What a call was about
	// then follows its name, and a mark before it says whether it failed.
	narrow = 60

	// minBar is the least width of the bars.
	minBar = 8
)

func (s Style) waterfall(b *strings.Builder, t *trace) {
	rows := s.rows(t, nil, t.tops, "", true)
	gaps := 2 + 1 + 2
	if t.timeless { // no durations
		gaps--
	}
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
	name = min(name, most)
	left := s.Width - gaps - name - duration
	notes = min(notes, left/2)
	if notes == 0 {
		left += 2
	}
	bar := left - notes

	for _, r := range rows {
		b.WriteString(pad(cut(r.branch, name-1)+r.cut(r.name, name-cells(r.branch)), name))
		fitting, drawn := r.fit(notes), r.bar(t, bar)
		last := r.duration == "" && len(fitting) == 0
		if last {
			drawn = strings.TrimRight(drawn, " ")
		}
		b.WriteString("  " + s.paint(r.color(), drawn))
		if duration > 0 && !last {
			fmt.Fprintf(b, " %*s", duration, r.duration)
		}
		for i, note := range fitting {
			switch {
			case i > 0:
				b.WriteString(s.paint(dim, " · "+note))
			case r.failure != "":
				b.WriteString("  " + s.paint(red, note))
			default:
				b.WriteString("  " + s.paint(dim, note))
			}
		}
		b.WriteString("\n")
	}
}

// rows lays the tree out: roots without a branch, below them the branches.
func (s Style) rows(t *trace, to []row, nodes []*node, indent string, top bool) []row {
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
			name:     s.label(n, s.Width < narrow),
			duration: t.duration(n.duration()),
			notes:    n.notes(),
		})
		to = s.rows(t, to, n.children, indent+below, false)
	}
	return to
}

// label names a span, with the details of a call if asked.
func (s Style) label(n *node, details bool) string {
	label := n.title
	if details {
		label = n.call()
	}
	if s.Width < narrow && n.failure != "" {
		label = "✗ " + label
	}
	return label
}

// cut shortens text, which ends in the detail, to width columns. A path is
// cut at its beginning, because its end says more.
func (n *node) cut(text string, width int) string {
	before, isDetail := strings.CutSuffix(text, n.about)
	room := width - cells(before)
	if cells(text) <= width || !isDetail || room < minDetail || !n.isPath {
		return cut(text, width)
	}
	runes := []rune(n.about)
	for cells(string(runes)) > room-1 {
		runes = runes[1:]
	}
	return before + "…" + string(runes)
}

// minDetail is the fewest columns in which a detail that was cut is still readable.
const minDetail = 8

// fit returns the notes that fit into width. A failure, which is the first note, and the
// detail, which is the last, are cut to fit. That times are estimated goes last, but for the failure.
func (r row) fit(width int) []string {
	var taken []string
	const separator = 3
	left, least := width-cells(timesEstimated)-separator, -separator
	if r.failure != "" {
		least = min(cells(r.notes[0]), minDetail)
	}
	estimated := r.estimated && left >= least
	if estimated {
		width = left
	}
	for i, note := range r.notes {
		switch {
		case note == timesEstimated:
			if estimated {
				taken = append(taken, note)
			}
			continue
		case i == len(r.notes)-1 && r.about != "" && width >= minDetail:
			note = r.cut(note, width)
		case i == 0 && r.failure != "":
			note = cut(note, width)
		}
		if width -= cells(note); width < 0 {
			continue
		}
		taken = append(taken, note)
		width -= separator
	}
	return taken
}

// waited is when a span stopped waiting for somebody else: a model for its first
// chunk, an approval for its answer.
func (n *node) waited() uint64 {
	switch {
	case n.kind == runs.Approval:
		return n.end
	case n.kind == runs.Chat && n.firstChunk < n.duration():
		return n.start + uint64(n.firstChunk)
	}
	return n.start
}

// bar draws when the span was, in cells of two halves. The root, which only
// repeats the scale, is a line; an instant is a thin mark.
func (r row) bar(t *trace, width int) string {
	scale := float64(2*width) / float64(max(1, t.end-t.start))
	at := func(instant uint64) int { return int(math.Round(float64(instant-t.start) * scale)) }
	from := min(at(r.start), 2*width-1)
	waited, to := from, max(at(r.end), from+1)
	if r.waited() > r.start {
		waited = at(r.waited())
	}

	glyphs := []rune(" ▌▐█")
	switch {
	case r.node.duration() < time.Microsecond:
		glyphs = []rune(" ▏▕ ")
	case r.parent == nil && r.maybeRoot:
		glyphs = []rune(" ╸╺━")
	}
	cells := make([]rune, width)
	for i := range cells {
		busy, waits := 0, false
		for half := range 2 {
			switch x := 2*i + half; {
			case x < from || x >= to:
			case x < waited:
				waits = true
			default:
				busy |= 1 << half
			}
		}
		cells[i] = glyphs[busy]
		if waits && busy == 0 {
			cells[i] = '░'
		}
	}
	return string(cells)
}

var colors = map[runs.Kind]string{
	runs.Chat: cyan, runs.Tool: green, runs.Approval: yellow, runs.Background: magenta,
}

func (n *node) color() string {
	if n.failure != "" {
		return red
	}
	return colors[n.kind]
}
