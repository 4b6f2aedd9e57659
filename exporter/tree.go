package exporter

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A Tree draws traces as text, one line a span, with bars for the times:
//
//	invoke_agent cursor-agent  ━━━━━━━━━━━━━━ 12.4s
//	├─ chat GPT-5              ██             1.82s  first chunk 1.20s · 213 deltas
//	├─ execute_tool read         ▌            130ms
//	├─ execute_tool shell        ███▌         2.91s  ✗ exit 3 · go
//	└─ chat GPT-5                   ▐████████ 7.65s  first chunk 980ms · 1.2k deltas
//
// What is drawn is safe for a terminal, whatever names and attributes hold.
type Tree struct {
	Width int  // columns, 80 if zero
	Color bool // with ANSI escapes
	Lines int  // spans drawn of one trace, 200 if zero: the failed and the longest
}

// Render draws the traces that spans belong to, in the order they started.
func (t Tree) Render(spans []*tracepb.Span) string {
	var drawn []string
	for _, nodes := range byTrace(spans) {
		drawn = append(drawn, t.draw(nodes, tally{}))
	}
	return strings.Join(drawn, "\n")
}

// byTrace parts spans by their trace, the first to start first.
func byTrace(spans []*tracepb.Span) [][]*node {
	index := make(map[string]int)
	var traces [][]*node
	for _, s := range spans {
		i, ok := index[string(s.GetTraceId())]
		if !ok {
			i = len(traces)
			index[string(s.GetTraceId())] = i
			traces = append(traces, nil)
		}
		traces[i] = append(traces[i], newNode(s))
	}
	for _, nodes := range traces {
		slices.SortFunc(nodes, byTime)
	}
	slices.SortStableFunc(traces, func(a, b []*node) int { return byTime(a[0], b[0]) })
	return traces
}

const minWidth = 40

// draw draws one trace; lost are the spans of it that were not kept.
func (t Tree) draw(nodes []*node, lost tally) string {
	t.Width = max(minWidth, cmp.Or(t.Width, 80))
	all := lost
	tr := newTraceTree(fold(nodes))
	for _, n := range tr.nodes {
		all.add(n)
	}
	hidden := tr.hide(cmp.Or(t.Lines, 200), lost)

	var b strings.Builder
	t.header(&b, tr, all)
	t.waterfall(&b, tr)
	if hidden.spans > 0 {
		failed := "none"
		if hidden.failed > 0 {
			failed = thousands(hidden.failed)
		}
		more := fmt.Sprintf("… %s not shown, %s of them failed", plural(hidden.spans, "shorter span"), failed)
		b.WriteString(t.paint(dim, cut(more, t.Width)) + "\n")
	}
	return b.String()
}

// hide leaves limit spans in sight.
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

// header says what the trace is: as many facts a line as fit.
func (t Tree) header(b *strings.Builder, tr *traceTree, all tally) {
	type fact struct{ color, text string }
	facts := []fact{
		{bold, tr.first(attrAgent)},
		{"", tr.first(attrModel)},
		{"", humanDuration(tr.end - tr.start)},
		{"", plural(all.tools, "tool")},
	}
	if all.failedTools > 0 {
		facts = append(facts, fact{red, thousands(all.failedTools) + " failed"})
	}
	if tr.root == nil {
		facts = append(facts, fact{red, "no root span"})
	} else if in, out := tr.root.attr(attrInput), tr.root.attr(attrOutput); in != nil || out != nil {
		facts = append(facts, fact{"", fmt.Sprintf("%s tokens in, %s out",
			thousands(int(in.GetIntValue())), thousands(int(out.GetIntValue())))})
	}
	facts = append(facts, fact{dim, "trace " + hex.EncodeToString(tr.nodes[0].span.GetTraceId())})

	column := 0
	for _, f := range facts {
		if f.text == "" {
			continue
		}
		text := cut(printable(f.text), t.Width)
		switch {
		case column == 0:
		case column+3+cells(text) > t.Width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(t.paint(dim, " · "))
			column += 3
		}
		b.WriteString(t.paint(f.color, text))
		column += cells(text)
	}
	b.WriteString("\n\n")
}

// first is the first value of an attribute that any span of the trace has.
func (tr *traceTree) first(key string) string {
	if tr.root != nil {
		if v := tr.root.attr(key).GetStringValue(); v != "" {
			return v
		}
	}
	for _, n := range tr.nodes {
		if v := n.attr(key).GetStringValue(); v != "" {
			return v
		}
	}
	return ""
}

// A row is a line of the waterfall before it has its widths.
type row struct {
	*node
	name, duration string
	notes          []string
}

func (t Tree) waterfall(b *strings.Builder, tr *traceTree) {
	rows := rows(nil, tr.tops, "", true)
	var name, duration, notes int
	for _, r := range rows {
		name = max(name, cells(r.name))
		duration = max(duration, cells(r.duration))
		notes = max(notes, cells(strings.Join(r.notes, " · ")))
	}
	// A name may have two fifths of the line; of what is left the notes get at
	// most half and the bars the rest.
	const gaps = 2 + 1 + 2
	name = min(name, t.Width*2/5)
	left := t.Width - gaps - name - duration
	notes = min(notes, left/2)
	bar := left - notes

	for _, r := range rows {
		b.WriteString(pad(cut(r.name, name), name))
		b.WriteString("  " + t.paint(r.color(), r.bar(tr, bar)))
		fmt.Fprintf(b, " %*s", duration, r.duration)
		for i, note := range fit(r.notes, notes, r.failed(), r.detail() != "") {
			switch {
			case i > 0:
				b.WriteString(t.paint(dim, " · "+note))
			case r.failed():
				b.WriteString("  " + t.paint(red, note))
			default:
				b.WriteString("  " + t.paint(dim, note))
			}
		}
		b.WriteString("\n")
	}
}

// rows lays the tree out: a root as it is, below it the branches.
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
			name:     indent + branch + printable(n.span.GetName()),
			duration: humanDuration(n.duration()),
			notes:    n.notes(),
		})
		to = rows(to, n.children, indent+below, false)
	}
	return to
}

// notes are what the bar does not say, the most telling first.
func (n *node) notes() []string {
	var notes []string
	if n.failed() {
		notes = append(notes, "✗ "+n.failure())
	}
	if v := n.attr(attrFirstChunk); v != nil && n.is("chat") {
		notes = append(notes, "first chunk "+humanDuration(uint64(v.GetDoubleValue()*1e9)))
	}
	switch {
	case n.deltas == 1:
		notes = append(notes, "1 delta")
	case n.deltas > 1:
		notes = append(notes, roughly(n.deltas)+" deltas")
	}
	if v := n.attr(attrExecutable).GetStringValue(); v != "" && n.detail() == "" {
		notes = append(notes, printable(v))
	}
	if n.attr(attrNoStart).GetBoolValue() {
		notes = append(notes, "start missing")
	}
	if n.attr(attrEstimated).GetBoolValue() {
		notes = append(notes, "times estimated")
	}
	if d := n.detail(); d != "" {
		notes = append(notes, d)
	}
	return notes
}

// detail is what a tool call was about, if that was recorded: a command on one
// line, a path from where the agent is.
func (n *node) detail() string {
	if !n.is("execute_tool") {
		return ""
	}
	for _, key := range attrDetails {
		v := n.attr(key).GetStringValue()
		if v == "" {
			continue
		}
		if key == attrPath && n.parent != nil {
			if dir := n.parent.attr(attrDirectory).GetStringValue(); dir != "" {
				v = strings.TrimPrefix(v, dir+"/")
			}
		}
		return printable(strings.Join(strings.Fields(v), " "))
	}
	return ""
}

// failure says in words why a span failed.
func (n *node) failure() string {
	for _, p := range n.parts {
		if p.failed() {
			return p.failure()
		}
	}
	if code := n.attr(attrExitCode).GetIntValue(); code != 0 {
		return "exit " + strconv.FormatInt(code, 10)
	}
	kind, message := n.attr(attrErrorType).GetStringValue(), n.span.GetStatus().GetMessage()
	if kind != "" && message != "" && kind != message {
		return printable(kind + ": " + message)
	}
	return printable(cmp.Or(kind, message, "error"))
}

// bar draws when the span was, in cells of two halves. The root, which only
// repeats the scale, is a line; an instant is a thin mark.
func (r row) bar(tr *traceTree, width int) string {
	scale := float64(2*width) / float64(max(1, tr.end-tr.start))
	from := int(math.Round(float64(r.start-tr.start) * scale))
	to := int(math.Round(float64(r.end-tr.start) * scale))
	from = min(from, 2*width-1)
	to = max(to, from+1)

	glyphs := []rune(" ▌▐█")
	switch {
	case r.node.duration() < uint64(time.Microsecond):
		glyphs = []rune(" ▏▕ ")
	case r.parent == nil && r.maybeRoot():
		glyphs = []rune(" ╸╺━")
	}
	cells := make([]rune, width)
	for i := range cells {
		var filled int
		if from <= 2*i && 2*i < to {
			filled |= 1
		}
		if from <= 2*i+1 && 2*i+1 < to {
			filled |= 2
		}
		cells[i] = glyphs[filled]
	}
	return string(cells)
}

func (r row) color() string {
	switch {
	case r.failed():
		return red
	case r.is("chat"):
		return cyan
	case r.is("execute_tool"):
		return green
	case r.is("await_approval"):
		return yellow
	case r.is("background"):
		return magenta
	}
	return ""
}
