package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spantee/spantee/mapping/semconv"
)

// A definition says how an instrument is made: a histogram, or a counter if it has no
// bounds.
type definition struct {
	unit, description string
	bounds            []float64
}

var definitions = map[string]definition{
	semconv.MetricInvokeAgentDuration: {"s", "How long agents and sub-agents ran.", agentSeconds},
	semconv.MetricInvokeAgentCalls:    {"{inference_call}", "Model calls of an agent's run.", calls},
	semconv.MetricInvokeAgentTools:    {"{tool_call}", "Tool calls of an agent's run.", calls},
	semconv.MetricToolDuration:        {"s", "How long tool calls took.", toolSeconds},
	semconv.MetricMCPDuration:         {"s", "How long calls of MCP tools took.", mcpSeconds},
	semconv.MetricInferenceDuration:   {"s", "How long model calls took.", toolSeconds},
	semconv.MetricTimeToFirstChunk:    {"s", "Time to the first chunk of a model's answer.", firstSeconds},
	semconv.MetricTimePerChunk:        {"s", "Time between two chunks of a model's answer.", chunkSeconds},
	semconv.MetricCallInputTokens:     {"{token}", "Input tokens of a model call.", tokens},
	semconv.MetricCallOutputTokens:    {"{token}", "Output tokens of a model call.", tokens},
	semconv.MetricInputTokens:         {"{token}", "Input tokens used, cached ones included.", nil},
	semconv.MetricOutputTokens:        {"{token}", "Output tokens used.", nil},
	semconv.MetricCacheReadTokens:     {"{token}", "Input tokens read from a cache.", nil},
	semconv.MetricCacheWriteTokens:    {"{token}", "Input tokens written to a cache.", nil},
	semconv.MetricReasoningTokens:     {"{token}", "Output tokens used for reasoning.", nil},
	semconv.MetricRuns:                {"{run}", "Runs that ended, by outcome.", nil},
	semconv.MetricRetries:             {"{retry}", "Model calls that the agent tried again.", nil},
	semconv.MetricStalls:              {"{stall}", "Times that a run was silent for longer than --stall-after.", nil},
	semconv.MetricRepeats:             {"{tool_call}", "The most repetitions of one tool call in a run.", repetitions},
	semconv.MetricLinesAdded:          {"{line}", "Lines that tools added to files.", nil},
	semconv.MetricLinesRemoved:        {"{line}", "Lines that tools removed from files.", nil},
	semconv.MetricSpansDelivered:      {"{span}", "Spans that a receiver accepted.", nil},
	semconv.MetricSpansSpooled:        {"{span}", "Spans spooled on disk for retry.", nil},
	semconv.MetricSpansDropped:        {"{span}", "Spans that were lost or rejected.", nil},
}

// Bucket boundaries of the GenAI conventions. Agents run for hours, so their
// boundaries continue past the conventions' last one; the others stay comparable.
var (
	agentSeconds = []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 1800, 3600, 7200}
	toolSeconds  = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	mcpSeconds   = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	firstSeconds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60}
	chunkSeconds = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	calls        = []float64{1, 2, 4, 8, 16, 32, 64, 128}
	tokens       = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	repetitions  = []float64{1, 2, 3, 5, 10, 20, 50, 100}
)

// counter returns a counter, which is made when it is first needed. That cannot fail,
// because all names are valid.
func (r *Recorder) counter(name string) metric.Int64Counter {
	if r.counters[name] == nil {
		d := definitions[name]
		r.counters[name], _ = r.meter.Int64Counter(name, metric.WithUnit(d.unit), metric.WithDescription(d.description))
	}
	return r.counters[name]
}

// histogram is the same for a histogram.
func (r *Recorder) histogram(name string) metric.Float64Histogram {
	if r.histograms[name] == nil {
		d := definitions[name]
		r.histograms[name], _ = r.meter.Float64Histogram(name, metric.WithUnit(d.unit), metric.WithDescription(d.description), metric.WithExplicitBucketBoundaries(d.bounds...))
	}
	return r.histograms[name]
}

func (r *Recorder) costCounter() metric.Float64Counter {
	if r.cost == nil {
		r.cost, _ = r.meter.Float64Counter(semconv.MetricCost, metric.WithUnit("USD"), metric.WithDescription("What runs cost, as their agents state it."))
	}
	return r.cost
}

// observe creates the observable instruments.
func (r *Recorder) observe() {
	runs, _ := r.meter.Int64ObservableUpDownCounter(semconv.MetricActiveRuns, metric.WithUnit("{run}"), metric.WithDescription("Runs that have not ended."))
	tools, _ := r.meter.Int64ObservableUpDownCounter(semconv.MetricActiveTools, metric.WithUnit("{tool_call}"), metric.WithDescription("Tool calls that have not ended."))
	idle, _ := r.meter.Float64ObservableGauge(semconv.MetricIdle, metric.WithUnit("s"), metric.WithDescription("Time since the stream's last byte, while a run is open."))
	_, _ = r.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		open := r.open.Load()
		for key, n := range open.counts {
			if key.tool == "" {
				o.ObserveInt64(runs, n, ofAgent(key.agent))
			} else {
				o.ObserveInt64(tools, n, ofAgent(key.agent), metric.WithAttributes(attribute.String(semconv.ToolName, key.tool)))
			}
		}
		if open.agent != "" {
			o.ObserveFloat64(idle, time.Since(time.Unix(0, r.lastArrival.Load())).Seconds(), ofAgent(open.agent))
		}
		return nil
	}, runs, tools, idle)
}

func ofAgent(agent string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String(semconv.AgentName, agent))
}
