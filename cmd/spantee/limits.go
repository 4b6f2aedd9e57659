package main

import (
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

	tools  int64
	tokens int64
	cost   float64
	open   map[string]*runs.Run // by trace, until the root states the totals

	reached []string // in this order
	acted   int      // on how many of them
}

// newLimits returns nil if there are none.
func newLimits(o limitOptions) *limits {
	if o == (limitOptions{onLimit: o.onLimit}) {
		return nil
	}
	return &limits{limitOptions: o, started: time.Now(), open: map[string]*runs.Run{}}
}

// kills reports whether the agent is ended when it reaches a limit. It then needs a process
// group of its own.
func (l *limits) kills() bool { return l != nil && l.onLimit == onLimitKill }

// check notes a limit once that is reached.
func (l *limits) check(limit string, reached bool) {
	if reached && !slices.Contains(l.reached, limit) {
		l.reached = append(l.reached, limit)
	}
}

// takeReached returns the limits that were reached since the last call.
func (l *limits) takeReached() []string {
	if l == nil {
		return nil
	}
	list := l.reached[l.acted:]
	l.acted = len(l.reached)
	return list
}

// checkTime notes the limits that are reached because time passes.
func (l *limits) checkTime(now time.Time, idle time.Duration) {
	if l == nil {
		return
	}
	l.check("max-idle", l.maxIdle > 0 && idle >= l.maxIdle)
	l.check("max-duration", l.maxDuration > 0 && now.Sub(l.started) >= l.maxDuration)
}

// consume counts a span, and notes the limits that it reaches.
func (l *limits) consume(s *tracer.Span) {
	if l.maxTools == 0 && l.maxTokens == 0 && l.maxCost == 0 {
		return
	}
	span := s.Facts()
	if span.Kind() == runs.Tool {
		l.tools++
	}
	run := l.open[string(span.TraceID)]
	if run == nil {
		run = new(runs.Run)
		l.open[string(span.TraceID)] = run
	}
	before := run.Usage()
	run.Add(span)
	used := run.Usage()
	l.tokens += used.Input + used.Output - before.Input - before.Output
	l.cost += used.Cost - before.Cost
	if span.StatesTotals() {
		delete(l.open, string(span.TraceID))
	}
	l.check("max-tools", l.maxTools > 0 && l.tools >= l.maxTools)
	l.check("max-tokens", l.maxTokens > 0 && l.tokens >= l.maxTokens)
	l.check("max-cost", l.maxCost > 0 && l.cost >= l.maxCost)
}
