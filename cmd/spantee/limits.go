package main

import (
	"math"
	"slices"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/runs"
)

// limits watch over an agent that exec runs.
type limits struct {
	limitOptions
	agent   *proc.Agent
	started time.Time
	reached map[string]bool // by flag

	ended       bool // the agent, by spantee
	afterResult bool // it had printed its result and stayed

	prices        runs.Prices
	runs          map[string]*limitedRun // by trace
	tools, tokens int64
	cost          float64
}

// A limitedRun is what counts of a run, so far.
type limitedRun struct {
	runs.Run
	models runs.Models
	cost   float64 // stated, or else computed
}

// newLimits returns nil if there are none.
func newLimits(o limitOptions) *limits {
	if o == (limitOptions{onLimit: o.onLimit}) {
		return nil
	}
	return &limits{limitOptions: o, started: time.Now(), reached: map[string]bool{}, runs: map[string]*limitedRun{}}
}

// mayEnd reports whether spantee may end the agent, which then needs a process group of its
// own.
func (l *limits) mayEnd() bool { return l != nil && (l.onLimit == onLimitKill || l.grace > 0) }

// end ends the agent.
func (l *limits) end(afterResult bool) {
	if !l.ended {
		l.ended, l.afterResult = true, afterResult
		l.agent.Kill()
	}
}

// graceIsOver reports whether an agent that has finished must be ended now. idle is how long
// it has been silent.
func (l *limits) graceIsOver(idle time.Duration) bool {
	return l != nil && l.grace > 0 && idle >= l.grace && !l.ended
}

// isTime reports whether a limit is one of time: an agent that reaches it after its result has
// only stayed too long.
func isTime(limit string) bool { return limit == "max-duration" || limit == "max-idle" }

// consume counts a span. It adds only what the span changes: adding up all runs would take
// longer with each of them.
func (l *limits) consume(s *tracer.Span) {
	span := s.Facts()
	run := l.runs[string(span.TraceID)]
	if run == nil {
		run = new(limitedRun)
		l.runs[string(span.TraceID)] = run
	}
	before, tools := run.Usage(), run.Tools
	run.Add(span)
	run.Calls, run.ToolNames = nil, nil // not needed
	run.models.Add(span)
	used := run.Usage()
	l.tools += int64(run.Tools - tools)
	l.tokens += used.InputTokens + used.OutputTokens - before.InputTokens - before.OutputTokens
	if !used.CostKnown && l.prices != nil {
		l.prices.Compute(run.Model, &used, slices.Clone(run.models.List))
	}
	l.cost = math.Round((l.cost+used.Cost-run.cost)*1e12) / 1e12 // as decimals add up
	run.cost = used.Cost
}

// check returns the limits that were reached since the last call. idle is how long the agent
// has been silent.
func (l *limits) check(idle time.Duration) (reached []string) {
	if l == nil {
		return nil
	}
	for _, limit := range []struct {
		flag    string
		reached bool
	}{
		{"max-duration", l.maxDuration > 0 && time.Since(l.started) >= l.maxDuration},
		{"max-idle", l.maxIdle > 0 && idle >= l.maxIdle},
		{"max-tools", l.maxTools > 0 && l.tools >= l.maxTools},
		{"max-tokens", l.maxTokens > 0 && l.tokens >= l.maxTokens},
		{"max-cost", l.maxCost > 0 && l.cost >= l.maxCost},
	} {
		if limit.reached && !l.reached[limit.flag] {
			l.reached[limit.flag] = true
			reached = append(reached, limit.flag)
		}
	}
	return reached
}
