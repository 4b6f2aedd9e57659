package metrics

import (
	"cmp"

	"go.opentelemetry.io/otel/attribute"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A tally counts spans.
type tally struct {
	counts counts
	used   map[string][len(usages)]int64 // by model calls that no root has stated yet, by session
	gaps   map[string]*series            // between chunks of chats that have not ended, by their span ids
}

func newTally() tally {
	return tally{counts: counts{}, used: map[string][len(usages)]int64{}, gaps: map[string]*series{}}
}

// count counts a finished span. It retains nothing of it.
func (t *tally) count(s *runs.Span) {
	switch s.Kind() {
	case runs.Agent:
		t.agentRan(s)
		if s.StatesTotals() {
			t.runEnded(s)
		}
	case runs.Chat:
		t.modelCalled(s, t.chunkGaps(s, s.ID))
		delete(t.gaps, string(s.ID))
	case runs.Tool:
		t.toolCalled(s)
	case runs.Deltas: // of a chat that has not ended
		if gaps := t.chunkGaps(s, s.Parent); len(t.gaps) < maxSeries {
			t.gaps[string(s.Parent)] = gaps
		}
	}
	t.usage(s, func(name string, tokens int64) { t.counts.of(s, name, usageAttributes...).add(float64(tokens)) })
}

// chunkGaps returns the seconds between the chunks of a model's answer: its deltas in a span,
// and those of its chat before.
func (t *tally) chunkGaps(s *runs.Span, chat []byte) *series {
	gaps := newSeries(attribute.Set{}, chunkSeconds)
	if before := t.gaps[string(chat)]; before != nil {
		gaps.addAll(before)
	}
	var last uint64 // the time of the delta before, zero if that is unknown
	s.Events(func(e runs.Event) {
		switch {
		case string(e.Name) != semconv.EventTextDelta && string(e.Name) != semconv.EventThinkingDelta:
		case e.Deltas > 1: // their times are unknown
			last = 0
		default:
			if last != 0 && e.Time >= last {
				gaps.add(float64(e.Time-last) / 1e9)
			}
			last = e.Time
		}
	})
	return gaps
}

func (t *tally) agentRan(s *runs.Span) {
	t.counts.of(s, semconv.MetricInvokeAgentDuration, semconv.AgentName, semconv.RequestModel, semconv.ErrorType).add(s.Duration().Seconds())
	if s.Has(semconv.Turns) { // otherwise the stream does not say what the agent did
		t.counts.of(s, semconv.MetricInvokeAgentCalls, semconv.AgentName).add(s.Number(semconv.Turns))
		t.counts.of(s, semconv.MetricInvokeAgentTools, semconv.AgentName).add(s.Number(semconv.Tools))
	}
}

func (t *tally) runEnded(s *runs.Span) {
	t.counts.of(s, semconv.MetricRuns, semconv.AgentName, semconv.RequestModel, semconv.Outcome).add(1)
	t.counts.of(s, semconv.MetricRetries, semconv.AgentName).add(s.Number(semconv.Retries))
	t.counts.of(s, semconv.MetricRepeats, semconv.AgentName).add(s.Number(semconv.MaxRepeats))
	t.counts.of(s, semconv.MetricStalls, semconv.AgentName) // so that the series exists before the first stall
	if used := s.Usage(); used.CostKnown {
		t.counts.of(s, semconv.MetricCost, semconv.AgentName, semconv.RequestModel, semconv.CostSource).add(used.Cost)
	}
}

// inferenceAttributes are the attributes of all metrics of model calls; some metrics have
// one more.
var (
	inferenceAttributes = []string{semconv.OperationName, semconv.ProviderName, semconv.RequestModel, semconv.ResponseModel}
	failureAttributes   = append(inferenceAttributes[:4:4], semconv.ErrorType)
	usageAttributes     = append(inferenceAttributes[:4:4], semconv.AgentName, semconv.TokenModality)
)

// modelCalled counts a model call; gaps are the seconds between its chunks.
func (t *tally) modelCalled(s *runs.Span, gaps *series) {
	t.counts.of(s, semconv.MetricInferenceDuration, failureAttributes...).add(s.Duration().Seconds())
	if s.Has(semconv.TimeToFirstChunk) {
		t.counts.of(s, semconv.MetricTimeToFirstChunk, inferenceAttributes...).add(s.Number(semconv.TimeToFirstChunk))
	}
	if gaps.count > 0 {
		t.counts.of(s, semconv.MetricTimePerChunk, inferenceAttributes...).addAll(gaps)
	}
	if s.Has(semconv.InputTokens) {
		t.counts.of(s, semconv.MetricCallInputTokens, inferenceAttributes...).add(s.Number(semconv.InputTokens))
		t.counts.of(s, semconv.MetricCallOutputTokens, inferenceAttributes...).add(s.Number(semconv.OutputTokens))
	}
}

func (t *tally) toolCalled(s *runs.Span) {
	seconds := s.Duration().Seconds()
	t.counts.of(s, semconv.MetricToolDuration, semconv.ToolName, semconv.ToolType, semconv.AgentName, semconv.ErrorType).add(seconds)
	if s.Has(semconv.MCPMethodName) {
		t.counts.of(s, semconv.MetricMCPDuration, semconv.MCPMethodName, semconv.ToolName, semconv.ErrorType).add(seconds)
	}
	if n := s.Number(semconv.ToolLinesAdded); n > 0 {
		t.counts.of(s, semconv.MetricLinesAdded, semconv.AgentName).add(n)
	}
	if n := s.Number(semconv.ToolLinesRemoved); n > 0 {
		t.counts.of(s, semconv.MetricLinesRemoved, semconv.AgentName).add(n)
	}
}

// usages are the kinds of tokens: what a model call states, or the root for all of them,
// and what the root states if model calls state theirs.
var usages = [...]struct{ metric, key, total string }{
	{semconv.MetricInputTokens, semconv.InputTokens, semconv.UsageInput},
	{semconv.MetricOutputTokens, semconv.OutputTokens, semconv.UsageOutput},
	{semconv.MetricCacheReadTokens, semconv.CacheReadTokens, semconv.UsageCacheRead},
	{semconv.MetricCacheWriteTokens, semconv.CacheWriteTokens, semconv.UsageCacheWrite},
	{semconv.MetricReasoningTokens, semconv.ReasoningTokens, semconv.UsageReasoning},
}

// maxUsed is the number of sessions of which it is known what their model calls used.
const maxUsed = 10_000

// usage counts tokens: those of model calls as they end, and at the end of a run those that only
// its root states. Claude Code, for example, states output tokens only there. A root may also
// state what sub-agents of an earlier run used since.
func (t *tally) usage(s *runs.Span, count func(metric string, tokens int64)) {
	session := cmp.Or(s.Text(semconv.SessionID), string(s.TraceID))
	used, counted := t.used[session]
	isTotal := counted && s.StatesTotals() && s.ErrorType() != semconv.ErrorKilled // of a killed run, another Recorder has counted most
	if !isTotal && !s.Has(semconv.InputTokens) && !s.Has(semconv.OutputTokens) {
		return
	}
	for i, u := range usages {
		switch total := s.Int(u.total); {
		case s.Has(u.key):
			used[i] += s.Int(u.key)
			count(u.metric, s.Int(u.key))
		case isTotal:
			if total > used[i] {
				count(u.metric, total-used[i])
			}
			used[i] = max(0, used[i]-total)
		}
	}
	switch {
	case isTotal && used == [len(usages)]int64{}:
		delete(t.used, session)
	case isTotal, !s.StatesTotals() && (counted || len(t.used) < maxUsed):
		t.used[session] = used
	}
}
