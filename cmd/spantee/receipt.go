package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/condition"
	"github.com/spantee/spantee/exporter/receipt/github"
	"github.com/spantee/spantee/exporter/runs"
)

// A receiptSink sums up the stream for whoever reads it at the end.
type receiptSink struct {
	recorder  receipt.Recorder
	file      string                    // of the receipt; "" for none
	failIf    *condition.Condition      // nil without --fail-if
	step      *github.Step              // nil outside of GitHub Actions
	traceLink func(trace string) string // "" if there is none
}

// receiptSink returns nil if nobody reads it.
func (o *options) receiptSink(cfg *config, prices runs.Prices) (*receiptSink, error) {
	s := &receiptSink{recorder: receipt.Recorder{Prices: prices}, step: github.NewStep(o.quiet), traceLink: cfg.traceLink}
	var err error
	if s.file, err = fileToReplace("--receipt", o.receipt); err != nil {
		return nil, err
	}
	if o.failIf != "" {
		if s.failIf, err = condition.Parse(o.failIf); err != nil {
			return nil, cli.Usage(fmt.Errorf("invalid --fail-if %q: %w", o.failIf, err))
		}
	}
	computes := prices != nil && o.limits.MaxCost > 0 // and so names the models without a price
	if s.failIf == nil && s.file == "" && s.step == nil && !computes && o.baseline == "" {
		return nil, nil
	}
	return s, nil
}

// consume adds a span.
func (s *receiptSink) consume(span *tracer.Span) {
	s.recorder.Add(span.Facts())
	if s.step != nil {
		s.step.Export(span.Facts())
	}
}

// fileToReplace returns the file that a flag names, which need not exist. A device or a pipe
// must not be replaced by a file.
func fileToReplace(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if name == "-" || isStdout(name) {
		return "", cli.Invalid(flag, name, wantFile)
	}
	file, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		file = name
		if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
			return "", cli.Invalid(flag, name, "a file in a folder that exists")
		}
	} else if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", cli.Invalid(flag, name, "a regular file")
	}
	return file, nil
}

// write writes the receipt to all who read it. hangs says that the mapper may still use the
// sink.
func (s *receiptSink) write(r *receipt.Receipt, hangs bool) error {
	var errs [2]error
	if s.file != "" {
		if err := r.WriteFile(s.file); err != nil {
			errs[0] = fmt.Errorf("cannot write the receipt: %w", err)
		}
	}
	if s.step != nil {
		errs[1] = s.step.Write(r, s.traceLink, hangs)
	}
	return errors.Join(errs[:]...)
}
