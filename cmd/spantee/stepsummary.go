package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/tree"
)

// maxStepSummary is GitHub's limit for the file of a step, less some room for what
// its other commands add later.
const maxStepSummary = 900 << 10

// A stepSummary shows the traces of a step on the page of its GitHub Actions run.
type stepSummary struct {
	file string
	text bytes.Buffer
	tree *tree.Writer
}

// newStepSummary returns nil outside of GitHub Actions.
func newStepSummary(quiet bool) *stepSummary {
	file := os.Getenv("GITHUB_STEP_SUMMARY")
	if file == "" || quiet || os.Getenv("GITHUB_ACTIONS") != "true" {
		return nil
	}
	s := &stepSummary{file: file}
	s.tree = tree.NewWriter(&s.text, tree.Style{Width: 120})
	return s
}

// end appends the runs, with links, and their traces.
func (s *stepSummary) end(r *receipt.Receipt, link func(trace string) string) error {
	if err := s.tree.Close(); err != nil || s.text.Len() == 0 {
		return err
	}
	return appendTo(s.file, func(size int64) (string, error) {
		page := s.markdown(runTable(r, link), int(maxStepSummary-size))
		if page == "" {
			return "", fmt.Errorf("%s has no room for the trace (limit 900 KiB)", s.file)
		}
		return page, nil
	})
}

// appendTo appends lines to a file that GitHub Actions reads. text gets the size of the
// file.
func appendTo(file string, text func(size int64) (string, error)) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600) // it may be a pipe
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		return err
	}
	lines, err := text(info.Size())
	if err != nil {
		return err
	}
	if last := make([]byte, 1); info.Size() > 0 {
		if _, err := f.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' { // else the text would begin within that line
			lines = "\n" + lines
		}
	}
	_, err = f.WriteString(lines)
	return err
}

// markdown returns what to append to the file, "" if there is too little room for it.
func (s *stepSummary) markdown(table string, room int) string {
	text := strings.TrimRight(s.text.String(), "\n")
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

// runTable returns the first runs as a table with a heading, in Markdown.
func runTable(r *receipt.Receipt, link func(trace string) string) string {
	var b strings.Builder
	heading := count(r.RunsTotal, "agent run")
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
		fmt.Fprintf(&b, "\nand %s\n", count(more, "more run"))
	}
	if len(r.LimitsReached) > 0 {
		fmt.Fprintf(&b, "\nLimits reached: %s\n", strings.Join(r.LimitsReached, ", "))
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
