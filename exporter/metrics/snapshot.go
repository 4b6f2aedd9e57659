package metrics

import (
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// Snapshot returns an ExportMetricsServiceRequest with the totals that a receiver would miss if
// the process were killed now, or nil if there are none. open are the spans that have not
// ended, as they would end now. Deltas are missing from it once they may be sent before the
// next snapshot replaces this one.
func (r *Recorder) Snapshot(open [][]byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.temporality == metricdata.DeltaTemporality && time.Now().After(r.deltasFrom) {
		return nil
	}
	return r.totals(open)
}

// totals returns a request with all that was counted, and what is open. It returns nil if a
// part of it was delivered as deltas. It is called with r.mu held.
func (r *Recorder) totals(open [][]byte) []byte {
	if r.temporality == metricdata.DeltaTemporality && r.to.delivered.Load() {
		return nil
	}
	all := newTally()
	all.gaps = maps.Clone(r.tally.gaps)
	all.counts.addAll(r.sent)
	all.counts.addAll(r.tally.counts)
	var s runs.Span
	for _, wire := range open {
		_ = s.Read(wire) // it is valid
		all.count(&s)
	}
	if len(all.counts) == 0 {
		return nil
	}
	b, _ := proto.Marshal(&colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{ // all text is UTF-8
		Resource: &resourcepb.Resource{Attributes: keyValues(*r.resource.Set())},
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope: &commonpb.InstrumentationScope{Name: r.scope.Name, Version: r.scope.Version}, Metrics: all.counts.encode(r.temporality, r.started),
		}},
	}}})
	return b
}

// encode returns counters and histograms, counted since start.
func (c counts) encode(of metricdata.Temporality, start time.Time) (list []*metricspb.Metric) {
	from, now := uint64(start.UnixNano()), uint64(time.Now().UnixNano())
	temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if of == metricdata.DeltaTemporality {
		temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	for name, all := range c {
		d := definitions[name]
		histogram := &metricspb.Histogram{AggregationTemporality: temporality}
		sum := &metricspb.Sum{AggregationTemporality: temporality, IsMonotonic: true}
		for _, s := range all {
			if d.bounds != nil {
				histogram.DataPoints = append(histogram.DataPoints, &metricspb.HistogramDataPoint{
					Attributes: keyValues(s.attributes), StartTimeUnixNano: from, TimeUnixNano: now,
					Count: s.count, Sum: &s.sum, BucketCounts: s.buckets, ExplicitBounds: s.bounds, Min: &s.low, Max: &s.high,
				})
				continue
			}
			point := &metricspb.NumberDataPoint{Attributes: keyValues(s.attributes), StartTimeUnixNano: from, TimeUnixNano: now}
			if point.Value = (&metricspb.NumberDataPoint_AsInt{AsInt: int64(s.sum)}); name == semconv.MetricCost {
				point.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: s.sum}
			}
			sum.DataPoints = append(sum.DataPoints, point)
		}
		m := &metricspb.Metric{Name: name, Unit: d.unit, Description: d.description, Data: &metricspb.Metric_Sum{Sum: sum}}
		if d.bounds != nil {
			m.Data = &metricspb.Metric_Histogram{Histogram: histogram}
		}
		list = append(list, m)
	}
	return list
}

func keyValues(set attribute.Set) (list []*commonpb.KeyValue) {
	for _, kv := range set.ToSlice() {
		value := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: kv.Value.AsString()}}
		if kv.Value.Type() == attribute.BOOL {
			value.Value = &commonpb.AnyValue_BoolValue{BoolValue: kv.Value.AsBool()}
		}
		list = append(list, &commonpb.KeyValue{Key: string(kv.Key), Value: value})
	}
	return list
}
