package mapping

import (
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// An account is what a run has counted and used, its sub-agents included.
type account struct {
	counts counts
	before struct { // counts of the stream before the run began
		badLines, hidden int
	}
	eventBytes   int          // of the events so far
	usage        agent.Usage  // of all model calls
	reported     *agent.Usage // of the run, by its result
	sessionUsage *agent.Usage // of the session, by the result
}

type counts struct {
	spans, turns, deltaSpans, tools, toolErrors, approvals, hooks, invocations, tasks int
	deltas, retries, reconnects, compactions, unknown                                 int
	scripts                                                                           int          // tools that made calls
	said                                                                              [2]textCount // by textKind
}

// A textCount counts the deltas of a text, and its bytes.
type textCount struct{ deltas, bytes int }

// texts adds the counts of both kinds of text.
func (a *attributes) texts(said *[2]textCount) {
	a.int(semconv.TextDeltas, int64(said[answerText].deltas))
	a.int(semconv.TextBytes, int64(said[answerText].bytes))
	a.int(semconv.ThinkingDeltas, int64(said[thinkingText].deltas))
	a.int(semconv.ThinkingBytes, int64(said[thinkingText].bytes))
}

// addWorkTo adds to a root how much the agent did.
func (c *account) addWorkTo(a *attributes) {
	n := &c.counts
	a.int(semconv.Turns, int64(n.turns))
	a.int(semconv.Tools, int64(n.tools-n.scripts))
	a.int(semconv.ToolErrors, int64(n.toolErrors))
	a.int(semconv.Deltas, int64(n.deltas))
	a.texts(&n.said)
}

// addCountsTo adds the other counts to a root.
func (c *account) addCountsTo(a *attributes, s *stream) {
	n := &c.counts
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
	if c.sessionUsage != nil {
		a.usage(c.sessionUsage, &sessionKeys)
	}
	u := c.reported
	if !c.usage.Known && !c.usage.CostKnown {
		if u != nil {
			a.usage(u, &usageKeys)
		}
		return
	}
	total := c.usage
	if u != nil {
		cost, known := total.Cost, total.CostKnown
		if u.CostKnown {
			cost, known = u.Cost, true
		}
		if u.Known {
			total = *u
		}
		total.Cost, total.CostKnown = cost, known
	}
	a.usage(&total, &totalKeys)
}

// usageNames are the attributes of token counts and cost.
type usageNames struct {
	output, input, cacheRead, cacheWrite, reasoning, cost string
	cacheWriteHour, webSearches                           string
}

var (
	usageKeys = usageNames{
		semconv.OutputTokens, semconv.InputTokens, semconv.CacheReadTokens, semconv.CacheWriteTokens, semconv.ReasoningTokens, semconv.UsageCost,
		semconv.CacheWriteHour, semconv.WebSearches,
	}
	totalKeys = usageNames{
		semconv.UsageOutput, semconv.UsageInput, semconv.UsageCacheRead, semconv.UsageCacheWrite, semconv.UsageReasoning, semconv.UsageTotalCost,
		semconv.UsageCacheWriteHour, semconv.UsageWebSearches,
	}
	sessionKeys = usageNames{
		semconv.SessionOutput, semconv.SessionInput, semconv.SessionCacheRead, semconv.SessionCacheWrite, semconv.SessionReasoning, semconv.SessionCost,
		"", "",
	}
)

// usage adds token counts and cost.
func (a *attributes) usage(u *agent.Usage, keys *usageNames) {
	if u.Known {
		if !u.OutputUnknown {
			a.int(keys.output, u.Output)
		}
		if !u.OutputOnly {
			a.int(keys.input, u.Input)
			a.int(keys.cacheRead, u.CacheRead)
			a.int(keys.cacheWrite, u.CacheWrite)
		}
		for _, n := range []struct {
			key   string
			count int64
		}{{keys.reasoning, u.Reasoning}, {keys.cacheWriteHour, u.CacheWriteHour}, {keys.webSearches, u.WebSearches}} {
			if n.count > 0 && n.key != "" {
				a.int(n.key, n.count)
			}
		}
	}
	if u.CostKnown {
		a.float(keys.cost, u.Cost)
	}
}

// addUsage adds the usage of a model call.
func (c *account) addUsage(u *agent.Usage) {
	t := &c.usage
	t.OutputOnly = u.OutputOnly && (t.OutputOnly || !t.Known)
	t.Add(u)
	t.AddCost(u)
	t.OutputUnknown = t.OutputUnknown || u.OutputUnknown
}
