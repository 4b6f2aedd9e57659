package main

import (
	"bytes"
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
	"github.com/spantee/spantee/exporter/tree"
)

// An account sums up the stream for whoever reads it at the end.
type account struct {
	recorder  receipt.Recorder
	file      string                    // of the receipt; "" for none
	output    string                    // $GITHUB_OUTPUT; "" for none
	failIf    *condition.Condition      // nil without --fail-if
	step      *stepSummary              // nil outside of GitHub Actions
	traceLink func(trace string) string // "" if there is none
}

// account returns nil if nobody reads it.
func (o *options) account(cfg *config) (*account, error) {
	a := &account{step: newStepSummary(o.quiet), traceLink: cfg.traceLink}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		a.output = os.Getenv("GITHUB_OUTPUT")
	}
	var err error
	if a.file, err = receiptFile(o.receipt); err != nil {
		return nil, err
	}
	if o.failIf != "" {
		if a.failIf, err = condition.Parse(o.failIf); err != nil {
			return nil, usageError{fmt.Errorf("invalid --fail-if %q: %w", o.failIf, err)}
		}
	}
	if a.failIf == nil && a.file == "" && a.output == "" && a.step == nil {
		return nil, nil
	}
	return a, nil
}

// consume adds a span.
func (a *account) consume(s *tracer.Span) {
	a.recorder.Add(s.Facts())
	if a.step != nil {
		a.step.tree.Export(s.Facts())
	}
}

// receiptFile returns the file that --receipt names, which need not exist. A device or a
// pipe must not be replaced by a file.
func receiptFile(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if name == "-" || isStdout(name) {
		return "", invalid("--receipt", name, wantFile)
	}
	file, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		file = name
		if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
			return "", invalid("--receipt", name, "a file in a folder that exists")
		}
	} else if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", invalid("--receipt", name, "a regular file")
	}
	return file, nil
}

// write writes the receipt to all who read it. A mapper that hangs may still use the step
// summary.
func (a *account) write(r *receipt.Receipt, hangs bool) error {
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot write %s: %w", what, err))
		}
	}
	if a.file != "" {
		try("the receipt", r.WriteFile(a.file))
	}
	if a.output != "" {
		try("$GITHUB_OUTPUT", appendTo(a.output, func(int64) (string, error) { return a.outputs(r) }))
	}
	if a.step != nil && !hangs {
		try("the step summary", a.step.end(r, a.traceLink))
	}
	return errors.Join(errs...)
}

// outputs returns the receipt as outputs of a step: its own fields, and the fields of its
// run if it is the only one.
func (a *account) outputs(r *receipt.Receipt) (string, error) {
	parts := []any{r} // of several with one name, the last counts
	if len(r.Runs) == 1 {
		parts = []any{r.Runs[0], map[string]string{"trace_url": a.traceLink(r.Runs[0].TraceID)}, r}
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
		fmt.Fprintf(&text, "spantee_%s=%s\n", name, tree.Printable(value)) // one line, or a name could add outputs of its own
	}
	return text.String(), nil
}
