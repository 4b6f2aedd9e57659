// Package receipts sums up a stream for whoever reads that at its end: the file of --receipt, the
// condition of --fail-if, the earlier runs of --baseline, and the step summary of GitHub Actions.
package receipts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/baseline"
	"github.com/spantee/spantee/exporter/receipt/condition"
	"github.com/spantee/spantee/exporter/receipt/github"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// Options are the flags, and what the sums are made of.
type Options struct {
	File     string // of --receipt
	FailIf   string
	Baseline string
	Quiet    bool
	MaxCost  float64

	Prices    runs.Prices
	Resources func(agent string) *resourcepb.Resource
	TraceLink func(trace string) string // "" if there is none
}

// A Sink sums up a stream.
type Sink struct {
	Options
	recorder receipt.Recorder
	failIf   *condition.Condition // nil without --fail-if
	step     *github.Step         // nil outside of GitHub Actions
	earlier  *baseline.History    // nil without --baseline; as the command started
}

// New returns nil if nobody reads the sums.
func New(o Options) (*Sink, error) {
	s := &Sink{Options: o, recorder: receipt.Recorder{Prices: o.Prices}, step: github.NewStep(o.Quiet)}
	var err error
	if s.File, err = fileToReplace("--receipt", o.File); err != nil {
		return nil, err
	}
	if o.FailIf != "" {
		if s.failIf, err = condition.Parse(o.FailIf); err != nil {
			return nil, cli.Usage(fmt.Errorf("invalid --fail-if %q: %w", o.FailIf, err))
		}
	}
	if s.Baseline, err = fileToReplace("--baseline", o.Baseline); err != nil {
		return nil, err
	}
	if o.Baseline != "" {
		if s.earlier, err = baseline.Open(s.Baseline); err != nil {
			return nil, cli.Usage(fmt.Errorf("--baseline %s: %w", o.Baseline, err))
		}
	}
	computes := o.Prices != nil && o.MaxCost > 0 // and so names the models without a price
	if s.failIf == nil && s.File == "" && s.step == nil && !computes && s.earlier == nil {
		return nil, nil
	}
	return s, nil
}

// fileToReplace returns the file that a flag names, which need not exist. A device or a pipe
// must not be replaced by a file.
func fileToReplace(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if cli.IsStdout(name) {
		return "", cli.Invalid(flag, name, cli.WantFile)
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

// Add adds a span.
func (s *Sink) Add(span *tracer.Span) {
	s.recorder.Add(span.Facts())
	if s.step != nil {
		s.step.Export(span.Facts())
	}
}

// An End is how a stream ended.
type End struct {
	Status   proc.Status
	Complete bool // nothing went untraced
	Hangs    bool // the mapper may still use the Sink
	Delivery exporter.Report
	Unknown  []mapping.UnknownType
	Deadline time.Time // of the wait for other processes that use the file of --baseline
}

// Write gives the receipt to all who read it, after everything is delivered. It returns how the
// runs exceed the usual, "" if they do not, and whether --fail-if is true.
func (s *Sink) Write(end End, problem func(error)) (unusual string, fails bool) {
	r := s.recorder.Receipt()
	s.reportUnpriced(problem)
	r.Finish(tracer.Version(), end.Status.ShellStatus(), end.Complete, end.Delivery)
	r.UnknownTypes = tracer.UnknownTypes(end.Unknown)
	if s.earlier != nil {
		unusual = s.compare(r)
		s.step.Say(unusual)
		s.remember(r, end.Deadline, problem)
	}
	if omitted := r.OmitNonFinite(); len(omitted) > 0 {
		problem(fmt.Errorf("left out of the receipt, because they are no finite numbers: %s", strings.Join(omitted, ", ")))
	}
	fails = s.failIf != nil && s.mustFail(r, problem)
	_, err := spool.Await(func() (any, error) { return nil, s.write(r, end.Hangs) })
	if errors.Is(err, spool.ErrFrozen) {
		err = fmt.Errorf("cannot write the receipt or the step summary: %w", err)
	}
	if err != nil {
		problem(err)
	}
	return unusual, fails
}

func (s *Sink) write(r *receipt.Receipt, hangs bool) error {
	var errs [2]error
	if s.File != "" {
		if err := r.WriteFile(s.File); err != nil {
			errs[0] = fmt.Errorf("cannot write the receipt: %w", err)
		}
	}
	if s.step != nil {
		errs[1] = s.step.Write(r, s.TraceLink, hangs)
	}
	return errors.Join(errs[:]...)
}

// maxModels is how many models without a price are named.
const maxModels = 5

func (s *Sink) reportUnpriced(problem func(error)) {
	models := s.recorder.Unpriced()
	if len(models) == 0 {
		return
	}
	for i, m := range models {
		models[i] = cmp.Or(tree.Printable(m), "a model without a name")
	}
	if more := len(models) - maxModels; more > 0 {
		models = append(models[:maxModels], fmt.Sprintf("%d more", more))
	}
	problem(fmt.Errorf("--prices has no price for %s: what they cost counts as 0", strings.Join(models, ", ")))
}

// mustFail reports whether the condition of --fail-if is true, and says so, also in the step
// summary. What cannot be evaluated counts as true.
func (s *Sink) mustFail(r *receipt.Receipt, problem func(error)) bool {
	say := func(err error) {
		problem(err)
		s.step.Say(err.Error())
	}
	if name := s.failIf.Unstated(r); name != "" {
		say(fmt.Errorf("--fail-if uses %s, which the agent did not state: it counts as 0", name))
	}
	holds, err := s.failIf.Holds(r)
	switch {
	case err != nil:
		say(fmt.Errorf("cannot evaluate --fail-if %q: %w", s.FailIf, err))
	case holds:
		say(fmt.Errorf("--fail-if is true: %s", s.FailIf))
	}
	return holds || err != nil
}

// service returns the service that an agent is.
func (s *Sink) service(agent string) string {
	for _, kv := range s.Resources(agent).GetAttributes() {
		if kv.GetKey() == "service.name" {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

// Unusual says how a run that has ended exceeds the usual, "" if it does not.
func (s *Sink) Unusual(trace string) string {
	if s == nil || s.earlier == nil {
		return ""
	}
	run, known := s.recorder.Run(trace)
	if !known {
		return ""
	}
	_, sentence := s.earlier.Compare(s.service(run.Agent), &run)
	return sentence
}

// compare adds what is usual to a receipt of one run, and returns a sentence about the first
// run that exceeds it.
func (s *Sink) compare(r *receipt.Receipt) (sentence string) {
	for i := range r.Runs {
		run := &r.Runs[i]
		usual, said := s.earlier.Compare(s.service(run.Agent), run)
		if r.RunsTotal == 1 {
			r.Baseline = usual
			return said
		}
		if said != "" && sentence == "" {
			sentence = fmt.Sprintf("run %d of %d: %s", i+1, r.RunsTotal, said)
		}
	}
	return sentence
}

// remember adds the runs of a receipt to the file of --baseline.
func (s *Sink) remember(r *receipt.Receipt, deadline time.Time, problem func(error)) {
	var entries []baseline.Entry
	for _, run := range r.Runs {
		run.Succeeded = run.Succeeded && r.Complete
		entries = append(entries, baseline.NewEntry(s.service(run.Agent), run))
	}
	if len(entries) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	setAside, err := baseline.Add(ctx, s.Baseline, entries)
	switch {
	case err != nil:
		problem(fmt.Errorf("cannot add the run to --baseline: %w", err))
	case setAside != "":
		problem(fmt.Errorf("damaged lines of --baseline were moved to %s", setAside))
	}
}
