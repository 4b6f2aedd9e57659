package metrics

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/semconv"
)

// Export counts a finished span: the wire bytes of one
// opentelemetry.proto.trace.v1.Span. It does not retain wire.
func (r *Recorder) Export(wire []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.span.decode(wire); err != nil {
		return err
	}
	r.record(&r.span)
	return nil
}

// ExportKilled counts a span of a process that was killed, if that is why it
// ended: the others were counted when they ended.
func (r *Recorder) ExportKilled(wire []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.span.decode(wire) == nil && string(r.span.facts.text(semconv.ErrorType)) == semconv.ErrorKilled {
		r.record(&r.span)
	}
}

func (r *Recorder) record(s *span) {
	ctx, f, seconds := s.context(), s.facts, s.seconds()
	switch string(f.text(semconv.OperationName)) {
	case semconv.OperationInvokeAgent:
		r.agentRan(ctx, f, seconds)
		if f.has(semconv.BadLines) { // which only roots have
			r.runEnded(ctx, f)
		}
	case semconv.OperationChat:
		r.modelCalled(ctx, f, seconds, append(s.gaps, r.gaps[string(s.id)]...))
		delete(r.gaps, string(s.id))
	case semconv.OperationExecuteTool:
		r.toolCalled(ctx, f, seconds)
	case "":
		// A deltas span: the events that did not fit into a chat that has not
		// ended.
		if parent := string(s.parent); len(s.gaps) > 0 && len(r.gaps) < maxSeries {
			r.gaps[parent] = append(r.gaps[parent], s.gaps...)
		}
	}
	r.usage(ctx, f)
}

// context makes the span an exemplar.
func (s *span) context() context.Context {
	cfg := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}
	copy(cfg.TraceID[:], s.traceID)
	copy(cfg.SpanID[:], s.id)
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(cfg))
}

func (r *Recorder) agentRan(ctx context.Context, f facts, seconds float64) {
	r.agentDuration().Record(ctx, seconds, r.with(f, semconv.AgentName, semconv.RequestModel, semconv.ErrorType))
	agent := r.with(f, semconv.AgentName)
	r.agentCalls().Record(ctx, f.int(semconv.Turns), agent)
	r.agentTools().Record(ctx, f.int(semconv.Tools), agent)
}

func (r *Recorder) runEnded(ctx context.Context, f facts) {
	outcome := attribute.String(semconv.Outcome, outcome(string(f.text(semconv.ErrorType))))
	r.runs().Add(ctx, 1, r.with(f, semconv.AgentName, semconv.RequestModel), metric.WithAttributes(outcome))
	agent := r.with(f, semconv.AgentName)
	r.retries().Add(ctx, f.int(semconv.Retries), agent)
	r.repeats().Record(ctx, f.int(semconv.MaxRepeats), agent)
	r.stalls().Add(ctx, 0, agent) // so that the series exists before the first stall

	// The root has the total, whatever its model calls have.
	cost, ok := f.find(semconv.UsageTotalCost)
	if !ok {
		cost, ok = f.find(semconv.UsageCost)
	}
	if ok {
		r.cost().Add(ctx, cost.float, r.with(f, semconv.AgentName, semconv.RequestModel),
			metric.WithAttributes(attribute.String(semconv.CostSource, "provider")))
	}
}

// outcome maps the error types of agents, of which there are many, to one name.
func outcome(errorType string) string {
	switch errorType {
	case "":
		return "success"
	case semconv.ErrorIncomplete, semconv.ErrorInterrupted, semconv.ErrorKilled:
		return errorType
	}
	return "error"
}

// inferenceAttributes are those of all metrics of model calls; some have one more.
var (
	inferenceAttributes = []string{semconv.OperationName, semconv.ProviderName, semconv.RequestModel, semconv.ResponseModel}
	failureAttributes   = append(inferenceAttributes[:4:4], semconv.ErrorType)
	usageAttributes     = append(inferenceAttributes[:4:4], semconv.AgentName)
)

// modelCalled counts a model call; gaps are the seconds between its chunks.
func (r *Recorder) modelCalled(ctx context.Context, f facts, seconds float64, gaps []float64) {
	call := r.with(f, inferenceAttributes...)
	r.inference().Record(ctx, seconds, r.with(f, failureAttributes...))
	if first, ok := f.find(semconv.TimeToFirstChunk); ok {
		r.firstChunk().Record(ctx, first.float, call)
	}
	for _, gap := range gaps {
		r.perChunk().Record(ctx, gap, call)
	}
	if f.has(semconv.InputTokens) {
		r.callInput().Record(ctx, f.int(semconv.InputTokens), call)
		r.callOutput().Record(ctx, f.int(semconv.OutputTokens), call)
	}
}

func (r *Recorder) toolCalled(ctx context.Context, f facts, seconds float64) {
	r.toolDuration().Record(ctx, seconds, r.with(f, semconv.ToolName, semconv.ToolType, semconv.AgentName, semconv.ErrorType))
	if f.has(semconv.MCPMethodName) {
		r.mcpDuration().Record(ctx, seconds, r.with(f, semconv.MCPMethodName, semconv.ToolName, semconv.ErrorType))
	}
	agent := r.with(f, semconv.AgentName)
	if n := f.int(semconv.ToolLinesAdded); n > 0 {
		r.linesAdded().Add(ctx, n, agent)
	}
	if n := f.int(semconv.ToolLinesRemoved); n > 0 {
		r.linesRemoved().Add(ctx, n, agent)
	}
}

// usage counts tokens. They are on the model calls or else on the root, never on
// both.
func (r *Recorder) usage(ctx context.Context, f facts) {
	if !f.has(semconv.InputTokens) && !f.has(semconv.OutputTokens) {
		return
	}
	attributes := r.with(f, usageAttributes...)
	modality := metric.WithAttributes(attribute.String(semconv.TokenModality, "unknown"))
	for _, u := range []struct {
		counter func() metric.Int64Counter
		key     string
	}{
		{r.input, semconv.InputTokens},
		{r.output, semconv.OutputTokens},
		{r.cacheRead, semconv.CacheReadTokens},
		{r.cacheWrite, semconv.CacheWriteTokens},
		{r.reasoning, semconv.ReasoningTokens},
	} {
		if f.has(u.key) {
			u.counter().Add(ctx, f.int(u.key), attributes, modality)
		}
	}
}

// Stalled counts a stall of an agent's run.
func (r *Recorder) Stalled(agent string) {
	r.stalls().Add(context.Background(), 1, with(semconv.AgentName, agent))
}

// Spans counts what became of the spans. Call it once.
func (r *Recorder) Spans(delivered, spooled, dropped int) {
	ctx := context.Background()
	r.delivered().Add(ctx, int64(delivered))
	r.spooled().Add(ctx, int64(spooled))
	r.dropped().Add(ctx, int64(dropped))
}

// An openKey is what open spans are counted by: runs by agent, tool calls by agent
// and tool.
type openKey struct{ agent, tool string }

// SetOpen takes the spans that have not ended, as Export has them.
func (r *Recorder) SetOpen(spans [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := map[openKey]int64{}
	for key := range r.open {
		open[key] = 0 // report zero once, or the series of what has ended would keep its last value
	}
	r.open, r.agent = open, ""
	s := &r.span
	for _, wire := range spans {
		if s.decode(wire) != nil {
			continue // Export says so when it ends
		}
		agent := string(s.facts.text(semconv.AgentName))
		switch {
		case s.facts.has(semconv.BadLines):
			open[openKey{agent: agent}]++
			r.agent = agent
		case string(s.facts.text(semconv.OperationName)) == semconv.OperationExecuteTool && string(s.facts.text(semconv.ErrorType)) == semconv.ErrorKilled:
			open[openKey{agent, string(s.facts.text(semconv.ToolName))}]++
		}
	}
}

// with returns those of the attributes that the span has. Most spans have the same as
// others before, and making a set takes longer than recording.
func (r *Recorder) with(f facts, keys ...string) metric.MeasurementOption {
	b := r.setKey[:0]
	for _, key := range keys {
		if v := f.text(key); len(v) > 0 {
			b = append(append(append(append(b, key...), 0), v...), 0)
		}
	}
	r.setKey = b
	if set, ok := r.sets[string(b)]; ok {
		return set
	}
	list := make([]attribute.KeyValue, 0, len(keys))
	for _, key := range keys {
		if v := f.text(key); len(v) > 0 {
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

// with returns attributes: keys, each with its value.
func with(keysAndValues ...string) metric.MeasurementOption {
	var list []attribute.KeyValue
	for i := 0; i < len(keysAndValues); i += 2 {
		list = append(list, attribute.String(keysAndValues[i], keysAndValues[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(list...))
}
