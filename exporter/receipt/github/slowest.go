package github

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping/semconv"
)

const maxSlowest = 5 // steps that are listed

// slowest are the tools and the model turns that took longest. A tool with steps of its own is not
// among them.
type slowest struct {
	calls        runs.Calls
	tools, turns []slow
	names        runs.Turns
}

type slow struct {
	trace, what string // trace is in hex
	turn        runs.Turn
	start       uint64
	took        time.Duration
	estimated   bool
}

// add adds a finished span.
func (s *slowest) add(span *runs.Span) {
	step := slow{
		trace: hex.EncodeToString(span.TraceID), start: span.Start, took: span.Duration(), estimated: span.Estimated(),
		turn: runs.TurnOf(span),
	}
	s.names.Add(span)
	isCall := s.calls.Add(span)
	switch span.Kind() {
	case runs.Tool:
		detail, _ := span.Detail()
		step.what = call(span.ToolName(), span.Text(semconv.ProcessExecutable), detail)
		if isCall {
			s.tools = longest(s.tools, step)
		}
	case runs.Chat:
		step.what = span.Reply()
		s.turns = longest(s.turns, step)
	}
}

// longest adds a step to the longest.
func longest(list []slow, step slow) []slow {
	i, _ := slices.BinarySearchFunc(list, step, func(a, b slow) int { return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.start, b.start)) })
	list = slices.Insert(list, i, step)
	return list[:min(len(list), maxSlowest)]
}

// write writes tables in Markdown. Steps of less than a hundredth of a second are no news.
func (s *slowest) write(b *strings.Builder, r *receipt.Receipt) {
	starts := map[string]time.Time{}
	for i := range r.Runs {
		starts[r.Runs[i].TraceID] = r.Runs[i].Start
	}
	table := func(title, column string, list []slow, what func(slow) string) {
		list = slices.DeleteFunc(slices.Clone(list), func(step slow) bool { return step.took < 10*time.Millisecond })
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(b, "\n**%s**\n\n| %s | took | at |\n|---|--:|--:|\n", title, column)
		for _, step := range list {
			at := ""
			if start, known := starts[step.trace]; known {
				at = tree.Duration(max(0, time.Unix(0, int64(step.start)).Sub(start)))
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", cell(what(step)), tree.Took(step.took, step.estimated), at)
		}
	}
	table("Slowest tools", "tool", s.tools, func(step slow) string { return step.what })
	table("Slowest model turns", "turn", s.turns, func(step slow) string { return s.names.Name(step.turn, step.what) })
}
