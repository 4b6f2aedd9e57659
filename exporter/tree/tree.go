// Package tree draws traces as text waterfalls, for a terminal.
package tree

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

// maxDrawnSpans is how many spans of a trace are drawn.
const maxDrawnSpans = 200

// draw returns one trace as text.
func (s Style) draw(t *trace) string {
	s.Width = s.width()
	t.keep(maxDrawnSpans)
	t.link()
	if t.timeless {
		spread(t.tops, 0)
		t.start, t.end = 0, t.tops[len(t.tops)-1].end
	}

	var b strings.Builder
	s.header(&b, t)
	s.waterfall(&b, t)
	if slices.ContainsFunc(t.nodes, func(n *node) bool { return n.waited() > n.start }) {
		s.remark(&b, "░ waiting for the model or an approval")
	}
	if t.timeless {
		s.remark(&b, "no times are known: the steps are drawn in their order")
	}
	if t.omitted > 0 {
		failed := "none"
		if t.omittedFailed > 0 {
			failed = Thousands(t.omittedFailed)
		}
		s.remark(&b, fmt.Sprintf("… %s not shown, %s failed", Plural(t.omitted, "shorter span"), failed))
	}
	if !t.timeless {
		s.slowest(&b, t)
	}
	return s.encode(b.String())
}

// remark writes a line below the waterfall.
func (s Style) remark(b *strings.Builder, text string) {
	b.WriteString(s.paint(dim, cut(text, s.Width)) + "\n")
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

// A fact is a text of the header.
type fact struct{ color, text string }

// header writes the facts about the trace, what makes a success doubtful, and what was slow.
func (s Style) header(b *strings.Builder, t *trace) {
	facts := []fact{
		{bold, t.run.Agent},
		{"", t.run.Model},
		{"", t.duration(t.length())},
		{"", Plural(t.run.Tools, "tool")},
	}
	if t.run.ToolErrors > 0 {
		facts = append(facts, fact{red, Thousands(t.run.ToolErrors) + " failed"})
	}
	if t.root == nil {
		facts = append(facts, fact{red, "no root span"})
	} else {
		for _, text := range totals(&t.run) {
			facts = append(facts, fact{"", text})
		}
	}
	s.facts(b, append(facts, fact{dim, "trace " + hex.EncodeToString([]byte(t.id))}))
	facts = nil
	for i, d := range t.run.Doubts {
		text := d.String()
		if i == 0 {
			text = "doubts: " + text
		}
		facts = append(facts, fact{yellow, text})
	}
	s.facts(b, facts)
	if !t.timeless {
		s.wrap(b, t.timeline.Account().String())
	}
	b.WriteString("\n")
}

// facts writes facts, as many per line as fit.
func (s Style) facts(b *strings.Builder, facts []fact) {
	column := 0
	for _, f := range facts {
		if f.text == "" {
			continue
		}
		text := cut(Printable(f.text), s.Width)
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
	if column > 0 {
		b.WriteString("\n")
	}
}

// wrap writes a list, as many items per line as fit.
func (s Style) wrap(b *strings.Builder, list string) {
	line := ""
	for _, item := range strings.SplitAfter(Printable(list), ", ") {
		if line != "" && cells(line)+cells(strings.TrimSuffix(item, " ")) > s.Width {
			b.WriteString(cut(strings.TrimSuffix(line, " "), s.Width) + "\n")
			line = ""
		}
		line += item
	}
	if line != "" {
		b.WriteString(cut(line, s.Width) + "\n")
	}
}

// Used says what tokens were used and what they cost, as far as that is known.
func Used(used runs.Usage) (facts []string) {
	switch {
	case used.InputTokens > 0 && used.OutputTokens == 0:
		facts = append(facts, Thousands(used.InputTokens)+" tokens in")
	case used.InputTokens > 0:
		facts = append(facts, fmt.Sprintf("%s tokens in, %s out", Thousands(used.InputTokens), Thousands(used.OutputTokens)))
	case used.OutputTokens > 0:
		facts = append(facts, Thousands(used.OutputTokens)+" tokens out")
	}
	if used.Cost > 0 {
		facts = append(facts, money(used.Cost))
	}
	return facts
}

// Again says what an agent did again, and the delays before retries that it states.
func Again(again runs.Again, delay time.Duration) (facts []string) {
	for _, count := range []struct {
		times int64
		of    string
		delay time.Duration
	}{{again.Retries, "retry", delay}, {again.Reconnects, "reconnect", 0}, {again.Compactions, "compaction", 0}} {
		fact := Plural(count.times, count.of)
		if count.delay > 0 {
			fact += " (" + Duration(count.delay) + " delay)"
		}
		if count.times > 0 {
			facts = append(facts, fact)
		}
	}
	return facts
}

// totals are what the run used, and what it had to do again.
func totals(run *runs.Run) []string {
	return append(Used(run.Usage()), Again(run.Stated.Again, run.RetryDelay)...)
}
