package metrics

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// Count counts a finished span. It retains nothing of it.
func (r *Recorder) Count(s *runs.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx := context.Background()
	switch s.Kind() {
	case runs.Agent:
		r.agentRan(ctx, s)
		if s.StatesTotals() {
			r.runEnded(ctx, s)
		}
	case runs.Chat:
		r.modelCalled(ctx, s, append(chunkGaps(s), r.gaps[string(s.ID)]...))
		delete(r.gaps, string(s.ID))
	case runs.Tool:
		r.toolCalled(ctx, s)
	case runs.Deltas: // of a chat that has not ended
		if gaps := chunkGaps(s); len(gaps) > 0 && len(r.gaps) < maxSeries {
			r.gaps[string(s.Parent)] = append(r.gaps[string(s.Parent)], gaps...)
		}
	}
	r.usage(s, func(name string, tokens int64) {
		r.counter(name).Add(ctx, tokens, r.with(s, usageAttributes...))
	})
}

// Remember takes a span that another Recorder, or this one, has counted. It counts nothing,
// but of the tokens that the run's root states, those of the span are counted already.
func (r *Recorder) Remember(s *runs.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usage(s, func(string, int64) {})
}

// chunkGaps returns the seconds between the chunks of a model's answer: its deltas.
func chunkGaps(s *runs.Span) (gaps []float64) {
	var last uint64 // the time of the delta before, zero if that is unknown
	s.Events(func(e runs.Event) {
		switch {
		case string(e.Name) != semconv.EventTextDelta && string(e.Name) != semconv.EventThinkingDelta:
		case e.Deltas > 1: // their times are unknown
			last = 0
		default:
			if last != 0 && e.Time >= last {
				gaps = append(gaps, float64(e.Time-last)/1e9)
			}
			last = e.Time
		}
	})
	return gaps
}

func (r *Recorder) agentRan(ctx context.Context, s *runs.Span) {
	stated := s.Stated()
	r.histogram(semconv.MetricInvokeAgentDuration).Record(ctx, s.Duration().Seconds(), r.with(s, semconv.AgentName, semconv.RequestModel, semconv.ErrorType))
	if !s.Has(semconv.Turns) { // the stream does not say what the agent did
		return
	}
	agent := r.with(s, semconv.AgentName)
	r.histogram(semconv.MetricInvokeAgentCalls).Record(ctx, float64(stated.Turns), agent)
	r.histogram(semconv.MetricInvokeAgentTools).Record(ctx, float64(stated.Tools), agent)
}

func (r *Recorder) runEnded(ctx context.Context, s *runs.Span) {
	stated, used := s.Stated(), s.Usage()
	outcome := attribute.String(semconv.Outcome, runs.Outcome(s.ErrorType()))
	r.counter(semconv.MetricRuns).Add(ctx, 1, r.with(s, semconv.AgentName, semconv.RequestModel), metric.WithAttributes(outcome))
	agent := r.with(s, semconv.AgentName)
	r.counter(semconv.MetricRetries).Add(ctx, stated.Retries, agent)
	r.histogram(semconv.MetricRepeats).Record(ctx, float64(stated.Repeats), agent)
	r.counter(semconv.MetricStalls).Add(ctx, 0, agent) // so that the series exists before the first stall
	if used.CostKnown {
		r.costCounter().Add(ctx, used.Cost, r.with(s, semconv.AgentName, semconv.RequestModel),
			metric.WithAttributes(attribute.String(semconv.CostSource, "provider")))
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
func (r *Recorder) modelCalled(ctx context.Context, s *runs.Span, gaps []float64) {
	call := r.with(s, inferenceAttributes...)
	r.histogram(semconv.MetricInferenceDuration).Record(ctx, s.Duration().Seconds(), r.with(s, failureAttributes...))
	if s.Has(semconv.TimeToFirstChunk) {
		r.histogram(semconv.MetricTimeToFirstChunk).Record(ctx, s.Number(semconv.TimeToFirstChunk), call)
	}
	for _, gap := range gaps {
		r.histogram(semconv.MetricTimePerChunk).Record(ctx, gap, call)
	}
	if s.Has(semconv.InputTokens) {
		r.histogram(semconv.MetricCallInputTokens).Record(ctx, s.Number(semconv.InputTokens), call)
		r.histogram(semconv.MetricCallOutputTokens).Record(ctx, s.Number(semconv.OutputTokens), call)
	}
}

func (r *Recorder) toolCalled(ctx context.Context, s *runs.Span) {
	seconds := s.Duration().Seconds()
	r.histogram(semconv.MetricToolDuration).Record(ctx, seconds, r.with(s, semconv.ToolName, semconv.ToolType, semconv.AgentName, semconv.ErrorType))
	if s.Has(semconv.MCPMethodName) {
		r.histogram(semconv.MetricMCPDuration).Record(ctx, seconds, r.with(s, semconv.MCPMethodName, semconv.ToolName, semconv.ErrorType))
	}
	agent := r.with(s, semconv.AgentName)
	if n := s.Int(semconv.ToolLinesAdded); n > 0 {
		r.counter(semconv.MetricLinesAdded).Add(ctx, n, agent)
	}
	if n := s.Int(semconv.ToolLinesRemoved); n > 0 {
		r.counter(semconv.MetricLinesRemoved).Add(ctx, n, agent)
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
func (r *Recorder) usage(s *runs.Span, count func(metric string, tokens int64)) {
	session := cmp.Or(s.Text(semconv.SessionID), string(s.TraceID))
	used, counted := r.used[session]
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
		delete(r.used, session)
	case isTotal, !s.StatesTotals() && (counted || len(r.used) < maxUsed):
		r.used[session] = used
	}
}

// Stalled counts a stall of an agent's run.
func (r *Recorder) Stalled(agent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter(semconv.MetricStalls).Add(context.Background(), 1, ofAgent(agent))
}

// Spans counts what became of the spans. Call it once.
func (r *Recorder) Spans(delivered, spooled, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx := context.Background()
	r.counter(semconv.MetricSpansDelivered).Add(ctx, int64(delivered))
	r.counter(semconv.MetricSpansSpooled).Add(ctx, int64(spooled))
	r.counter(semconv.MetricSpansDropped).Add(ctx, int64(dropped))
}

// An openKey is what open spans are counted by: runs by agent, tool calls by agent
// and tool.
type openKey struct{ agent, tool string }

// openSpans are the spans that have not ended. They are not changed.
type openSpans struct {
	counts map[openKey]int64
	agent  string // of a run that is open; empty if there is none
}

// SetOpen takes the spans that have not ended: each is the wire bytes of one
// opentelemetry.proto.trace.v1.Span.
func (r *Recorder) SetOpen(spans [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := &openSpans{counts: map[openKey]int64{}}
	for key := range r.open.Load().counts {
		open.counts[key] = 0 // report zero once, or the series of what has ended would keep its last value
	}
	var s runs.Span
	for _, wire := range spans {
		_ = s.Read(wire) // it is valid
		agent := s.Text(semconv.AgentName)
		switch {
		case s.StatesTotals():
			open.counts[openKey{agent: agent}]++
			open.agent = agent
		case s.Kind() == runs.Tool && s.ErrorType() == semconv.ErrorKilled:
			open.counts[openKey{agent, s.Text(semconv.ToolName)}]++
		}
	}
	r.open.Store(open)
}

// with returns the attributes that the span has, of those named by keys. Sets are kept,
// because most spans have one that was used before, and making a set takes longer than
// recording.
func (r *Recorder) with(s *runs.Span, keys ...string) metric.MeasurementOption {
	value := func(key string) []byte {
		if key == semconv.TokenModality { // which no stream states
			return []byte("unknown")
		}
		return s.Bytes(key)
	}
	b := r.setKey[:0]
	for _, key := range keys {
		if v := value(key); len(v) > 0 {
			b = append(append(append(append(b, key...), 0), v...), 0)
		}
	}
	r.setKey = b
	if set, ok := r.sets[string(b)]; ok {
		return set
	}
	list := make([]attribute.KeyValue, 0, len(keys))
	for _, key := range keys {
		if v := value(key); len(v) > 0 {
			list = append(list, attribute.String(key, string(v)))
		}
	}
	set := metric.WithAttributeSet(attribute.NewSet(list...))
	if len(r.sets) >= maxSeries {
		clear(r.sets)
	}
	r.sets[string(b)] = set
	return set
}
