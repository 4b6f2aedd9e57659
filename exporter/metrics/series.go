package metrics

import (
	"math"
	"slices"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

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
// and counts more than the sum. OpenTelemetry's SDK would look up the attributes for each
// measurement, of which there is one for each delta.
type series struct {
	attributes []*commonpb.KeyValue
	bounds     []float64

	sum       float64
	count     uint64
	buckets   []uint64
	low, high float64
}

func newSeries(attributes []*commonpb.KeyValue, bounds []float64) *series {
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

func decode(attributes string) (list []*commonpb.KeyValue) {
	if attributes == overflow {
		return []*commonpb.KeyValue{{Key: "otel.metric.overflow", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}}}
	}
	for parts := strings.Split(attributes, end); len(parts) > 1; parts = parts[2:] {
		list = append(list, attribute(parts[0], parts[1]))
	}
	return list
}

func attribute(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func (c counts) addAll(more counts) {
	for metric, all := range more {
		for attributes, s := range all {
			c.series(metric, []byte(attributes)).addAll(s)
		}
	}
}

// metrics returns the series as metrics, counted since start.
func (c counts) metrics(deltas bool, start time.Time) (list []*metricspb.Metric) {
	from, now := uint64(start.UnixNano()), uint64(time.Now().UnixNano())
	for name, all := range c {
		d := definitions[name]
		falls := name == semconv.MetricActiveRuns || name == semconv.MetricActiveTools
		temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
		if deltas && !falls {
			temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
		}
		var histogram []*metricspb.HistogramDataPoint
		var numbers []*metricspb.NumberDataPoint
		for _, s := range all {
			if d.bounds != nil {
				histogram = append(histogram, &metricspb.HistogramDataPoint{
					Attributes: s.attributes, StartTimeUnixNano: from, TimeUnixNano: now,
					Count: s.count, Sum: &s.sum, BucketCounts: s.buckets, ExplicitBounds: s.bounds, Min: &s.low, Max: &s.high,
				})
				continue
			}
			point := &metricspb.NumberDataPoint{Attributes: s.attributes, StartTimeUnixNano: from, TimeUnixNano: now}
			if point.Value = (&metricspb.NumberDataPoint_AsInt{AsInt: int64(s.sum)}); name == semconv.MetricCost || name == semconv.MetricIdle {
				point.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: s.sum}
			}
			numbers = append(numbers, point)
		}
		m := &metricspb.Metric{Name: name, Unit: d.unit, Description: d.description}
		switch {
		case d.bounds != nil:
			m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{DataPoints: histogram, AggregationTemporality: temporality}}
		case name == semconv.MetricIdle:
			m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: numbers}}
		default:
			m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: numbers, AggregationTemporality: temporality, IsMonotonic: !falls}}
		}
		list = append(list, m)
	}
	return list
}
