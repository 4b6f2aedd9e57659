package tree

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spantee/spantee/exporter/runs"
)

// maxSlowest is how many calls are named below the waterfall.
const maxSlowest = 5

// slowest names the slowest third of the calls that matter: how long each took,
// its share of the trace, and when it started.
func (s Style) slowest(b *strings.Builder, t *trace) {
	least := t.length() / 100
	calls := t.calls()
	n := min(maxSlowest, len(calls)/3)
	calls = slices.DeleteFunc(calls, func(n *node) bool { return n.duration() <= least })
	if n = min(n, len(calls)); n < 2 {
		return
	}
	slices.SortFunc(calls, func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.duration(), a.duration()), byTime(a, b))
	})
	b.WriteString("\n" + s.paint(bold, "Slowest calls") + "\n")
	for _, call := range calls[:n] {
		share := math.Round(100 * float64(call.duration()) / float64(t.length()))
		line := fmt.Sprintf("%6s  %3.0f%%  ", Duration(call.duration()), share)
		failure, note := "", ""
		if s.Width >= narrow {
			line += fmt.Sprintf("at %-6s  ", Duration(between(t.start, call.start)))
			if call.failure != "" {
				failure = cut("  ✗ "+call.failure, s.Width/3)
			}
			if call.estimated {
				note = "  " + timesEstimated
			}
		}
		what := call.cut(s.label(call, true), s.Width-cells(line)-cells(failure+note))
		b.WriteString(line + s.paint(call.color(), what) + s.paint(red, failure) + s.paint(dim, note) + "\n")
	}
}

// calls are the calls of models and tools. A call with steps of its own
// does not count, because its time is the time of those steps.
func (t *trace) calls() []*node {
	caller := map[*node]bool{}
	for _, n := range t.nodes {
		if n.kind == runs.Agent || n.isCall() {
			caller[n.parent] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(t.nodes), func(n *node) bool { return !n.isCall() || caller[n] })
}
