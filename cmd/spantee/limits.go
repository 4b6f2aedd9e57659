package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/runs"
)

// limitOptions are exec's flags that limit an agent. Zero means no limit.
type limitOptions struct {
	maxDuration, maxIdle time.Duration
	maxTools, maxTokens  int64
	maxCost              float64
	onLimit              string
}

// The values of --on-limit.
const (
	onLimitWarn = "warn"
	onLimitKill = "kill"
)

func (o *limitOptions) addFlags(f *pflag.FlagSet) {
	add(f, groupLimits, func(f *pflag.FlagSet) {
		f.DurationVar(&o.maxDuration, "max-duration", 0, "limit the run to `TIME`")
		f.DurationVar(&o.maxIdle, "max-idle", 0, "limit silence to `TIME`, even while a tool is running")
		f.Int64Var(&o.maxTools, "max-tools", 0, "limit the agent to `N` tool calls")
		f.Int64Var(&o.maxTokens, "max-tokens", 0, "limit input plus output to `N` tokens, as far as the agent reports them while running")
		f.Float64Var(&o.maxCost, "max-cost", 0, "limit the cost to `USD`, as far as the agent reports it while running")
		f.StringVar(&o.onLimit, "on-limit", onLimitWarn, "`WHAT` to do when a limit is reached: warn, or kill the agent (and its process group, if it has one of its own)")
	})
}

func (o *limitOptions) check() error {
	if o.onLimit != onLimitWarn && o.onLimit != onLimitKill {
		return invalid("--on-limit", o.onLimit, "warn or kill")
	}
	for _, limit := range []struct {
		name  string
		valid bool
		value any
	}{
		{"--max-duration", o.maxDuration >= 0, o.maxDuration},
		{"--max-idle", o.maxIdle >= 0, o.maxIdle},
		{"--max-tools", o.maxTools >= 0, o.maxTools},
		{"--max-tokens", o.maxTokens >= 0, o.maxTokens},
		{"--max-cost", o.maxCost >= 0, o.maxCost},
	} {
		if !limit.valid {
			return invalid(limit.name, fmt.Sprint(limit.value), "0 or more")
		}
	}
	return nil
}

func (o *limitOptions) any() bool {
	return o.maxDuration > 0 || o.maxIdle > 0 || o.maxTools > 0 || o.maxTokens > 0 || o.maxCost > 0
}

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
	if !o.any() {
		return nil
	}
	return &limits{limitOptions: o, started: time.Now(), open: map[string]*runs.Run{}}
}

// ownGroup reports whether the agent needs a process group of its own, to be killed.
func (l *limits) ownGroup() bool { return l != nil && l.onLimit == onLimitKill }

// check notes a limit once that is reached.
func (l *limits) check(limit string, reached bool) {
	if reached && !slices.Contains(l.reached, limit) {
		l.reached = append(l.reached, limit)
	}
}

// takeReached returns the limits that were reached since the last call.
func (l *limits) takeReached() []string {
	list := l.reached[l.acted:]
	l.acted = len(l.reached)
	return list
}

// checkTime notes the limits that the passing of time has reached.
func (l *limits) checkTime(now time.Time, idle time.Duration) {
	l.check("max-idle", l.maxIdle > 0 && idle >= l.maxIdle)
	l.check("max-duration", l.maxDuration > 0 && now.Sub(l.started) >= l.maxDuration)
}

// nextTime returns how long until time alone may reach a limit, zero for never.
func (l *limits) nextTime(now time.Time, idle time.Duration) (next time.Duration) {
	if l.maxIdle > 0 && !slices.Contains(l.reached, "max-idle") {
		next = max(l.maxIdle-idle, time.Millisecond)
	}
	if l.maxDuration > 0 && !slices.Contains(l.reached, "max-duration") {
		next = soonest(next, max(l.maxDuration-now.Sub(l.started), time.Millisecond))
	}
	return next
}

// Consume counts a span, and notes the limits that it reaches.
func (l *limits) Consume(s *tracer.Span) {
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
