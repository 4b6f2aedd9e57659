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
	f.DurationVar(&o.maxDuration, "max-duration", 0, "limit the run to `TIME`")
	f.DurationVar(&o.maxIdle, "max-idle", 0, "limit silence to `TIME`, even while a tool is running")
	f.Int64Var(&o.maxTools, "max-tools", 0, "limit the agent to `N` tool calls")
	f.Int64Var(&o.maxTokens, "max-tokens", 0, "limit input plus output to `N` tokens, as far as the agent reports them while running")
	f.Float64Var(&o.maxCost, "max-cost", 0, "limit the cost to `USD`, as far as the agent reports it while running")
	f.StringVar(&o.onLimit, "on-limit", onLimitWarn, "`WHAT` to do when a limit is reached: warn, or kill the agent (and its process group, if it has one of its own)")
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
	started time.Time
	tools   int64
	tokens  int64
	cost    float64

	unsettled float64 // cost of model calls of which no run has the total yet

	told map[string]bool // limits already reported as reached

	mu      sync.Mutex
	agent   *os.Process // nil until it is started
	grouped bool        // the agent leads a process group of its own
	kill    bool        // the agent must be killed
}

// killDelay is how long an agent has to end after SIGTERM.
const killDelay = 5 * time.Second

func newLimits(o limitOptions) *limits {
	if !o.any() {
		return nil
	}
	return &limits{limitOptions: o, started: time.Now(), told: map[string]bool{}}
}

// startedAs sets the process to kill.
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

// agentEnded ends the processes that a killed agent left running.
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

// ownGroup reports whether the agent needs a process group of its own.
func (l *limits) ownGroup() bool { return l != nil && l.onLimit == onLimitKill }

// checkTime returns the limit that the passing of time has reached, or "".
func (l *limits) checkTime(now time.Time, idle time.Duration) string {
	switch {
	case l.maxIdle > 0 && idle >= l.maxIdle:
		return l.unlessReported("max-idle")
	case l.maxDuration > 0 && now.Sub(l.started) >= l.maxDuration:
		return l.unlessReported("max-duration")
	}
	return ""
}

// nextTime returns how long until time alone may reach a limit, zero for never.
func (l *limits) nextTime(now time.Time, idle time.Duration) (next time.Duration) {
	if l.maxIdle > 0 && !l.told["max-idle"] {
		next = max(l.maxIdle-idle, time.Millisecond)
	}
	if l.maxDuration > 0 && !l.told["max-duration"] {
		next = soonest(next, max(l.maxDuration-now.Sub(l.started), time.Millisecond))
	}
	return next
}

// count counts a finished span, and returns the limit that it reached, or "".
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
		return l.unlessReported("max-tools")
	case l.maxTokens > 0 && l.tokens >= l.maxTokens:
		return l.unlessReported("max-tokens")
	case l.maxCost > 0 && l.cost >= l.maxCost:
		return l.unlessReported("max-cost")
	}
	return ""
}

// unlessReported returns the limit, or "" if the limit was reached before.
func (l *limits) unlessReported(limit string) string {
	if l.told[limit] {
		return ""
	}
	l.told[limit] = true
	return limit
}

// reached reports a limit that was reached and, with --on-limit=kill, ends the
// agent.
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
