package github

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
)

// maxSummary is GitHub's limit for the summary of a step, less some room for what
// its other commands add later.
const maxSummary = 900 << 10

// markdown returns what people read first and the text of the traces, folded, "" if there is too
// little room for it.
func markdown(head, text string, room int) string {
	text = strings.TrimRight(text, "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	before, after := "<details><summary>All steps</summary>\n\n"+fence+"text\n", "\n"+fence+"\n\n</details>\n"
	const truncated = "\n(truncated)"
	room -= 1 + len(head+before+truncated+after) // 1 for the end of the last line
	switch {
	case room < 0:
		return ""
	case len(text) > room:
		text = strings.ToValidUTF8(text[:room], "") + truncated
	}
	return head + before + text + after
}

// maxRuns is how many runs the table lists.
const maxRuns = 20

// maxFailed is how many failed tools are listed.
const maxFailed = 20

// overview returns what people look for first, in Markdown: how the runs ended, what failed, and
// what was slow.
func overview(r *receipt.Receipt, slow *slowest, sentences []string, link func(trace string) string) string {
	var b strings.Builder
	if r.RunsTotal == 1 {
		run := &r.Runs[0]
		fmt.Fprintf(&b, "### %s\n\n%s\n", heading(run, r.DoubtCounts), facts(run, link))
		if run.Slowest != "" {
			fmt.Fprintf(&b, "\n%s\n", cell(run.Slowest))
		}
	} else {
		runTable(&b, r, link)
	}
	if len(r.LimitsReached) > 0 {
		fmt.Fprintf(&b, "\nLimits reached: %s\n", strings.Join(r.LimitsReached, ", "))
	}
	for _, sentence := range sentences {
		fmt.Fprintf(&b, "\n%s\n", cell(sentence))
	}
	failed := 0
	for i := range r.Runs {
		for _, f := range r.Runs[i].FailedTools {
			if failed++; failed == 1 {
				b.WriteString("\n**Failed**\n\n| tool | why | at |\n|---|---|--:|\n")
			}
			if failed > maxFailed {
				continue
			}
			at := ""
			if hasTimes(&r.Runs[i]) {
				at = tree.Duration(time.Duration(f.AtMillis) * time.Millisecond)
			}
			fmt.Fprintf(&b, "| ✗ %s | %s | %s |\n", cell(call(f.Tool, f.Program, f.Detail)), cell(f.Failure), at)
		}
	}
	if more := r.ToolsFailed - min(failed, maxFailed); failed > 0 && more > 0 {
		fmt.Fprintf(&b, "\nand %d more\n", more)
	}
	slow.write(&b, r)
	return b.String() + "\n"
}

// call says what a tool call was about.
func call(tool, program, detail string) string {
	return strings.TrimSpace(tool + " " + cmp.Or(detail, program))
}

// heading says how the only run ended, with its failures and doubts.
func heading(run *receipt.Run, doubts map[string]int) string {
	mark, ended := "✓", "ended"
	if run.ToolsFailed > 0 || len(run.Doubts) > 0 {
		mark = "⚠"
	}
	if !run.Succeeded {
		mark, ended = "✗", "failed: "+run.ErrorType
	}
	text := fmt.Sprintf("%s %s %s", mark, run.Agent, ended)
	if run.ToolsFailed > 0 {
		text += fmt.Sprintf(", %d of %d tools failed", run.ToolsFailed, run.Tools)
	}
	for _, name := range run.Doubts {
		text += ", " + runs.Doubt{Name: name, Count: doubts[name]}.Words()
	}
	return cell(text)
}

// facts are a run's, on one line.
func facts(run *receipt.Run, link func(trace string) string) string {
	list := []string{took(run), cell(run.Model), tree.Plural(run.Turns, "turn"), tree.Plural(run.Tools, "tool")}
	list = append(list, tree.Used(runs.Usage{InputTokens: run.InputTokens, OutputTokens: run.OutputTokens})...)
	list = append(list, cost(run))
	list = append(list, tree.Again(runs.Again{Retries: int64(run.Retries), Reconnects: int64(run.Reconnects), Compactions: int64(run.Compactions)}, time.Duration(run.Retry*float64(time.Second)))...)
	list = append(list, "trace "+traceLink(run, link))
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), " · ")
}

// hasTimes reports whether more than the order of a run's steps is known.
func hasTimes(run *receipt.Run) bool { return run.Seconds >= 0.001 }

func took(run *receipt.Run) string {
	if !hasTimes(run) {
		return ""
	}
	return tree.Duration(time.Duration(run.Seconds * float64(time.Second)))
}

func cost(run *receipt.Run) string {
	text := strings.Join(tree.Used(runs.Usage{Cost: run.Cost}), "")
	if text != "" && run.CostSource == receipt.CostComputed {
		text += " computed"
	}
	return text
}

func traceLink(run *receipt.Run, link func(trace string) string) string {
	if url := link(run.TraceID); url != "" {
		return fmt.Sprintf("[%s](%s)", run.TraceID, url)
	}
	return run.TraceID
}

// runTable writes the first runs as a table with a heading, in Markdown.
func runTable(b *strings.Builder, r *receipt.Receipt, link func(trace string) string) {
	heading := fmt.Sprintf("%d agent runs", r.RunsTotal)
	if r.ToolsFailed > 0 {
		heading = fmt.Sprintf("⚠ %s, %d of %d tools failed", heading, r.ToolsFailed, r.Tools)
	}
	fmt.Fprintf(b, "### %s\n\n", heading)
	b.WriteString("| agent | outcome | model | time | turns | tools | failed | tokens in | out | cost | trace |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for i := range r.Runs[:min(len(r.Runs), maxRuns)] {
		run := &r.Runs[i]
		in, out := "", ""
		if run.TokensKnown {
			in, out = tree.Thousands(run.InputTokens), tree.Thousands(run.OutputTokens)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %d | %d | %s | %s | %s | %s |\n", cell(run.Agent), runOutcome(run), cell(run.Model),
			took(run), run.Turns, run.Tools, run.ToolsFailed, in, out, cost(run), traceLink(run, link))
	}
	if more := r.RunsTotal - maxRuns; more > 0 {
		fmt.Fprintf(b, "\nand %d more\n", more)
	}
}

// runOutcome says how a run ended, and what makes that doubtful.
func runOutcome(run *receipt.Run) string {
	outcome := "ended"
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
