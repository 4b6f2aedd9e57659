package tree

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/semconv"
)

// maxSlowest is how many calls are named below the waterfall.
const maxSlowest = 5

// slowest names the slowest third of the calls that matter: how long each took,
// its share of the trace, and when it started.
func (s Style) slowest(b *strings.Builder, tr *traceTree) {
	least := (tr.end - tr.start) / 100
	calls := tr.calls()
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
		share := math.Round(100 * float64(call.duration()) / float64(tr.end-tr.start))
		line := fmt.Sprintf("%6s  %3.0f%%  ", humanDuration(call.duration()), share)
		failure := ""
		if s.Width >= narrow {
			line += fmt.Sprintf("at %-6s  ", humanDuration(call.start-tr.start))
			if call.failed() {
				failure = cut("  ✗ "+call.whyFailed(), s.Width/3)
			}
		}
		what := call.shortName(true, failure == "")
		what = call.cut(what, s.Width-cells(line)-cells(failure))
		b.WriteString(line + s.paint(call.color(), what) + s.paint(red, failure) + "\n")
	}
}

// calls are the calls of models and tools. The time of one that others work for
// is the time of their steps.
func (tr *traceTree) calls() []*node {
	caller := map[*node]bool{}
	for _, n := range tr.nodes {
		if n.is(semconv.OperationInvokeAgent) || n.isCall() {
			caller[n.parent] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(tr.nodes), func(n *node) bool { return !n.isCall() || caller[n] })
}

func (n *node) isCall() bool {
	return n.is(semconv.OperationChat) || n.is(semconv.OperationExecuteTool)
}
