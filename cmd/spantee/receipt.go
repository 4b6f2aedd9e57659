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
	"strings"
	"syscall"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/spool"
)

// An account sums up the stream for whoever reads it at the end.
type account struct {
	recorder receipt.Recorder
	file     string // of the receipt; "" for none
	output   string // $GITHUB_OUTPUT; "" for none
	gate     *gate  // nil without --fail-if
}

// account returns nil if nobody reads it.
func (o *options) account() (*account, error) {
	a := new(account)
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		a.output = os.Getenv("GITHUB_OUTPUT")
	}
	var err error
	if a.file, err = receiptFile(o.receipt); err != nil {
		return nil, err
	}
	if a.gate, err = newGate(o.failIf); err != nil {
		return nil, err
	}
	if a.gate == nil && a.file == "" && a.output == "" && newStepSummary(o.quiet) == nil {
		return nil, nil
	}
	return a, nil
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

// minWait is what the disk gets for the receipt, however long the delivery took.
const minWait = 500 * time.Millisecond

// conclude writes the receipt and what GitHub Actions reads, after everything is
// delivered. It returns how to end.
func (t *tracing) conclude(end proc.Status) proc.Status {
	if t.account == nil {
		return end
	}
	r := t.account.recorder.Receipt()
	r.Spantee, r.ExitStatus, r.Complete = version(), shellStatus(end), t.say.failure == nil
	r.Succeeded = r.Succeeded && r.Complete && r.ExitStatus == 0
	d := t.say.delivery
	r.Delivery = receipt.Delivery{Delivered: d.Delivered, Spooled: d.Spooled, Rejected: d.Rejected, Dropped: d.Dropped}
	written := make(chan error, 1)
	go func() { written <- t.write(r) }()
	var err error
	select {
	case err = <-written:
	case <-time.After(max(time.Until(t.late), minWait)):
		err = fmt.Errorf("cannot write the receipt or the step summary: %w", spool.ErrFrozen)
	}
	if err != nil {
		t.say.problem(err)
	}
	if t.failed(r) && end == (proc.Status{}) {
		end.Code = proc.StatusFailed
	}
	return end
}

// failed reports whether --fail-if is true. What cannot be evaluated counts as true.
func (t *tracing) failed(r *receipt.Receipt) bool {
	g := t.account.gate
	if g == nil {
		return false
	}
	if name := g.unstated(r); name != "" {
		t.say.problem(fmt.Errorf("--fail-if uses %s, which the agent did not state: it counts as 0", name))
	}
	fails, err := g.holds(r)
	switch {
	case err != nil:
		t.say.problem(fmt.Errorf("cannot evaluate --fail-if %q: %w", g.text, err))
	case fails:
		t.say.problem(fmt.Errorf("--fail-if is true: %s", g.text))
	}
	return fails || err != nil
}

// write writes the receipt to all who read it.
func (t *tracing) write(r *receipt.Receipt) error {
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot write %s: %w", what, err))
		}
	}
	if t.account.file != "" {
		try("the receipt", r.WriteFile(t.account.file))
	}
	if t.account.output != "" {
		try("$GITHUB_OUTPUT", appendTo(t.account.output, func(int64) (string, error) { return t.outputs(r) }))
	}
	if t.step != nil && !t.late.IsZero() { // else the mapper may still use it
		try("the step summary", t.step.end(r, t.traceLink))
	}
	return errors.Join(errs...)
}

// traceLink returns the URL of a trace, "" if there is none.
func (t *tracing) traceLink(run *receipt.Run) string {
	if t.say.cfg.traceURL == "" || !t.sampler.keepsHex(run.TraceID) {
		return ""
	}
	return strings.ReplaceAll(t.say.cfg.traceURL, placeholder, run.TraceID)
}

// outputs returns the receipt as outputs of a step: its own fields, and the fields of its
// run if it is the only one.
func (t *tracing) outputs(r *receipt.Receipt) (string, error) {
	fields := map[string]json.RawMessage{}
	add := func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, &fields)
	}
	if len(r.Runs) == 1 {
		run := r.Runs[0]
		if err := errors.Join(add(run), add(map[string]string{"trace_url": t.traceLink(&run)})); err != nil {
			return "", err
		}
	}
	if err := add(r); err != nil {
		return "", err
	}
	delete(fields, "runs")
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		var s string
		if json.Unmarshal(fields[name], &s) == nil {
			value = s
		}
		fmt.Fprintf(&text, "spantee_%s=%s\n", name, printable(value)) // one line, or a name could add outputs of its own
	}
	return text.String(), nil
}

// shellStatus returns the exit status as a shell reports it.
func shellStatus(end proc.Status) int {
	if s, ok := end.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return end.Code
}
