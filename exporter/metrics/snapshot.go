package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
)

// Snapshot returns an ExportMetricsServiceRequest with the totals that a receiver would miss if
// the process were killed now, or nil if there are none. open are the spans that have not
// ended, as they would end now. Deltas are missing from it once they may be sent before the
// next snapshot replaces this one.
//
// The SDK cannot take back what it has counted. What is open is therefore counted by another
// Recorder, as another instance of the service.
func (r *Recorder) Snapshot(open [][]byte) []byte {
	if r.sendsDeltas() && time.Now().After(r.deltasFrom) {
		return nil
	}
	return r.totals(open)
}

func (r *Recorder) sendsDeltas() bool {
	return r.sent.Temporality(sdk.InstrumentKindHistogram) == metricdata.DeltaTemporality
}

// totals returns a request with all that was counted, and what is open. It returns nil if a
// part of it was delivered as deltas.
func (r *Recorder) totals(open [][]byte) []byte {
	temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if r.sendsDeltas() {
		if r.sent.delivered.Load() {
			return nil
		}
		temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	request := new(colmetricpb.ExportMetricsServiceRequest)
	add := func(of *Recorder) {
		if encoded := of.encode(temporality); encoded != nil {
			request.ResourceMetrics = append(request.ResourceMetrics, encoded)
		}
	}
	add(r)
	if len(open) > 0 {
		killed := newRecorder("", otherInstance(r.from), nil, 0)
		var s runs.Span
		for _, wire := range open {
			_ = s.Read(wire) // it is valid
			killed.Count(&s)
		}
		add(killed)
	}
	if len(request.ResourceMetrics) == 0 {
		return nil
	}
	b, _ := proto.Marshal(request) // all text is UTF-8
	return b
}

// otherInstance returns the resource of another instance.
func otherInstance(of *resource.Resource) *resource.Resource {
	instance, _ := of.Set().Value("service.instance.id")
	other, _ := resource.Merge(of, resource.NewSchemaless(attribute.String("service.instance.id", instance.AsString()+"-killed"))) // none has a schema
	return other
}

// encode returns the totals of a Recorder, without those of what is open. It returns nil if there
// are none.
func (r *Recorder) encode(temporality metricspb.AggregationTemporality) *metricspb.ResourceMetrics {
	var data metricdata.ResourceMetrics
	_ = r.reader.Collect(context.Background(), &data) // our only callback returns no errors
	var list []*metricspb.Metric
	for _, of := range data.ScopeMetrics {
		for _, m := range of.Metrics {
			if encoded := encode(m, temporality); encoded != nil {
				list = append(list, encoded)
			}
		}
	}
	if list == nil {
		return nil
	}
	in := &metricspb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: scope, Version: data.ScopeMetrics[0].Scope.Version}, Metrics: list}
	return &metricspb.ResourceMetrics{Resource: &resourcepb.Resource{Attributes: keyValues(*data.Resource.Set())}, ScopeMetrics: []*metricspb.ScopeMetrics{in}}
}

func encode(m metricdata.Metrics, temporality metricspb.AggregationTemporality) *metricspb.Metric {
	encoded := &metricspb.Metric{Name: m.Name, Unit: m.Unit, Description: m.Description}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if !data.IsMonotonic { // of what is open
			return nil
		}
		encoded.Data = sumOf(data, temporality, func(p *metricspb.NumberDataPoint, v int64) { p.Value = &metricspb.NumberDataPoint_AsInt{AsInt: v} })
	case metricdata.Sum[float64]:
		encoded.Data = sumOf(data, temporality, func(p *metricspb.NumberDataPoint, v float64) {
			p.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: v}
		})
	case metricdata.Histogram[float64]:
		h := &metricspb.Histogram{AggregationTemporality: temporality}
		for _, p := range data.DataPoints {
			point := &metricspb.HistogramDataPoint{
				Attributes: keyValues(p.Attributes), StartTimeUnixNano: uint64(p.StartTime.UnixNano()), TimeUnixNano: uint64(p.Time.UnixNano()),
				Count: p.Count, Sum: &p.Sum, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
			}
			if low, ok := p.Min.Value(); ok {
				point.Min = &low
			}
			if high, ok := p.Max.Value(); ok {
				point.Max = &high
			}
			h.DataPoints = append(h.DataPoints, point)
		}
		encoded.Data = &metricspb.Metric_Histogram{Histogram: h}
	default:
		return nil
	}
	return encoded
}

func sumOf[N int64 | float64](data metricdata.Sum[N], temporality metricspb.AggregationTemporality, set func(*metricspb.NumberDataPoint, N)) *metricspb.Metric_Sum {
	sum := &metricspb.Sum{IsMonotonic: true, AggregationTemporality: temporality}
	for _, p := range data.DataPoints {
		point := &metricspb.NumberDataPoint{
			Attributes: keyValues(p.Attributes), StartTimeUnixNano: uint64(p.StartTime.UnixNano()), TimeUnixNano: uint64(p.Time.UnixNano()),
		}
		set(point, p.Value)
		sum.DataPoints = append(sum.DataPoints, point)
	}
	return &metricspb.Metric_Sum{Sum: sum}
}

func keyValues(set attribute.Set) (list []*commonpb.KeyValue) {
	for _, kv := range set.ToSlice() {
		list = append(list, &commonpb.KeyValue{Key: string(kv.Key), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: kv.Value.AsString()}}})
	}
	return list
}
