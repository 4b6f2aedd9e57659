// Package limits watches over an agent that exec runs: its time, its silence, its tool calls,
// its tokens and its cost.
package limits

import (
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/runs"
)

// Options are the flags that limit an agent. Zero means no limit.
type Options struct {
	MaxDuration, MaxIdle time.Duration
	MaxTools, MaxTokens  int64
	MaxCost              float64
	OnLimit              string
	Grace                time.Duration
}

// The values of --on-limit.
const (
	warn = "warn"
	kill = "kill"
)

// AddFlags adds the flags to a command.
func (o *Options) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&o.MaxDuration, "max-duration", 0, "limit the run to `TIME`")
	f.DurationVar(&o.MaxIdle, "max-idle", 0, "limit silence to `TIME`, even while a tool is running")
	f.Int64Var(&o.MaxTools, "max-tools", 0, "limit the agent to `N` tool calls")
	f.Int64Var(&o.MaxTokens, "max-tokens", 0, "limit input plus output to `N` tokens, if the agent reports them while running")
	f.Float64Var(&o.MaxCost, "max-cost", 0, "limit the cost to `USD`, if the agent reports it while running")
	o.OnLimit = warn
	f.Var(cli.OneOf{Value: &o.OnLimit, Words: []string{warn, kill}}, "on-limit", "`WHAT` to do at a limit: warn, or kill the agent")
	f.DurationVar(&o.Grace, "grace", 0, "end an agent that prints nothing for `TIME` after its result, but does not exit; the exit status is the result's")
}

// Limits watch over an agent that exec runs. Methods that ask do nothing for nil.
type Limits struct {
	Options
	Agent   *proc.Agent
	started time.Time
	reached map[string]bool // by flag

	killed      bool // the agent
	AfterResult bool // it was killed because it had printed its result and stayed

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

// New returns nil if there are no limits.
func New(o Options, prices runs.Prices) *Limits {
	if o == (Options{OnLimit: o.OnLimit}) {
		return nil
	}
	return &Limits{Options: o, prices: prices, started: time.Now(), reached: map[string]bool{}, runs: map[string]*limitedRun{}}
}

// MayKill reports whether spantee may end the agent, which then needs a process group of its
// own.
func (l *Limits) MayKill() bool { return l != nil && (l.OnLimit == kill || l.Grace > 0) }

// Enforce ends the agent that has reached a limit, if it shall. finished says that it has
// printed its result.
func (l *Limits) Enforce(limit string, finished bool) (kills bool) {
	if l.OnLimit != kill {
		return false
	}
	l.kill(finished && (limit == "max-duration" || limit == "max-idle")) // then it has only stayed too long
	return true
}

func (l *Limits) kill(afterResult bool) {
	if !l.killed {
		l.killed, l.AfterResult = true, afterResult
		l.Agent.Kill()
	}
}

// EndGrace ends an agent that has printed its result and then has been silent for too long.
func (l *Limits) EndGrace(idle time.Duration, finished func() bool) (kills bool) {
	if l == nil || l.Grace == 0 || idle < l.Grace || l.killed || !finished() {
		return false
	}
	l.kill(true)
	return true
}

// Add counts a span. It adds only what the span changes: adding up all runs would take
// longer with each of them.
func (l *Limits) Add(span *runs.Span) {
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

// Reached returns the limits that were reached since the last call. idle is how long the agent
// has been silent.
func (l *Limits) Reached(idle time.Duration) (reached []string) {
	if l == nil {
		return nil
	}
	for _, limit := range []struct {
		flag    string
		reached bool
	}{
		{"max-duration", l.MaxDuration > 0 && time.Since(l.started) >= l.MaxDuration},
		{"max-idle", l.MaxIdle > 0 && idle >= l.MaxIdle},
		{"max-tools", l.MaxTools > 0 && l.tools >= l.MaxTools},
		{"max-tokens", l.MaxTokens > 0 && l.tokens >= l.MaxTokens},
		{"max-cost", l.MaxCost > 0 && l.cost >= l.MaxCost},
	} {
		if limit.reached && !l.reached[limit.flag] {
			l.reached[limit.flag] = true
			reached = append(reached, limit.flag)
		}
	}
	return reached
}
