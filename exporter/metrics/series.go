package metrics

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A definition says what a metric is: a histogram if it has bounds, otherwise a number.
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
	semconv.MetricCost:                {"USD", "What runs cost, as their agents state it.", nil},
	semconv.MetricActiveRuns:          {"{run}", "Runs that have not ended.", nil},
	semconv.MetricActiveTools:         {"{tool_call}", "Tool calls that have not ended.", nil},
	semconv.MetricIdle:                {"s", "Time since the stream's last byte, while a run is open.", nil},
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

// counts are series, by their metric and by their encoded attributes.
type counts map[string]map[string]*series

// A series is what was counted with one set of attributes. Only one of a histogram has bounds,
// and counts more than the sum. The SDK looks up the attributes for each measurement, of which
// there is one for each delta.
type series struct {
	attributes attribute.Set
	bounds     []float64

	sum       float64
	count     uint64
	buckets   []uint64
	low, high float64
}

func newSeries(attributes attribute.Set, bounds []float64) *series {
	s := &series{attributes: attributes, bounds: bounds, low: math.Inf(1), high: math.Inf(-1)}
	if bounds != nil {
		s.buckets = make([]uint64, len(bounds)+1)
	}
	return s
}

func (s *series) add(v float64) {
	s.sum += v
	if s.bounds != nil {
		bucket, _ := slices.BinarySearch(s.bounds, v)
		s.buckets[bucket]++
		s.count++
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
}

// addAll adds what another series of the same metric has counted.
func (s *series) addAll(more *series) {
	s.sum += more.sum
	s.count += more.count
	for i, n := range more.buckets {
		s.buckets[i] += n
	}
	s.low, s.high = min(s.low, more.low), max(s.high, more.high)
}

// maxSeries bounds the series of a metric. Further ones are added up in one with the attribute
// otel.metric.overflow.
const maxSeries = 200

// end follows each key and each value. It is in no text.
const end = "\xff"

// of returns the series with the attributes that the span has, of those named by keys.
func (c counts) of(s *runs.Span, metric string, keys ...string) *series {
	b := make([]byte, 0, 256)
	for _, key := range keys {
		if v := valueOf(s, key); len(v) > 0 {
			b = append(append(append(append(b, key...), end...), v...), end...)
		}
	}
	return c.series(metric, b)
}

func valueOf(s *runs.Span, key string) []byte {
	switch key {
	case semconv.TokenModality: // which no stream states
		return []byte("unknown")
	case semconv.CostSource:
		return []byte("provider")
	case semconv.Outcome:
		return []byte(runs.Outcome(s.ErrorType()))
	}
	return s.Bytes(key)
}

// overflow are the attributes of what is beyond maxSeries.
const overflow = "otel.metric.overflow" + end + "true" + end

// series returns the series with encoded attributes.
func (c counts) series(metric string, attributes []byte) *series {
	s := c[metric][string(attributes)]
	if s == nil && len(c[metric]) >= maxSeries-1 {
		attributes = []byte(overflow)
		s = c[metric][overflow]
	}
	if s == nil {
		if c[metric] == nil {
			c[metric] = map[string]*series{}
		}
		s = newSeries(decode(string(attributes)), definitions[metric].bounds)
		c[metric][string(attributes)] = s
	}
	return s
}

func decode(attributes string) attribute.Set {
	if attributes == overflow {
		return attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
	}
	var list []attribute.KeyValue
	for parts := strings.Split(attributes, end); len(parts) > 1; parts = parts[2:] {
		list = append(list, attribute.String(parts[0], parts[1]))
	}
	return attribute.NewSet(list...)
}

func (c counts) addAll(more counts) {
	for metric, all := range more {
		for attributes, s := range all {
			c.series(metric, []byte(attributes)).addAll(s)
		}
	}
}

// data returns the series as the SDK has them, counted since start.
func (c counts) data(temporality metricdata.Temporality, start time.Time) (list []metricdata.Metrics) {
	now := time.Now()
	for name, all := range c {
		d := definitions[name]
		m := metricdata.Metrics{Name: name, Unit: d.unit, Description: d.description}
		switch {
		case d.bounds != nil:
			h := metricdata.Histogram[float64]{Temporality: temporality}
			for _, s := range all {
				h.DataPoints = append(h.DataPoints, metricdata.HistogramDataPoint[float64]{
					Attributes: s.attributes, StartTime: start, Time: now, Count: s.count, Bounds: s.bounds, BucketCounts: slices.Clone(s.buckets),
					Min: metricdata.NewExtrema(s.low), Max: metricdata.NewExtrema(s.high), Sum: s.sum,
				})
			}
			m.Data = h
		case name == semconv.MetricIdle:
			m.Data = metricdata.Gauge[float64]{DataPoints: points[float64](all, start, now)}
		case name == semconv.MetricCost:
			m.Data = metricdata.Sum[float64]{DataPoints: points[float64](all, start, now), Temporality: temporality, IsMonotonic: true}
		case name == semconv.MetricActiveRuns, name == semconv.MetricActiveTools: // which also fall
			m.Data = metricdata.Sum[int64]{DataPoints: points[int64](all, start, now), Temporality: metricdata.CumulativeTemporality}
		default:
			m.Data = metricdata.Sum[int64]{DataPoints: points[int64](all, start, now), Temporality: temporality, IsMonotonic: true}
		}
		list = append(list, m)
	}
	return list
}

func points[N int64 | float64](of map[string]*series, start, now time.Time) (list []metricdata.DataPoint[N]) {
	for _, s := range of {
		list = append(list, metricdata.DataPoint[N]{Attributes: s.attributes, StartTime: start, Time: now, Value: N(s.sum)})
	}
	return list
}
