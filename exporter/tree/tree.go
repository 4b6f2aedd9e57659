// Package tree draws traces as text waterfalls, for a terminal.
package tree

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/spantee/spantee/exporter/runs"
)

// A Style says how to draw traces: one line per span, with a bar for its time. The
// zero Style is ready to use.
//
//	invoke_agent cursor-agent  ━━━━━━━━━━━━━━ 12.4s
//	├─ chat GPT-5              ░█             1.82s  first chunk 1.20s · 213 deltas
//	├─ execute_tool read         ▌            130ms
//	├─ execute_tool shell        ███▌         2.91s  ✗ exit 3 · go
//	└─ chat GPT-5                   ░████████ 7.65s  first chunk 980ms · 1.2k deltas
//	░ waiting for the model or an approval
//
// The slowest calls follow, with what they were about.
//
// The text is safe to print on a terminal, whatever names and attributes contain.
type Style struct {
	Width int  // columns, 80 if zero
	Color bool // with ANSI escapes
	ASCII bool // without box-drawing characters, and with ? for other characters that are not ASCII
	Lines int  // spans drawn of one trace, 200 if zero; the failed and the longest are kept
}

// Render draws the traces that spans belong to, in the order they started.
func (s Style) Render(spans []*runs.Span) string {
	index := make(map[string]*partial)
	var traces []*partial
	for _, span := range spans {
		p := index[string(span.TraceID)]
		if p == nil {
			p = &partial{id: string(span.TraceID)}
			index[p.id] = p
			traces = append(traces, p)
		}
		p.add(span)
	}
	slices.SortStableFunc(traces, func(a, b *partial) int {
		return byTime(slices.MinFunc(a.nodes, byTime), slices.MinFunc(b.nodes, byTime))
	})
	var drawn []string
	for _, p := range traces {
		drawn = append(drawn, s.draw(p))
	}
	return strings.Join(drawn, "\n")
}

const minWidth = 40

func (s Style) width() int { return max(minWidth, cmp.Or(s.Width, 80)) }

// draw returns one trace as text.
func (s Style) draw(p *partial) string {
	s.Width = s.width()
	tr := newTraceTree(p.nodes)
	hidden := tr.hide(cmp.Or(s.Lines, 200), p.lost)
	if tr.timeless {
		spread(tr.tops, 0)
		tr.start, tr.end = 0, tr.tops[len(tr.tops)-1].end
	}

	var b strings.Builder
	s.header(&b, p, tr)
	s.waterfall(&b, tr)
	waits := slices.ContainsFunc(tr.nodes, func(n *node) bool { return !n.hidden && n.waited() > n.start })
	if waits {
		b.WriteString(s.paint(dim, cut(waitLegend, s.Width)) + "\n")
	}
	if tr.timeless {
		b.WriteString(s.paint(dim, cut("no times are known: the steps are drawn in their order", s.Width)) + "\n")
	}
	if hidden.spans > 0 {
		failed := "none"
		if hidden.failed > 0 {
			failed = Thousands(hidden.failed)
		}
		more := fmt.Sprintf("… %s not shown, %s failed", plural(hidden.spans, "shorter span"), failed)
		b.WriteString(s.paint(dim, cut(more, s.Width)) + "\n")
	}
	if !tr.timeless {
		s.slowest(&b, tr)
	}
	return s.encode(b.String())
}

// spread gives nodes equal steps instead of times: a node with children lasts as long
// as they do. It returns the next step.
func spread(nodes []*node, step uint64) uint64 {
	const second = 1e9
	for _, n := range nodes {
		n.start, n.firstChunk, n.estimated = step, 0, false
		if step = spread(n.children, step); step == n.start {
			step += second
		}
		n.end = step
	}
	return step
}

// header writes the facts about the trace, as many per line as fit.
func (s Style) header(b *strings.Builder, p *partial, tr *traceTree) {
	type fact struct{ color, text string }
	facts := []fact{
		{bold, p.run.Agent},
		{"", p.run.Model},
		{"", tr.duration(tr.length())},
		{"", plural(p.run.Tools, "tool")},
	}
	if p.run.ToolErrors > 0 {
		facts = append(facts, fact{red, Thousands(p.run.ToolErrors) + " failed"})
	}
	if tr.root == nil {
		facts = append(facts, fact{red, "no root span"})
	} else {
		for _, text := range totals(&p.run) {
			facts = append(facts, fact{"", text})
		}
	}
	facts = append(facts, fact{dim, "trace " + hex.EncodeToString([]byte(p.id))})

	column := 0
	for _, f := range facts {
		if f.text == "" {
			continue
		}
		text := cut(printable(f.text), s.Width)
		switch {
		case column == 0:
		case column+3+cells(text) > s.Width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(s.paint(dim, " · "))
			column += 3
		}
		b.WriteString(s.paint(f.color, text))
		column += cells(text)
	}
	b.WriteString("\n\n")
}

// totals are what the run used, and what it had to do again.
func totals(run *runs.Run) (facts []string) {
	used := run.Usage()
	switch {
	case used.InputKnown:
		facts = append(facts, fmt.Sprintf("%s tokens in, %s out", Thousands(used.Input), Thousands(used.Output)))
	case used.OutputKnown:
		facts = append(facts, Thousands(used.Output)+" tokens out")
	}
	if used.Cost > 0 {
		facts = append(facts, money(used.Cost))
	}
	for _, count := range []struct {
		times     int64
		one, many string
	}{
		{run.Stated.Retries, "retry", "retries"},
		{run.Stated.Reconnects, "reconnect", "reconnects"},
		{run.Stated.Compactions, "compaction", "compactions"},
	} {
		switch count.times {
		case 0:
		case 1:
			facts = append(facts, "1 "+count.one)
		default:
			facts = append(facts, Thousands(count.times)+" "+count.many)
		}
	}
	return facts
}
