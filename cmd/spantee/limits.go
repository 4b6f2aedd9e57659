package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping/semconv"
)

// limitOptions are exec's flags for an agent that does too much. Zero is no limit.
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
	f.DurationVar(&o.maxDuration, "max-duration", 0, "the agent may run for `TIME`")
	f.DurationVar(&o.maxIdle, "max-idle", 0, "the agent may print nothing for `TIME`, whatever it does")
	f.Int64Var(&o.maxTools, "max-tools", 0, "the agent may end `N` tool calls")
	f.Int64Var(&o.maxTokens, "max-tokens", 0, "the agent may use `N` tokens, input and output, as far as it states them while it runs")
	f.Float64Var(&o.maxCost, "max-cost", 0, "the agent may cost `USD`, as far as it states that while it runs")
	f.StringVar(&o.onLimit, "on-limit", onLimitWarn, "`WHAT` to do when a limit is reached: warn, or kill the agent and its process group")
}

func (o *limitOptions) check() error {
	if o.onLimit != onLimitWarn && o.onLimit != onLimitKill {
		return invalid("--on-limit", o.onLimit, "warn or kill")
	}
	for _, limit := range []struct {
		name  string
		value float64
	}{
		{"--max-duration", float64(o.maxDuration)},
		{"--max-idle", float64(o.maxIdle)},
		{"--max-tools", float64(o.maxTools)},
		{"--max-tokens", float64(o.maxTokens)},
		{"--max-cost", o.maxCost},
	} {
		if !(limit.value >= 0) {
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
	started time.Time
	tools   int64
	tokens  int64
	cost    float64

	unsettled float64 // cost of model calls of which no run has the total yet

	told map[string]bool // of which it was said that they were reached

	mu      sync.Mutex
	agent   *os.Process // nil until it is started
	grouped bool        // it leads a process group of its own
	kill    bool        // it is to be killed
}

// killDelay is how long an agent has to end after SIGTERM.
const killDelay = 5 * time.Second

func newLimits(o limitOptions) *limits {
	if !o.any() {
		return nil
	}
	return &limits{limitOptions: o, started: time.Now(), told: map[string]bool{}}
}

// startedAs tells which process is to be killed.
func (l *limits) startedAs(agent *os.Process) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agent, l.grouped = agent, hasGroup(agent)
	if l.kill {
		go endProcess(agent, l.grouped, killDelay)
	}
}

// agentEnded ends what an agent that was killed left running.
func (l *limits) agentEnded() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kill && l.grouped {
		endProcess(l.agent, true, 0)
	}
}

// ownGroup tells whether the agent has to have a process group of its own.
func (l *limits) ownGroup() bool { return l != nil && l.onLimit == onLimitKill }

// checkTime returns the limit that was reached by waiting.
func (l *limits) checkTime(now time.Time, idle time.Duration) string {
	switch {
	case l.maxIdle > 0 && idle >= l.maxIdle:
		return l.first("max-idle")
	case l.maxDuration > 0 && now.Sub(l.started) >= l.maxDuration:
		return l.first("max-duration")
	}
	return ""
}

// nextTime returns when a limit may be reached by waiting, zero for never.
func (l *limits) nextTime(now time.Time, idle time.Duration) (next time.Duration) {
	if l.maxIdle > 0 && !l.told["max-idle"] {
		next = max(l.maxIdle-idle, time.Millisecond)
	}
	if l.maxDuration > 0 && !l.told["max-duration"] {
		next = soonest(next, max(l.maxDuration-now.Sub(l.started), time.Millisecond))
	}
	return next
}

// count counts a finished span, and returns the limit that was reached by it.
func (l *limits) count(wire []byte) string {
	if l.maxTools == 0 && l.maxTokens == 0 && l.maxCost == 0 {
		return ""
	}
	span := new(tracepb.Span)
	if proto.Unmarshal(wire, span) != nil {
		return ""
	}
	var cost, total float64
	for _, kv := range span.Attributes {
		switch kv.Key {
		case semconv.OperationName:
			if kv.Value.GetStringValue() == semconv.OperationExecuteTool {
				l.tools++
			}
		case semconv.InputTokens, semconv.OutputTokens: // on model calls or on the root, never on both
			l.tokens += kv.Value.GetIntValue()
		case semconv.UsageCost:
			cost = kv.Value.GetDoubleValue()
		case semconv.UsageTotalCost: // of the run, its model calls included
			total = kv.Value.GetDoubleValue()
		}
	}
	l.cost += cost
	l.unsettled += cost
	if total > 0 {
		l.cost += max(total-l.unsettled, 0)
		l.unsettled = 0
	}
	switch {
	case l.maxTools > 0 && l.tools >= l.maxTools:
		return l.first("max-tools")
	case l.maxTokens > 0 && l.tokens >= l.maxTokens:
		return l.first("max-tokens")
	case l.maxCost > 0 && l.cost >= l.maxCost:
		return l.first("max-cost")
	}
	return ""
}

// first returns the limit, or "" if it was reached before.
func (l *limits) first(limit string) string {
	if l.told[limit] {
		return ""
	}
	l.told[limit] = true
	return limit
}

// reached says so, and ends the agent if it is to.
func (l *limits) reached(limit string, say *reporter) {
	action := ""
	if l.onLimit == onLimitKill {
		action = ": ending the agent"
		l.mu.Lock()
		if !l.kill && l.agent != nil {
			go endProcess(l.agent, l.grouped, killDelay)
		}
		l.kill = true
		l.mu.Unlock()
	}
	say.mu.Lock()
	defer say.mu.Unlock()
	if !say.quiet {
		say.line("the agent reached --%s%s", limit, action)
	}
}
