package mapping

import (
	"math"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// An account is what a run has counted and used, its sub-agents included.
type account struct {
	counts counts
	before struct { // counts of the stream before the run, or this part of the run, began
		turns, tools, badLines, hidden int
	}
	eventBytes int          // of the events so far
	usage      agent.Usage  // of all model calls
	logged     agent.Usage  // by the session's log, for the next chat
	reported   *agent.Usage // of the run, by its result
}

type counts struct {
	spans, turns, deltaSpans, tools, toolErrors, approvals, invocations, tasks int
	deltas, retries, reconnects, compactions, unknown                          int
	text, thinking                                                             tally
}

// A tally counts the deltas of a text, and its bytes.
type tally struct{ deltas, bytes int }

func (t *tally) plus(u tally) {
	t.deltas += u.deltas
	t.bytes += u.bytes
}

func (t *tally) addTo(a *attributes, deltas, bytes string) {
	a.int(deltas, int64(t.deltas))
	a.int(bytes, int64(t.bytes))
}

// addCountsTo adds the counts to a root.
func (c *account) addCountsTo(a *attributes, s *stream) {
	n := &c.counts
	a.int(semconv.Turns, int64(n.turns-c.before.turns))
	a.int(semconv.Tools, int64(n.tools-c.before.tools))
	a.int(semconv.ToolErrors, int64(n.toolErrors))
	a.int(semconv.Deltas, int64(n.deltas))
	n.text.addTo(a, semconv.TextDeltas, semconv.TextBytes)
	n.thinking.addTo(a, semconv.ThinkingDeltas, semconv.ThinkingBytes)
	a.int(semconv.BadLines, int64(s.stats.BadLines-c.before.badLines))
	for _, n := range []struct {
		key   string
		count int
	}{
		{semconv.UntracedBytes, int(s.untraced.bytes)},
		{semconv.UntracedLines, int(s.untraced.lines)},
		{semconv.UnknownLines, n.unknown},
		{semconv.HiddenNames, s.names.hidden - c.before.hidden},
		{semconv.Retries, n.retries},
		{semconv.Reconnects, n.reconnects},
		{semconv.Compactions, n.compactions},
	} {
		if n.count > 0 {
			a.int(n.key, int64(n.count))
		}
	}
}

// addUsageTo adds the usage to a root. If model calls have usage of their own, the
// root's totals have names that no backend sums up.
func (c *account) addUsageTo(a *attributes) {
	u := c.reported
	if !c.usage.Known && !c.usage.CostKnown {
		if u != nil {
			a.usage(u)
		}
		return
	}
	total := c.usage
	if u != nil && u.Known {
		cost, known := total.Cost, total.CostKnown
		total = *u
		if !total.CostKnown {
			total.Cost, total.CostKnown = cost, known
		}
	}
	if total.Known {
		if !total.OutputUnknown {
			a.int(semconv.UsageOutput, total.Output)
		}
		if !total.OutputOnly {
			a.int(semconv.UsageInput, total.Input)
			a.int(semconv.UsageCacheRead, total.CacheRead)
			a.int(semconv.UsageCacheWrite, total.CacheWrite)
		}
		if total.Reasoning > 0 {
			a.int(semconv.UsageReasoning, total.Reasoning)
		}
	}
	if total.CostKnown {
		a.float(semconv.UsageTotalCost, total.Cost)
	}
}

// usage adds token counts and cost.
func (a *attributes) usage(u *agent.Usage) {
	if u.Known {
		if !u.OutputUnknown {
			a.int(semconv.OutputTokens, u.Output)
		}
		if !u.OutputOnly {
			a.int(semconv.InputTokens, u.Input)
			a.int(semconv.CacheReadTokens, u.CacheRead)
			a.int(semconv.CacheWriteTokens, u.CacheWrite)
			a.int(semconv.CacheCreateTokens, u.CacheWrite)
		}
		if u.Reasoning > 0 {
			a.int(semconv.ReasoningTokens, u.Reasoning)
		}
	}
	if u.CostKnown {
		a.float(semconv.UsageCost, u.Cost)
	}
}

// addUsage adds the usage of a model call.
func (c *account) addUsage(u *agent.Usage) {
	t := &c.usage
	t.OutputOnly = u.OutputOnly && (t.OutputOnly || !t.Known)
	t.Add(u)
	t.Cost = math.Round((t.Cost+u.Cost)*1e12) / 1e12 // rounded, as decimals add up
	t.OutputUnknown = t.OutputUnknown || u.OutputUnknown
	t.CostKnown = t.CostKnown || u.CostKnown
}
