package main

import (
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/receipt"
)

// limits watch over an agent that exec runs.
type limits struct {
	limitOptions
	agent   *proc.Agent
	started time.Time
	used    receipt.Recorder
	reached map[string]bool // by flag
}

// newLimits returns nil if there are none.
func newLimits(o limitOptions) *limits {
	if o == (limitOptions{onLimit: o.onLimit}) {
		return nil
	}
	return &limits{limitOptions: o, started: time.Now(), reached: map[string]bool{}}
}

// kills reports whether the agent is ended when it reaches a limit. It then needs a process
// group of its own.
func (l *limits) kills() bool { return l != nil && l.onLimit == onLimitKill }

// consume counts a span.
func (l *limits) consume(s *tracer.Span) { l.used.Add(s.Facts()) }

// check returns the limits that were reached since the last call. idle is how long the agent
// has been silent.
func (l *limits) check(idle time.Duration) (reached []string) {
	if l == nil {
		return nil
	}
	used := l.used.Receipt()
	for _, limit := range []struct {
		flag    string
		reached bool
	}{
		{"max-duration", l.maxDuration > 0 && time.Since(l.started) >= l.maxDuration},
		{"max-idle", l.maxIdle > 0 && idle >= l.maxIdle},
		{"max-tools", l.maxTools > 0 && int64(used.Tools) >= l.maxTools},
		{"max-tokens", l.maxTokens > 0 && used.InputTokens+used.OutputTokens >= l.maxTokens},
		{"max-cost", l.maxCost > 0 && used.Cost >= l.maxCost},
	} {
		if limit.reached && !l.reached[limit.flag] {
			l.reached[limit.flag] = true
			reached = append(reached, limit.flag)
		}
	}
	return reached
}
