package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/condition"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
)

// A receiptSink sums up the stream for whoever reads it at the end.
type receiptSink struct {
	recorder  receipt.Recorder
	file      string                    // of the receipt; "" for none
	output    string                    // $GITHUB_OUTPUT; "" for none
	failIf    *condition.Condition      // nil without --fail-if
	step      *stepSummary              // nil outside of GitHub Actions
	traceLink func(trace string) string // "" if there is none
}

// receiptSink returns nil if nobody reads it.
func (o *options) receiptSink(cfg *config, prices runs.Prices) (*receiptSink, error) {
	s := &receiptSink{recorder: receipt.Recorder{Prices: prices}, step: newStepSummary(o.quiet), traceLink: cfg.traceLink}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		s.output = os.Getenv("GITHUB_OUTPUT")
	}
	var err error
	if s.file, err = fileToReplace("--receipt", o.receipt); err != nil {
		return nil, err
	}
	if o.failIf != "" {
		if s.failIf, err = condition.Parse(o.failIf); err != nil {
			return nil, usageError{fmt.Errorf("invalid --fail-if %q: %w", o.failIf, err)}
		}
	}
	computes := prices != nil && o.maxCost > 0 // and so names the models without a price
	if s.failIf == nil && s.file == "" && s.output == "" && s.step == nil && !computes && o.baseline == "" {
		return nil, nil
	}
	return s, nil
}

// consume adds a span.
func (s *receiptSink) consume(span *tracer.Span) {
	s.recorder.Add(span.Facts())
	if s.step != nil {
		s.step.tree.Export(span.Facts())
	}
}

// fileToReplace returns the file that a flag names, which need not exist. A device or a pipe
// must not be replaced by a file.
func fileToReplace(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if name == "-" || isStdout(name) {
		return "", invalid(flag, name, wantFile)
	}
	file, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		file = name
		if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
			return "", invalid(flag, name, "a file in a folder that exists")
		}
	} else if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", invalid(flag, name, "a regular file")
	}
	return file, nil
}

// write writes the receipt to all who read it. A mapper that hangs may still use the step
// summary.
func (s *receiptSink) write(r *receipt.Receipt, hangs bool) error {
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot write %s: %w", what, err))
		}
	}
	if s.file != "" {
		try("the receipt", r.WriteFile(s.file))
	}
	if s.output != "" {
		try("$GITHUB_OUTPUT", appendTo(s.output, func(int64) (string, error) { return s.outputs(r) }))
	}
	if s.step != nil && !hangs {
		try("the step summary", s.step.end(r, s.traceLink))
	}
	return errors.Join(errs...)
}

// outputNames are the names of outputs where the field's would mislead: all outputs begin with
// spantee_, and a run's version is its agent's.
var outputNames = map[string]string{"spantee_version": "version", "version": "agent_version"}

// outputs returns the receipt as outputs of a step: its own fields, and the fields of its
// run if it is the only one.
func (s *receiptSink) outputs(r *receipt.Receipt) (string, error) {
	parts := []any{r} // of several with one name, the last counts
	if len(r.Runs) == 1 {
		parts = []any{r.Runs[0], map[string]string{"trace_url": s.traceLink(r.Runs[0].TraceID)}, r}
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
