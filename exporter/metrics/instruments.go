package metrics

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/spantee/spantee/mapping/semconv"
)

// instruments are the synchronous instruments; observe creates the observable ones.
// Each is made when it is first used: a short session has no use for half of them.
type instruments struct {
	observe                                         func()
	agentDuration, toolDuration, mcpDuration        func() metric.Float64Histogram
	inference, firstChunk, perChunk                 func() metric.Float64Histogram
	agentCalls, agentTools, repeats                 func() metric.Int64Histogram
	callInput, callOutput                           func() metric.Int64Histogram
	input, output, cacheRead, cacheWrite, reasoning func() metric.Int64Counter
	runs, retries, stalls, linesAdded, linesRemoved func() metric.Int64Counter
	delivered, spooled, dropped                     func() metric.Int64Counter
	cost                                            func() metric.Float64Counter
}

// Bucket boundaries of the GenAI conventions. Agents run for hours, so their
// boundaries continue past the conventions' last one; the others stay comparable.
var (
	agentSeconds = append(doubling(0.1, 13), 1800, 3600, 7200)
	toolSeconds  = doubling(0.01, 14)
	mcpSeconds   = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	firstSeconds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60}
	chunkSeconds = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	calls        = doubling(1, 8)
	tokens       = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	repetitions  = []float64{1, 2, 3, 5, 10, 20, 50, 100}
)

func doubling(first float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = first * float64(int(1)<<i)
	}
	return bounds
}

// create says how the instruments are made.
func (r *Recorder) create(provider metric.MeterProvider, version string) {
	c := creator{provider.Meter(scope, metric.WithInstrumentationVersion(version))}

	r.agentDuration = c.seconds(semconv.MetricInvokeAgentDuration, "How long agents and sub-agents ran.", agentSeconds)
	r.agentCalls = c.histogram(semconv.MetricInvokeAgentCalls, "{inference_call}", "Model calls of an agent's run.", calls)
	r.agentTools = c.histogram(semconv.MetricInvokeAgentTools, "{tool_call}", "Tool calls of an agent's run.", calls)
	r.toolDuration = c.seconds(semconv.MetricToolDuration, "How long tool calls took.", toolSeconds)
	r.mcpDuration = c.seconds(semconv.MetricMCPDuration, "How long calls of MCP tools took.", mcpSeconds)
	r.inference = c.seconds(semconv.MetricInferenceDuration, "How long model calls took.", toolSeconds)
	r.firstChunk = c.seconds(semconv.MetricTimeToFirstChunk, "Time to the first chunk of a model's answer.", firstSeconds)
	r.perChunk = c.seconds(semconv.MetricTimePerChunk, "Time between two chunks of a model's answer.", chunkSeconds)
	r.callInput = c.histogram(semconv.MetricCallInputTokens, "{token}", "Input tokens of a model call.", tokens)
	r.callOutput = c.histogram(semconv.MetricCallOutputTokens, "{token}", "Output tokens of a model call.", tokens)

	r.input = c.counter(semconv.MetricInputTokens, "{token}", "Input tokens used, cached ones included.")
	r.output = c.counter(semconv.MetricOutputTokens, "{token}", "Output tokens used.")
	r.cacheRead = c.counter(semconv.MetricCacheReadTokens, "{token}", "Input tokens read from a cache.")
	r.cacheWrite = c.counter(semconv.MetricCacheWriteTokens, "{token}", "Input tokens written to a cache.")
	r.reasoning = c.counter(semconv.MetricReasoningTokens, "{token}", "Output tokens used for reasoning.")

	r.runs = c.counter(semconv.MetricRuns, "{run}", "Runs that ended, by outcome.")
	r.retries = c.counter(semconv.MetricRetries, "{retry}", "Model calls that the agent tried again.")
	r.stalls = c.counter(semconv.MetricStalls, "{stall}", "Times that a run was silent for longer than --stall-after.")
	r.repeats = c.histogram(semconv.MetricRepeats, "{tool_call}", "The most repetitions of one tool call in a run.", repetitions)
	r.linesAdded = c.counter(semconv.MetricLinesAdded, "{line}", "Lines that tools added to files.")
	r.linesRemoved = c.counter(semconv.MetricLinesRemoved, "{line}", "Lines that tools removed from files.")
	r.delivered = c.counter(semconv.MetricSpansDelivered, "{span}", "Spans that a receiver accepted.")
	r.spooled = c.counter(semconv.MetricSpansSpooled, "{span}", "Spans spooled on disk for retry.")
	r.dropped = c.counter(semconv.MetricSpansDropped, "{span}", "Spans that were lost or rejected.")
	r.cost = c.cost()
	r.observe = sync.OnceFunc(func() { c.observe(r) })
}

// A creator knows how to make instruments. There is no error: their names are
// valid.
type creator struct{ meter metric.Meter }

func (c creator) seconds(name, description string, bounds []float64) func() metric.Float64Histogram {
	return sync.OnceValue(func() metric.Float64Histogram {
		h, _ := c.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		return h
	})
}

func (c creator) histogram(name, unit, description string, bounds []float64) func() metric.Int64Histogram {
	return sync.OnceValue(func() metric.Int64Histogram {
		h, _ := c.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		return h
	})
}

func (c creator) counter(name, unit, description string) func() metric.Int64Counter {
	return sync.OnceValue(func() metric.Int64Counter {
		counter, _ := c.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		return counter
	})
}

func (c creator) cost() func() metric.Float64Counter {
	return sync.OnceValue(func() metric.Float64Counter {
		counter, _ := c.meter.Float64Counter(semconv.MetricCost, metric.WithUnit("USD"), metric.WithDescription("What runs cost, as their agents state it."))
		return counter
	})
}

// observe creates the observable instruments.
func (c creator) observe(r *Recorder) {
	runs, _ := c.meter.Int64ObservableUpDownCounter(semconv.MetricActiveRuns, metric.WithUnit("{run}"), metric.WithDescription("Runs that have not ended."))
	tools, _ := c.meter.Int64ObservableUpDownCounter(semconv.MetricActiveTools, metric.WithUnit("{tool_call}"), metric.WithDescription("Tool calls that have not ended."))
	idle, _ := c.meter.Float64ObservableGauge(semconv.MetricIdle, metric.WithUnit("s"), metric.WithDescription("Time since the stream's last byte, while a run is open."))
	_, _ = c.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, n := range r.open {
			if key.tool == "" {
				o.ObserveInt64(runs, n, with(semconv.AgentName, key.agent))
			} else {
				o.ObserveInt64(tools, n, with(semconv.AgentName, key.agent, semconv.ToolName, key.tool))
			}
		}
		if r.agent != "" {
			o.ObserveFloat64(idle, time.Since(time.Unix(0, r.heard.Load())).Seconds(), with(semconv.AgentName, r.agent))
		}
		return nil
	}, runs, tools, idle)
}
