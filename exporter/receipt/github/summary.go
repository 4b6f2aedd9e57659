package github

import (
	"fmt"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/tree"
)

// maxSummary is GitHub's limit for the summary of a step, less some room for what
// its other commands add later.
const maxSummary = 900 << 10

// markdown returns a table and the text of the traces, "" if there is too little room for it.
func markdown(table, text string, room int) string {
	text = strings.TrimRight(text, "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	const truncated = "\n(truncated)"
	room -= 1 + len(table) + len(fence+"text\n"+truncated+"\n"+fence+"\n") // 1 for the end of the last line
	switch {
	case room < 0:
		return ""
	case len(text) > room:
		text = strings.ToValidUTF8(text[:room], "") + truncated
	}
	return table + fence + "text\n" + text + "\n" + fence + "\n"
}

// maxRuns is how many runs the table lists.
const maxRuns = 20

// runTable returns the first runs as a table with a heading, and sentences, in Markdown.
func runTable(r *receipt.Receipt, sentences []string, link func(trace string) string) string {
	var b strings.Builder
	heading := fmt.Sprintf("%d agent runs", r.RunsTotal)
	if r.RunsTotal == 1 {
		heading = cell(r.Runs[0].Agent) + ": " + runOutcome(&r.Runs[0])
	}
	fmt.Fprintf(&b, "### %s\n\n", heading)
	b.WriteString("| agent | outcome | model | time | turns | tools | failed | tokens in | out | cost | trace |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for i := range r.Runs[:min(len(r.Runs), maxRuns)] {
		run := &r.Runs[i]
		in, out, cost := "", "", ""
		if run.TokensKnown {
			in, out = tree.Thousands(run.InputTokens), tree.Thousands(run.OutputTokens)
		}
		if run.CostKnown {
			cost = fmt.Sprintf("$%.4f", run.Cost)
			if run.CostSource == receipt.CostComputed {
				cost += " computed"
			}
		}
		trace := run.TraceID
		if url := link(run.TraceID); url != "" {
			trace = fmt.Sprintf("[%s](%s)", trace, url)
		}
		took := time.Duration(run.Seconds * float64(time.Second)).Round(time.Millisecond)
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %d | %d | %d | %s | %s | %s | %s |\n", cell(run.Agent), runOutcome(run), cell(run.Model),
			took, run.Turns, run.Tools, run.ToolsFailed, in, out, cost, trace)
	}
	if more := r.RunsTotal - maxRuns; more > 0 {
		fmt.Fprintf(&b, "\nand %d more\n", more)
	}
	if len(r.LimitsReached) > 0 {
		fmt.Fprintf(&b, "\nLimits reached: %s\n", strings.Join(r.LimitsReached, ", "))
	}
	for _, sentence := range sentences {
		fmt.Fprintf(&b, "\n%s\n", cell(sentence))
	}
	return b.String() + "\n"
}

// runOutcome says how a run ended, and what makes that doubtful.
func runOutcome(run *receipt.Run) string {
	outcome := "success"
	if !run.Succeeded {
		outcome = run.ErrorType
	}
	if len(run.Doubts) > 0 {
		outcome += " (" + strings.Join(run.Doubts, ", ") + ")"
	}
	return cell(outcome)
}

// cell escapes a text for a cell of a table in Markdown.
func cell(text string) string {
	var b strings.Builder
	for _, r := range tree.Printable(text) {
		if strings.ContainsRune("\\`*_[]<>|#&~!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
