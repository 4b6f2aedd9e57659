package metrics

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
)

const (
	deltas     = metricdata.DeltaTemporality
	cumulative = metricdata.CumulativeTemporality
)

func series(name string) attribute.Set { return attribute.NewSet(attribute.String("s", name)) }

func at(second int64) time.Time { return time.Unix(second, 0) }

func metricsOf(data map[string]metricdata.Aggregation) (list []metricdata.Metrics) {
	for _, name := range []string{"ints", "floats", "cumulative", "times", "sizes", "exponential", "gauge"} {
		if d := data[name]; d != nil {
			list = append(list, metricdata.Metrics{Name: name, Data: d})
		}
	}
	return list
}

func assertEqual(t *testing.T, want, got []metricdata.Metrics) {
	t.Helper()
	metricdatatest.AssertEqual(t, metricdata.ScopeMetrics{Metrics: want}, metricdata.ScopeMetrics{Metrics: got})
}

func number[N int64 | float64](s string, from int64, value N) metricdata.DataPoint[N] {
	return metricdata.DataPoint[N]{Attributes: series(s), StartTime: at(from), Time: at(from + 10), Value: value}
}

func histogram[N int64 | float64](s string, from int64, buckets []uint64, sum, low, high N) metricdata.HistogramDataPoint[N] {
	p := metricdata.HistogramDataPoint[N]{
		Attributes: series(s), StartTime: at(from), Time: at(from + 10), Bounds: []float64{1, 2}, BucketCounts: buckets,
		Sum: sum, Min: metricdata.NewExtrema(low), Max: metricdata.NewExtrema(high),
	}
	for _, n := range buckets {
		p.Count += n
	}
	return p
}

// TestMerge adds up deltas of every type, and takes the later of all else.
func TestMerge(t *testing.T) {
	earlier := metricsOf(map[string]metricdata.Aggregation{
		"ints":        metricdata.Sum[int64]{Temporality: deltas, IsMonotonic: true, DataPoints: []metricdata.DataPoint[int64]{number[int64]("both", 0, 3), number[int64]("earlier", 0, 4)}},
		"floats":      metricdata.Sum[float64]{Temporality: deltas, DataPoints: []metricdata.DataPoint[float64]{number("both", 0, 0.5)}},
		"cumulative":  metricdata.Sum[int64]{Temporality: cumulative, DataPoints: []metricdata.DataPoint[int64]{number[int64]("both", 0, 7)}},
		"times":       metricdata.Histogram[float64]{Temporality: deltas, DataPoints: []metricdata.HistogramDataPoint[float64]{histogram("both", 0, []uint64{1, 0, 2}, 9, 0.5, 5)}},
		"sizes":       metricdata.Histogram[float64]{Temporality: deltas, DataPoints: []metricdata.HistogramDataPoint[float64]{histogram[float64]("earlier", 0, []uint64{1, 0, 0}, 1, 1, 1)}},
		"exponential": metricdata.ExponentialHistogram[float64]{Temporality: deltas, DataPoints: []metricdata.ExponentialHistogramDataPoint[float64]{{Attributes: series("both"), Count: 1}}},
		"gauge":       metricdata.Gauge[float64]{DataPoints: []metricdata.DataPoint[float64]{number("both", 0, 1.0)}},
	})
	later := metricsOf(map[string]metricdata.Aggregation{
		"ints":        metricdata.Sum[int64]{Temporality: deltas, IsMonotonic: true, DataPoints: []metricdata.DataPoint[int64]{number[int64]("later", 10, 5), number[int64]("both", 10, 6)}},
		"floats":      metricdata.Sum[float64]{Temporality: deltas, DataPoints: []metricdata.DataPoint[float64]{number("both", 10, 0.25)}},
		"cumulative":  metricdata.Sum[int64]{Temporality: cumulative, DataPoints: []metricdata.DataPoint[int64]{number[int64]("both", 0, 8)}},
		"times":       metricdata.Histogram[float64]{Temporality: deltas, DataPoints: []metricdata.HistogramDataPoint[float64]{histogram("both", 10, []uint64{0, 1, 1}, 4, 1.5, 2.5)}},
		"exponential": metricdata.ExponentialHistogram[float64]{Temporality: deltas, DataPoints: []metricdata.ExponentialHistogramDataPoint[float64]{{Attributes: series("both"), Count: 2}}},
	})
	sum := func(p metricdata.DataPoint[int64], from, to int64) metricdata.DataPoint[int64] {
		p.StartTime, p.Time = at(from), at(to)
		return p
	}
	whole := histogram("both", 0, []uint64{1, 1, 3}, 13, 0.5, 5)
	whole.Time = at(20)
	want := metricsOf(map[string]metricdata.Aggregation{
		"ints": metricdata.Sum[int64]{Temporality: deltas, IsMonotonic: true, DataPoints: []metricdata.DataPoint[int64]{
			number[int64]("later", 10, 5), sum(number[int64]("both", 0, 9), 0, 20), number[int64]("earlier", 0, 4),
		}},
		"floats":     metricdata.Sum[float64]{Temporality: deltas, DataPoints: []metricdata.DataPoint[float64]{{Attributes: series("both"), StartTime: at(0), Time: at(20), Value: 0.75}}},
		"cumulative": metricdata.Sum[int64]{Temporality: cumulative, DataPoints: []metricdata.DataPoint[int64]{number[int64]("both", 0, 8)}},
		"times":      metricdata.Histogram[float64]{Temporality: deltas, DataPoints: []metricdata.HistogramDataPoint[float64]{whole}},
		"sizes":      metricdata.Histogram[float64]{Temporality: deltas, DataPoints: []metricdata.HistogramDataPoint[float64]{histogram[float64]("earlier", 0, []uint64{1, 0, 0}, 1, 1, 1)}},
		"exponential": metricdata.ExponentialHistogram[float64]{Temporality: deltas, DataPoints: []metricdata.ExponentialHistogramDataPoint[float64]{
			{Attributes: series("both"), Count: 1}, {Attributes: series("both"), Count: 2},
		}},
	})
	got := merge(earlier, later)
	assertEqual(t, want, got)

	rest := withoutDeltas(got)
	assertEqual(t, metricsOf(map[string]metricdata.Aggregation{
		"cumulative": metricdata.Sum[int64]{Temporality: cumulative, DataPoints: []metricdata.DataPoint[int64]{number[int64]("both", 0, 8)}},
	}), rest)
	assertEqual(t, want, got) // unchanged
}
