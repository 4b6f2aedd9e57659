package baseline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
)

const (
	// minRuns is how many runs make a baseline.
	minRuns = 5

	// What is said is at least this many times the median. The 90th percentile does not count:
	// of few runs it is the slowest, so that only the first of many slow runs would exceed it.
	minRatio = 1.5

	minSeconds = 1.0  // more than the median
	minCost    = 0.01 // USD more than the median

	// minCause is the part of the additional time that a step took if it is named.
	minCause = 0.2

	// minTimed is what a run takes at least, in seconds. Recordings of some agents have no
	// times.
	minTimed = 0.001
)

// Compare returns what is usual for the service and agent of a run, nil if too few runs are
// known. sentence says how the run exceeds it, if the difference is worth a sentence.
func (h *History) Compare(service string, run *receipt.Run) (usual *receipt.Baseline, sentence string) {
	var earlier []*receipt.Run
	for i := range h.runs {
		e := &h.runs[i]
		if e.Service == service && e.Agent == run.Agent && e.Succeeded && e.Seconds >= minTimed && !same(e, run) {
			earlier = append(earlier, &e.Run)
		}
	}
	if len(earlier) < minRuns {
		return nil, ""
	}
	usual = usualOf(earlier)
	if exceeds(run.Seconds, usual.Seconds, minSeconds) {
		sentence = fmt.Sprintf("%s × the usual time (median of %d runs): %s", ratio(run.Seconds, usual.Seconds), usual.Runs, cause(run, usual, earlier))
	} else if usual.Cost != nil && run.CostKnown && exceeds(run.Cost, *usual.Cost, minCost) && *usual.Cost > 0 {
		sentence = fmt.Sprintf("%s × the usual cost (median of %d runs): $%.2f, usually $%.2f", ratio(run.Cost, *usual.Cost), usual.Runs, run.Cost, *usual.Cost)
	}
	return usual, sentence
}

func exceeds(value, median, least float64) bool {
	return value >= minRatio*median && value-median >= least
}

// cause names the step that took most of the additional time, if one did.
func cause(run *receipt.Run, usual *receipt.Baseline, earlier []*receipt.Run) string {
	what, took, usually := "", run.Seconds, usual.Seconds
	for most, i := minCause*(run.Seconds-usual.Seconds), 0; i < len(run.Longest); i++ {
		share := &run.Longest[i]
		median, _ := statistics(earlier, func(r *receipt.Run) (float64, bool) { return secondsIn(r, share.Step), true })
		if more := share.Seconds - *median; more >= most {
			most, what, took, usually = more, share.Step+" took ", share.Seconds, *median
		}
	}
	if usually < minTimed {
		return what + duration(took) + ", usually none"
	}
	return what + duration(took) + ", usually " + duration(usually)
}

// renamed are steps as earlier versions called them.
var renamed = map[string]string{
	"streaming answers": "model output", "waiting for an approval": "approvals",
	"between steps": "agent's own", "waiting for background work": "agent's own",
}

// secondsIn returns the time that a run spent in a step.
func secondsIn(run *receipt.Run, step string) (seconds float64) {
	for _, share := range run.Longest {
		if cmp.Or(renamed[share.Step], share.Step) == step {
			seconds += share.Seconds
		}
	}
	return seconds
}

func usualOf(earlier []*receipt.Run) *receipt.Baseline {
	of := func(median, p90 *float64, value func(r *receipt.Run) float64) {
		m, p := statistics(earlier, func(r *receipt.Run) (float64, bool) { return value(r), true })
		*median, *p90 = *m, *p
	}
	b := &receipt.Baseline{Runs: len(earlier)}
	of(&b.Seconds, &b.SecondsP90, func(r *receipt.Run) float64 { return r.Seconds })
	of(&b.Model, &b.ModelP90, func(r *receipt.Run) float64 { return r.Times.Model })
	of(&b.Tool, &b.ToolP90, func(r *receipt.Run) float64 { return r.Tool })
	of(&b.Tools, &b.ToolsP90, func(r *receipt.Run) float64 { return float64(r.Tools) })
	b.InputTokens, b.InputTokensP90 = statistics(earlier, func(r *receipt.Run) (float64, bool) { return float64(r.InputTokens), r.TokensKnown })
	b.OutputTokens, b.OutputTokensP90 = statistics(earlier, func(r *receipt.Run) (float64, bool) { return float64(r.OutputTokens), r.TokensKnown })
	b.Cost, b.CostP90 = statistics(earlier, func(r *receipt.Run) (float64, bool) { return r.Cost, r.CostKnown })
	return b
}

// statistics returns the median and the 90th percentile of a value over the runs that state
// it, nil if they are too few.
func statistics(runs []*receipt.Run, value func(*receipt.Run) (v float64, stated bool)) (median, p90 *float64) {
	var values []float64
	for _, r := range runs {
		if v, stated := value(r); stated {
			values = append(values, v)
		}
	}
	n := len(values)
	if n < minRuns {
		return nil, nil
	}
	slices.Sort(values)
	middle := math.Round((values[(n-1)/2]+values[n/2])/2*1e6) / 1e6
	return &middle, &values[int(math.Ceil(0.9*float64(n)))-1] // the nearest rank
}

// ratio returns how many times the usual a value is.
func ratio(value, usual float64) string {
	switch r := value / usual; {
	case r >= 1000:
		return "over 1000"
	case r >= 9.95:
		return fmt.Sprintf("%.0f", r)
	default:
		return fmt.Sprintf("%.1f", r)
	}
}

// duration returns a time in the fewest digits that matter.
func duration(seconds float64) string {
	switch {
	case seconds < 0.095:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 9.95:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	}
	return (time.Duration(seconds) * time.Second).String()
}
