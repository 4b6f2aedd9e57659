package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
)

// A result is what is wrong with a run's traces, in every way of reading.
type result struct {
	run      *keptRun
	verdicts []*verdict
}

// readsLog reports whether spantee reads the agent's session logs.
func (e *agentEntry) readsLog() bool { return agent.Find(e.Flag+"-log") != nil || e.LogIsStream }

// judgeAll judges the spans that lie in a folder.
func (k *keptRun) judgeAll(dir string) (*result, error) {
	r := &result{run: k}
	for _, way := range []string{wayPipe, wayExec, wayRecording, wayLog, wayFollow} {
		said, err := os.ReadFile(filepath.Join(dir, way+".stderr.txt"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		spans, err := readSpans(filepath.Join(dir, way+".spans.jsonl"))
		if err != nil {
			return nil, err
		}
		r.verdicts = append(r.verdicts, k.judge(way, spans, string(said)))
	}
	return r, nil
}

// errWrong says that something is wrong that was printed.
var errWrong = errors.New("not all is right")

// maxDrawn is how many runs are drawn: more are no help.
const maxDrawn = 4

// report prints the results, and writes them down if that is wanted.
func report(results []*result, p *plan) error {
	x, err := readExceptions(exceptionsText)
	if err != nil {
		return fmt.Errorf("exceptions.txt: %w", err)
	}
	right := true
	for _, r := range results {
		x.excuse(r)
		r.print(os.Stdout)
		if len(results) <= maxDrawn && len(r.verdicts) > 0 {
			r.printTruth(os.Stdout)
		}
		right = right && !slices.ContainsFunc(r.verdicts, func(v *verdict) bool { return !v.right() })
	}
	summarize(os.Stdout, results)
	for _, row := range x.passing() {
		right = false
		fmt.Printf("is right now, remove it from exceptions.txt: %s\n", row)
	}
	drifted, err := printDrift(results, p.Choice.whole())
	if err != nil {
		return err
	}
	unread, err := printUnread(os.Stdout, results, p.Choice.whole())
	if err != nil {
		return err
	}
	right = right && !unread
	if p.Accept {
		if err := accept(results); err != nil {
			return err
		}
	}
	if !right || p.Newest && drifted {
		return errWrong
	}
	return nil
}

// printDrift prints what is new and what is gone since the kept shapes.
func printDrift(results []*result, whole bool) (drifted bool, err error) {
	for _, e := range entries {
		now, build := shapes{}, ""
		for _, r := range results {
			if r.run.entry == e {
				build = r.run.info.Version
				if err := now.add(r.run.folder); err != nil {
					return false, err
				}
			}
		}
		kept, keptBuild, err := readShapes(filepath.Join(shapeFolder, e.Name+".txt"))
		if err != nil {
			return false, err
		}
		if build == "" || keptBuild == "" {
			continue
		}
		rows := now.drift(kept, "new:")
		if whole {
			rows = append(rows, kept.drift(now, "gone:")...)
		}
		if len(rows) > 0 {
			drifted = true
			fmt.Printf("\n%s %s, since %s:\n  %s\n", e.Title, build, keptBuild, strings.Join(rows, "\n  "))
		}
	}
	return drifted, nil
}

// print writes what was true, what the trace said, and what differs.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%s (%s)\n", r.run.name(), r.run.info.Version)
	for _, v := range r.verdicts {
		state := "right"
		if !v.right() {
			state = "WRONG"
		}
		fmt.Fprintf(w, "  %-9s %s", v.Way, state)
		if v.Times != nil {
			fmt.Fprintf(w, "; %s", v.Times)
		}
		fmt.Fprintln(w)
		for _, f := range v.Findings {
			if f.Why == "" {
				fmt.Fprintf(w, "            %s: %s\n", f.Cell, f.Text)
			} else {
				fmt.Fprintf(w, "            (%s: %s; %s)\n", f.Cell, f.Text, f.Why)
			}
		}
		if v.Times != nil {
			for _, p := range v.Times.Pieces {
				fmt.Fprintf(w, "            %.2f s to %.2f s: %s is drawn as %s", p.From-r.run.info.Start, p.To-r.run.info.Start, p.True, p.Drawn)
				if p.Cause != "" {
					fmt.Fprintf(w, "; %s", p.Cause)
				}
				fmt.Fprintln(w)
			}
		}
	}
}

// printTruth writes what was true and what the live trace says, side by side.
func (r *result) printTruth(w io.Writer) {
	start := r.run.info.Start
	var truth, drawn []string
	for _, q := range r.run.requests {
		line := fmt.Sprintf("%6.2f to %6.2f  model", q.Received-start, q.over()-start)
		switch {
		case q.Dropped:
			line += ", broke off"
		case q.failed():
			line += fmt.Sprintf(", HTTP %d", q.Status)
		case q.Usage != nil:
			line += fmt.Sprintf(", %d in, %d out", q.Usage.Input, q.Usage.Output)
		}
		truth = append(truth, line)
	}
	for _, c := range r.run.commands {
		end := c.End
		if end == 0 {
			end = r.run.info.End
		}
		truth = append(truth, fmt.Sprintf("%6.2f to %6.2f  command %s, exit %d", c.Begin-start, end-start, c.Name, c.Exit))
	}
	v := r.verdicts[0]
	for _, s := range v.spans {
		line := fmt.Sprintf("%6.2f to %6.2f  %s", s.Start-start, s.End-start, s.Name)
		if s.Failed {
			line += ": " + s.Message
		}
		drawn = append(drawn, line)
	}
	slices.Sort(truth)
	slices.Sort(drawn)
	fmt.Fprintf(w, "  %-44s %s\n", "the truth, in seconds", v.Way+"'s trace")
	for i := range max(len(truth), len(drawn)) {
		var left, right string
		if i < len(truth) {
			left = truth[i]
		}
		if i < len(drawn) {
			right = drawn[i]
		}
		fmt.Fprintf(w, "  %-44s %s\n", left, right)
	}
}

// summarize writes the times by agent and way.
func summarize(w io.Writer, results []*result) {
	type sum struct {
		runs, right             int
		run, wrong, bare, start float64
		cpu, agentCPU           float64
		peak                    int64
	}
	sums := map[string]*sum{}
	for _, r := range results {
		for _, v := range r.verdicts {
			key := r.run.info.Agent + " " + v.Way
			if sums[key] == nil {
				sums[key] = &sum{}
			}
			s := sums[key]
			s.runs++
			if v.right() {
				s.right++
			}
			if v.Way == wayPipe {
				s.cpu, s.agentCPU, s.peak = s.cpu+r.run.info.CPU, s.agentCPU+r.run.info.AgentCPU, max(s.peak, r.run.info.PeakKiB)
			}
			if v.Times != nil && v.Times.Skipped == "" {
				s.run, s.wrong, s.bare, s.start = s.run+v.Times.Run, s.wrong+v.Times.Wrong, s.bare+v.Times.Unmarked, s.start+v.Times.Startup
			}
		}
	}
	fmt.Fprintf(w, "\n%-20s %6s %6s %14s %9s %9s\n", "agent, way", "runs", "right", "misattributed", "unmarked", "start-up")
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		s := sums[key]
		fmt.Fprintf(w, "%-20s %6d %6d %12.2f %% %7.2f %% %7.2f s\n", key, s.runs, s.right, percent(s.wrong, s.run), percent(s.bare, s.run), s.start)
		if s.cpu > 0 {
			fmt.Fprintf(w, "%20s spantee took %.1f %% of the agents' processor time, and at most %d MB\n", "", percent(s.cpu, s.agentCPU), s.peak>>10)
		}
	}
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}
