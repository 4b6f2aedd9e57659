package metrics

import (
	"math"
	"slices"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// merge returns later metrics with the deltas of earlier ones added, as one delta
// each: however long a receiver is down, the deltas take no more memory than one request.
// It changes and returns later, and may keep parts of earlier.
func merge(earlier, later []metricdata.Metrics) []metricdata.Metrics {
	for _, m := range earlier {
		if n, delta := pointsOf(m); n == 0 || !delta {
			continue // later ones repeat it
		}
		i := slices.IndexFunc(later, func(l metricdata.Metrics) bool { return l.Name == m.Name })
		if i < 0 {
			later = append(later, m)
			continue
		}
		later[i].Data = mergeData(m.Data, later[i].Data)
	}
	return later
}

// mergeData adds up the deltas of an instrument, whose data are always of one type.
func mergeData(earlier, later metricdata.Aggregation) metricdata.Aggregation {
	switch l := later.(type) {
	case metricdata.Sum[int64]:
		l.DataPoints = mergeNumbers(earlier.(metricdata.Sum[int64]).DataPoints, l.DataPoints)
		return l
	case metricdata.Sum[float64]:
		l.DataPoints = mergeNumbers(earlier.(metricdata.Sum[float64]).DataPoints, l.DataPoints)
		return l
	case metricdata.Histogram[float64]:
		l.DataPoints = mergeHistograms(earlier.(metricdata.Histogram[float64]).DataPoints, l.DataPoints)
		return l
	// Exponential histograms differ in scale. Several points of a series may be in
	// one request.
	case metricdata.ExponentialHistogram[float64]:
		l.DataPoints = slices.Concat(earlier.(metricdata.ExponentialHistogram[float64]).DataPoints, l.DataPoints)
		return l
	}
	return later
}

func mergeNumbers[N int64 | float64](earlier, later []metricdata.DataPoint[N]) []metricdata.DataPoint[N] {
	for _, p := range earlier {
		i := slices.IndexFunc(later, func(l metricdata.DataPoint[N]) bool { return l.Attributes.Equals(&p.Attributes) })
		if i < 0 {
			later = append(later, p)
			continue
		}
		later[i].StartTime = p.StartTime
		later[i].Value += p.Value
	}
	return later
}

func mergeHistograms(earlier, later []metricdata.HistogramDataPoint[float64]) []metricdata.HistogramDataPoint[float64] {
	for _, p := range earlier {
		i := slices.IndexFunc(later, func(l metricdata.HistogramDataPoint[float64]) bool { return l.Attributes.Equals(&p.Attributes) })
		if i < 0 {
			later = append(later, p)
			continue
		}
		into := &later[i]
		into.StartTime = p.StartTime
		into.Count += p.Count
		into.Sum += p.Sum
		for i, n := range p.BucketCounts { // an instrument's boundaries never change
			into.BucketCounts[i] += n
		}
		into.Min = extreme(p.Min, into.Min, math.Min)
		into.Max = extreme(p.Max, into.Max, math.Max)
	}
	return later
}

// extreme returns the minimum or maximum of two values. The SDK defines both.
func extreme(a, b metricdata.Extrema[float64], of func(a, b float64) float64) metricdata.Extrema[float64] {
	x, _ := a.Value()
	y, _ := b.Value()
	return metricdata.NewExtrema(of(x, y))
}

// count returns how many data points there are of either kind.
func count(list []metricdata.Metrics) (cumulative, deltas int) {
	for _, m := range list {
		if n, delta := pointsOf(m); delta {
			deltas += n
		} else {
			cumulative += n
		}
	}
	return cumulative, deltas
}

// pointsOf returns how many data points a metric has, and whether they are deltas.
func pointsOf(m metricdata.Metrics) (n int, delta bool) {
	const d = metricdata.DeltaTemporality
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		return len(data.DataPoints), data.Temporality == d
	case metricdata.Sum[float64]:
		return len(data.DataPoints), data.Temporality == d
	case metricdata.Histogram[float64]:
		return len(data.DataPoints), data.Temporality == d
	case metricdata.ExponentialHistogram[float64]:
		return len(data.DataPoints), data.Temporality == d
	case metricdata.Gauge[float64]:
		return len(data.DataPoints), false
	}
	return 0, false
}

// withoutDeltas returns the metrics that may be repeated.
func withoutDeltas(list []metricdata.Metrics) []metricdata.Metrics {
	return slices.DeleteFunc(slices.Clone(list), func(m metricdata.Metrics) bool {
		_, delta := pointsOf(m)
		return delta
	})
}

// totals returns the metrics that add up what has happened, without those of what is open.
func totals(list []metricdata.Metrics) []metricdata.Metrics {
	return slices.DeleteFunc(slices.Clone(list), func(m metricdata.Metrics) bool {
		sum, isSum := m.Data.(metricdata.Sum[int64])
		_, isGauge := m.Data.(metricdata.Gauge[float64])
		return isSum && !sum.IsMonotonic || isGauge
	})
}
