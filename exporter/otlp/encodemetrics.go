package otlp

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of opentelemetry.proto.metrics.v1, by message.
const (
	fieldResourceMetrics = 1 // ExportMetricsServiceRequest

	fieldResource     = 1 // ResourceMetrics
	fieldScopeMetrics = 2

	fieldAttributes = 1 // Resource

	fieldScope   = 1 // ScopeMetrics
	fieldMetrics = 2

	fieldScopeName    = 1 // InstrumentationScope
	fieldScopeVersion = 2

	fieldName        = 1 // Metric
	fieldDescription = 2
	fieldUnit        = 3
	fieldGauge       = 5
	fieldSum         = 7
	fieldHistogram   = 9
	fieldExponential = 10

	fieldPoints      = 1 // Gauge, Sum, Histogram, ExponentialHistogram
	fieldTemporality = 2
	fieldMonotonic   = 3

	fieldStart = 2 // the data points of all of them
	fieldTime  = 3

	fieldPointDouble     = 4 // NumberDataPoint
	fieldPointExemplars  = 5
	fieldPointInt        = 6
	fieldPointAttributes = 7

	fieldCount               = 4 // HistogramDataPoint
	fieldPointSum            = 5
	fieldBuckets             = 6
	fieldBounds              = 7
	fieldHistogramExemplars  = 8
	fieldHistogramAttributes = 9
	fieldMin                 = 11
	fieldMax                 = 12

	fieldScale                = 6 // ExponentialHistogramDataPoint
	fieldZeroCount            = 7
	fieldPositive             = 8
	fieldNegative             = 9
	fieldExponentialExemplars = 11
	fieldExponentialMin       = 12
	fieldExponentialMax       = 13
	fieldZeroThreshold        = 14

	fieldOffset = 1 // Buckets
	fieldCounts = 2

	fieldExemplarTime    = 2 // Exemplar
	fieldExemplarDouble  = 3
	fieldExemplarSpanID  = 4
	fieldExemplarTraceID = 5
	fieldExemplarInt     = 6

	fieldKey   = 1 // KeyValue
	fieldValue = 2

	fieldString = 1 // AnyValue
	fieldBool   = 2
	fieldInt    = 3
	fieldDouble = 4
)

// encodeMetrics returns an ExportMetricsServiceRequest. A short session would spend
// more time on preparing protobuf's types for metrics than on all of its metrics.
func encodeMetrics(data *metricdata.ResourceMetrics) []byte {
	return message(nil, fieldResourceMetrics, func(b []byte) []byte {
		b = message(b, fieldResource, func(b []byte) []byte { return appendAttributes(b, fieldAttributes, data.Resource.Set()) })
		for _, scope := range data.ScopeMetrics {
			b = message(b, fieldScopeMetrics, func(b []byte) []byte {
				b = message(b, fieldScope, func(b []byte) []byte {
					return text(text(b, fieldScopeName, scope.Scope.Name), fieldScopeVersion, scope.Scope.Version)
				})
				for _, m := range scope.Metrics {
					b = message(b, fieldMetrics, func(b []byte) []byte { return appendMetric(b, m) })
				}
				return b
			})
		}
		return b
	})
}

func appendMetric(b []byte, m metricdata.Metrics) []byte {
	b = text(text(text(b, fieldName, m.Name), fieldDescription, m.Description), fieldUnit, m.Unit)
	switch d := m.Data.(type) {
	case metricdata.Gauge[int64]:
		return message(b, fieldGauge, func(b []byte) []byte { return appendNumbers(b, d.DataPoints) })
	case metricdata.Gauge[float64]:
		return message(b, fieldGauge, func(b []byte) []byte { return appendNumbers(b, d.DataPoints) })
	case metricdata.Sum[int64]:
		return message(b, fieldSum, func(b []byte) []byte {
			return appendSum(appendNumbers(b, d.DataPoints), d.Temporality, d.IsMonotonic)
		})
	case metricdata.Sum[float64]:
		return message(b, fieldSum, func(b []byte) []byte {
			return appendSum(appendNumbers(b, d.DataPoints), d.Temporality, d.IsMonotonic)
		})
	case metricdata.Histogram[int64]:
		return message(b, fieldHistogram, func(b []byte) []byte {
			return appendTemporality(appendHistograms(b, d.DataPoints), d.Temporality)
		})
	case metricdata.Histogram[float64]:
		return message(b, fieldHistogram, func(b []byte) []byte {
			return appendTemporality(appendHistograms(b, d.DataPoints), d.Temporality)
		})
	case metricdata.ExponentialHistogram[int64]:
		return message(b, fieldExponential, func(b []byte) []byte {
			return appendTemporality(appendExponentials(b, d.DataPoints), d.Temporality)
		})
	case metricdata.ExponentialHistogram[float64]:
		return message(b, fieldExponential, func(b []byte) []byte {
			return appendTemporality(appendExponentials(b, d.DataPoints), d.Temporality)
		})
	}
	return b
}

func appendSum(b []byte, t metricdata.Temporality, monotonic bool) []byte {
	if b = appendTemporality(b, t); monotonic {
		b = varint(b, fieldMonotonic, 1)
	}
	return b
}

func appendTemporality(b []byte, t metricdata.Temporality) []byte {
	const delta, cumulative = 1, 2
	if t == metricdata.DeltaTemporality {
		return varint(b, fieldTemporality, delta)
	}
	return varint(b, fieldTemporality, cumulative)
}

func appendNumbers[N int64 | float64](b []byte, points []metricdata.DataPoint[N]) []byte {
	for _, p := range points {
		b = message(b, fieldPoints, func(b []byte) []byte {
			b = appendTimes(b, p.StartTime, p.Time)
			b = number(b, fieldPointInt, fieldPointDouble, p.Value)
			b = appendExemplars(b, fieldPointExemplars, p.Exemplars)
			return appendAttributes(b, fieldPointAttributes, &p.Attributes)
		})
	}
	return b
}

func appendHistograms[N int64 | float64](b []byte, points []metricdata.HistogramDataPoint[N]) []byte {
	for _, p := range points {
		b = message(b, fieldPoints, func(b []byte) []byte {
			b = appendTimes(b, p.StartTime, p.Time)
			b = fixed(b, fieldCount, p.Count)
			b = double(b, fieldPointSum, float64(p.Sum))
			b = packed(b, fieldBuckets, p.BucketCounts, func(n uint64) uint64 { return n })
			b = packed(b, fieldBounds, p.Bounds, math.Float64bits)
			b = extremum(extremum(b, fieldMin, p.Min), fieldMax, p.Max)
			b = appendExemplars(b, fieldHistogramExemplars, p.Exemplars)
			return appendAttributes(b, fieldHistogramAttributes, &p.Attributes)
		})
	}
	return b
}

func appendExponentials[N int64 | float64](b []byte, points []metricdata.ExponentialHistogramDataPoint[N]) []byte {
	for _, p := range points {
		b = message(b, fieldPoints, func(b []byte) []byte {
			b = appendTimes(appendAttributes(b, fieldAttributes, &p.Attributes), p.StartTime, p.Time)
			b = fixed(b, fieldCount, p.Count)
			b = double(b, fieldPointSum, float64(p.Sum))
			b = varint(b, fieldScale, protowire.EncodeZigZag(int64(p.Scale)))
			b = fixed(b, fieldZeroCount, p.ZeroCount)
			b = message(b, fieldPositive, func(b []byte) []byte { return appendBuckets(b, p.PositiveBucket) })
			b = message(b, fieldNegative, func(b []byte) []byte { return appendBuckets(b, p.NegativeBucket) })
			b = appendExemplars(b, fieldExponentialExemplars, p.Exemplars)
			b = extremum(extremum(b, fieldExponentialMin, p.Min), fieldExponentialMax, p.Max)
			return double(b, fieldZeroThreshold, p.ZeroThreshold)
		})
	}
	return b
}

func appendBuckets(b []byte, of metricdata.ExponentialBucket) []byte {
	b = varint(b, fieldOffset, protowire.EncodeZigZag(int64(of.Offset)))
	var counts []byte
	for _, n := range of.Counts {
		counts = protowire.AppendVarint(counts, n)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, fieldCounts, protowire.BytesType), counts)
}

func appendExemplars[N int64 | float64](b []byte, field protowire.Number, exemplars []metricdata.Exemplar[N]) []byte {
	for _, e := range exemplars { // no attribute of spantee's is filtered
		b = message(b, field, func(b []byte) []byte {
			b = fixed(b, fieldExemplarTime, nanoseconds(e.Time))
			b = number(b, fieldExemplarInt, fieldExemplarDouble, e.Value)
			b = text(b, fieldExemplarSpanID, string(e.SpanID))
			return text(b, fieldExemplarTraceID, string(e.TraceID))
		})
	}
	return b
}

func appendTimes(b []byte, start, end time.Time) []byte {
	return fixed(fixed(b, fieldStart, nanoseconds(start)), fieldTime, nanoseconds(end))
}

func nanoseconds(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func appendAttributes(b []byte, field protowire.Number, set *attribute.Set) []byte {
	for iter := set.Iter(); iter.Next(); {
		kv := iter.Attribute()
		b = message(b, field, func(b []byte) []byte {
			return message(text(b, fieldKey, valid(string(kv.Key))), fieldValue, func(b []byte) []byte { return appendValue(b, kv.Value) })
		})
	}
	return b
}

// appendValue appends an AnyValue, which is there even if it is empty.
func appendValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return protowire.AppendVarint(protowire.AppendTag(b, fieldBool, protowire.VarintType), protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return protowire.AppendVarint(protowire.AppendTag(b, fieldInt, protowire.VarintType), uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return double(b, fieldDouble, v.AsFloat64())
	}
	return protowire.AppendString(protowire.AppendTag(b, fieldString, protowire.BytesType), valid(v.String()))
}

// message appends a message that fill appends the fields of.
func message(b []byte, field protowire.Number, fill func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	start := len(b)
	b = fill(append(b, 0)) // most messages are so short that one byte holds their length
	size := len(b) - start - 1
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[start+1+more:], b[start+1:start+1+size])
	}
	protowire.AppendVarint(b[:start], uint64(size))
	return b
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// valid returns UTF-8: for one string that is not, a receiver rejects the whole
// request.
func valid(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

func varint(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func fixed(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), n)
}

// double appends a number that is there even if it is zero.
func double(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

// number appends the value of a point or exemplar, which is there even if it is zero.
func number[N int64 | float64](b []byte, asInt, asDouble protowire.Number, v N) []byte {
	if i, ok := any(v).(int64); ok {
		return protowire.AppendFixed64(protowire.AppendTag(b, asInt, protowire.Fixed64Type), uint64(i))
	}
	return double(b, asDouble, float64(v))
}

func extremum[N int64 | float64](b []byte, field protowire.Number, of metricdata.Extrema[N]) []byte {
	if v, ok := of.Value(); ok {
		return double(b, field, float64(v))
	}
	return b
}

func packed[N uint64 | float64](b []byte, field protowire.Number, list []N, bits func(N) uint64) []byte {
	if len(list) == 0 {
		return b
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(8*len(list)))
	for _, n := range list {
		b = binary.LittleEndian.AppendUint64(b, bits(n))
	}
	return b
}
