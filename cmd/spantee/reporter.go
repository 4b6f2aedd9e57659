package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// A reporter is spantee's voice. It speaks on stderr, at the end: of what went
// wrong, and on a terminal or with --summary of what was traced.
type reporter struct {
	*options
	cfg      *config
	w        *os.File
	terminal bool

	tracing  bool // there is somewhere for spans to go
	stats    mapping.Stats
	failure  error // why the mapper did not see the whole stream
	delivery exporter.Report
	metrics  metrics.Report

	mu          sync.Mutex // of what follows: a mapper that hangs is left behind
	problems    []string
	runs        []mapping.Run
	moreRuns    int   // than are kept
	unprotected error // why a kill would lose spans
}

// maxRuns is how many runs a summary names.
const maxRuns = 20

func newReporter(o *options, cfg *config, w *os.File) *reporter {
	return &reporter{options: o, cfg: cfg, w: w, terminal: isTerminal(w), problems: cfg.problems}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (r *reporter) line(format string, args ...any) {
	fmt.Fprintf(r.w, "spantee: "+format+"\n", args...)
}

// awaiting explains itself to somebody who typed spantee and nothing else.
func (r *reporter) awaiting() {
	if !r.quiet {
		r.line("waiting for an agent's stream on stdin, as from\n" +
			`  cursor-agent -p --output-format stream-json "fix the test" | spantee`)
	}
}

func (r *reporter) problem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, withHint(err))
}

func (r *reporter) runEnded(run mapping.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) == maxRuns {
		r.moreRuns++
		return
	}
	r.runs = append(r.runs, run)
}

// checkpointed is told of every attempt to be prepared for a kill.
func (r *reporter) checkpointed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unprotected = err
}

// print says it all.
func (r *reporter) print() {
	if r.quiet {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal || r.summary {
		for _, run := range r.runs {
			if !r.tree || r.cfg.traceURL != "" { // else the tree says it all
				r.line("%s", r.describe(run))
			}
		}
		if r.moreRuns > 0 {
			r.line("and %s", count(r.moreRuns, "more trace"))
		}
		if s := r.oddLines(); s != "" {
			r.line("%s", s)
		}
		if n := r.delivery.Earlier.Delivered; n > 0 {
			r.line("%s of earlier runs delivered", count(n, "span"))
		}
		if r.unprotected != nil {
			r.line("crash protection was unavailable: %v", r.unprotected)
		}
	}
	for _, p := range r.problems {
		r.line("%s", p)
	}
	if r.failure != nil {
		r.line("tracing stopped early: %v", r.failure)
	}
	if s := r.untraced(); s != "" {
		r.line("%s", s)
	}
	s, lost := r.undelivered(), r.lostMetrics()
	if s != "" && lost != "" { // for the same reason, as a rule
		s, lost = s+"; metrics lost", ""
	}
	for _, s := range []string{s, lost} {
		if s != "" {
			r.line("%s", s)
		}
	}
	if n := r.delivery.Earlier.Dropped; n > 0 {
		r.line("%s of earlier runs dropped, the oldest first (spantee spool shows what is left)", count(n, "span"))
	}
}

func (r *reporter) describe(run mapping.Run) string {
	id := hex.EncodeToString(run.TraceID[:])
	s := fmt.Sprintf("trace %s: %s, %s", id, count(run.Spans, "span"), count(run.Tools, "tool"))
	if run.ToolErrors > 0 {
		s += fmt.Sprintf(" (%d failed)", run.ToolErrors)
	}
	s += ", " + run.Duration.Round(time.Millisecond).String()
	if run.ErrorType != "" {
		s += ", " + run.ErrorType
	}
	if !r.cfg.sampler.keeps(run.TraceID) {
		return s + ", not sampled"
	}
	if r.cfg.traceURL != "" {
		s += " " + strings.ReplaceAll(r.cfg.traceURL, "{trace_id}", id)
	}
	return s
}

// hangs says that the mapper did not come to an end.
func (r *reporter) hangs() {
	r.failure = errors.New("it did not come to an end in time, and what it still had is not counted")
}

// oddLines tells of what the stream held besides events.
func (r *reporter) oddLines() string {
	var odd []string
	if n := r.stats.BadLines; n > 0 {
		odd = append(odd, fmt.Sprintf("%s not JSON or without a type (the first is line %d)", count(n, "line"), r.stats.FirstBad))
	}
	if n := r.stats.Unknown; n > 0 {
		odd = append(odd, count(n, "line")+" of an unknown type")
	}
	if n := r.stats.Unpaired; n > 0 {
		odd = append(odd, count(n, "end")+" of something that had not begun")
	}
	if n := r.stats.Oversize; n > 0 {
		odd = append(odd, count(n, "line")+" too long to read whole")
	}
	return strings.Join(odd, ", ")
}

// untraced says why there is no trace.
func (r *reporter) untraced() string {
	switch {
	case r.summary && !r.tracing:
		return "no trace: " + r.whyNowhere()
	case r.summary && r.stats.Lines == 0 && r.failure == nil && len(r.runs) == 0:
		return "no trace: the input was empty"
	case r.stats.Foreign != "":
		return fmt.Sprintf("no trace: this is the stream of %s, and spantee reads that of %s so far (--agent overrides)",
			r.stats.Foreign, strings.Join(mapping.Agents, ", "))
	case r.stats.Runs == 0 && r.stats.BadLines > 0 && len(r.runs) > 0:
		return "the trace has no more than its root: the agent printed no JSON lines; run it with --output-format stream-json"
	case r.stats.Runs == 0 && r.stats.BadLines > 0:
		return "no trace: the input is no stream of JSON lines; run the agent with --output-format stream-json"
	}
	return ""
}

// whyNowhere says which setting turned tracing off.
func (r *reporter) whyNowhere() string {
	if r.cfg.to.source == "" {
		return "no spans are sent"
	}
	return "tracing is disabled by " + r.cfg.to.source
}

// undelivered says what did not arrive, why, and what became of it.
func (r *reporter) undelivered() string {
	d := r.delivery
	if d.Delivered == d.Ended {
		return ""
	}
	s := fmt.Sprintf("%d of %s not delivered: %s", d.Ended-d.Delivered, count(d.Ended, "span"),
		withHint(d.Cause))
	fates := []string{}
	for _, f := range []struct {
		spans int
		what  string
	}{{d.Spooled, "kept, to be sent later"}, {d.Rejected, "kept, but not sent again"}, {d.Dropped, "lost"}} {
		if f.spans > 0 {
			fates = append(fates, fmt.Sprintf("%d %s", f.spans, f.what))
		}
	}
	s += "; " + strings.Join(fates, ", ")
	if d.NotKept != nil {
		s += fmt.Sprintf(" (the spool: %v)", d.NotKept)
	}
	return s
}

// withHint appends what an error's author would try.
func withHint(err error) string {
	var hinted *exporter.Error
	if errors.As(err, &hinted) && hinted.Hint != "" {
		return fmt.Sprintf("%v (%s)", err, hinted.Hint)
	}
	return err.Error()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// treeStyle fits the tree to where it is drawn.
func (r *reporter) treeStyle() tree.Style {
	style := tree.Style{Color: r.terminal && r.cfg.color}
	if width, _, err := term.GetSize(int(r.w.Fd())); err == nil {
		style.Width = width
	}
	return style
}
