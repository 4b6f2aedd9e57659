// Package github shows a receipt to GitHub Actions: as the outputs of a step, and with the
// traces as the step's summary.
package github

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
)

// A Step is the step of a workflow that this process runs in.
type Step struct {
	outputs string // $GITHUB_OUTPUT; "" for none
	summary string // $GITHUB_STEP_SUMMARY; "" for none
	said    []string
	slow    slowest
	traces  bytes.Buffer
	tree    *tree.Writer // of traces
}

// NewStep returns nil outside of GitHub Actions. quiet leaves out the summary.
func NewStep(quiet bool) *Step {
	s := &Step{outputs: os.Getenv("GITHUB_OUTPUT")}
	if !quiet {
		s.summary = os.Getenv("GITHUB_STEP_SUMMARY")
	}
	if os.Getenv("GITHUB_ACTIONS") != "true" || s.outputs+s.summary == "" {
		return nil
	}
	s.tree = tree.NewWriter(&s.traces, tree.Style{Width: 120})
	return s
}

// Export adds a span to the summary.
func (s *Step) Export(span *runs.Span) {
	if s.summary != "" {
		s.tree.Export(span)
		s.slow.add(span)
	}
}

// Say adds a sentence to the summary, unless it is empty.
func (s *Step) Say(sentence string) {
	if s != nil && sentence != "" {
		s.said = append(s.said, sentence)
	}
}

// Write writes the outputs and the summary. link returns the URL of a trace, "" if there is
// none. If hangs is set, a goroutine may still be in Export, and there is no summary.
func (s *Step) Write(r *receipt.Receipt, link func(trace string) string, hangs bool) error {
	var failedOutputs, failedSummary error
	if s.outputs != "" {
		err := appendTo(s.outputs, func(int64) (string, error) { return outputs(r, link) })
		if err != nil {
			failedOutputs = fmt.Errorf("cannot write $GITHUB_OUTPUT: %w", err)
		}
	}
	if s.summary != "" && !hangs {
		if err := s.writeSummary(r, link); err != nil {
			failedSummary = fmt.Errorf("cannot write the step summary: %w", err)
		}
	}
	return errors.Join(failedOutputs, failedSummary)
}

func (s *Step) writeSummary(r *receipt.Receipt, link func(trace string) string) error {
	if err := s.tree.Close(); err != nil || s.traces.Len() == 0 {
		return err
	}
	return appendTo(s.summary, func(size int64) (string, error) {
		text := markdown(overview(r, &s.slow, s.said, link), s.traces.String(), int(maxSummary-size))
		if text == "" {
			return "", fmt.Errorf("%s has no room for the trace (limit 900 KiB)", s.summary)
		}
		return text, nil
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

// outputNames are the names of outputs where the field's would mislead: all outputs begin with
// spantee_, and a run's version is its agent's.
var outputNames = map[string]string{"spantee_version": "version", "version": "agent_version"}

// outputs returns the receipt as outputs of a step: its own fields, and the fields of its
// run if it is the only one.
func outputs(r *receipt.Receipt, link func(trace string) string) (string, error) {
	parts := []any{r} // of several with one name, the last counts
	if len(r.Runs) == 1 {
		parts = []any{r.Runs[0], map[string]string{"trace_url": link(r.Runs[0].TraceID)}, r}
	}
	fields := map[string]json.RawMessage{}
	for _, part := range parts {
		b, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(b, &fields); err != nil {
			return "", err
		}
	}
	delete(fields, "runs")
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		var s string
		if json.Unmarshal(fields[name], &s) == nil {
			value = s
		}
		fmt.Fprintf(&text, "spantee_%s=%s\n", cmp.Or(outputNames[name], name), tree.Printable(value)) // one line, or a name could add outputs of its own
	}
	return text.String(), nil
}
