package metrics

import (
	"math"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// merge returns later metrics with the deltas of earlier ones added, as one delta
// each: however long a receiver is down, the deltas take no more memory than one request.
// It changes and returns later, and may keep parts of earlier.
func merge(earlier, later *metricdata.ResourceMetrics) *metricdata.ResourceMetrics {
	if earlier == nil {
		return later
	}
	for _, scope := range earlier.ScopeMetrics {
		i := slices.IndexFunc(later.ScopeMetrics, func(s metricdata.ScopeMetrics) bool { return s.Scope == scope.Scope })
		if i < 0 {
			later.ScopeMetrics = append(later.ScopeMetrics, metricdata.ScopeMetrics{Scope: scope.Scope})
			i = len(later.ScopeMetrics) - 1
		}
		mergeScope(scope.Metrics, &later.ScopeMetrics[i])
	}
	return later
}

func mergeScope(earlier []metricdata.Metrics, later *metricdata.ScopeMetrics) {
	for _, m := range earlier {
		if n, delta := pointsOf(m.Data); n == 0 || !delta {
			continue // later ones repeat it
		}
		i := slices.IndexFunc(later.Metrics, func(l metricdata.Metrics) bool { return l.Name == m.Name })
		if i < 0 {
			later.Metrics = append(later.Metrics, m)
			continue
		}
		later.Metrics[i].Data = mergeData(m.Data, later.Metrics[i].Data)
	}
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

// mergePoints merges the points of each series with add, and appends those of other
// series.
func mergePoints[P any](earlier, later []P, series func(P) attribute.Distinct, add func(earlier P, later *P)) []P {
	place := make(map[attribute.Distinct]int, len(later))
	for i, p := range later {
		place[series(p)] = i
	}
	for _, p := range earlier {
		if i, ok := place[series(p)]; ok {
			add(p, &later[i])
		} else {
			later = append(later, p)
		}
	}
	return later
}

func mergeNumbers[N int64 | float64](earlier, later []metricdata.DataPoint[N]) []metricdata.DataPoint[N] {
	return mergePoints(earlier, later,
		func(p metricdata.DataPoint[N]) attribute.Distinct { return p.Attributes.Equivalent() },
		func(p metricdata.DataPoint[N], into *metricdata.DataPoint[N]) {
			into.StartTime = p.StartTime
			into.Value += p.Value
			if len(into.Exemplars) == 0 {
				into.Exemplars = p.Exemplars
			}
		})
}

func mergeHistograms(earlier, later []metricdata.HistogramDataPoint[float64]) []metricdata.HistogramDataPoint[float64] {
	return mergePoints(earlier, later,
		func(p metricdata.HistogramDataPoint[float64]) attribute.Distinct { return p.Attributes.Equivalent() },
		func(p metricdata.HistogramDataPoint[float64], into *metricdata.HistogramDataPoint[float64]) {
			into.StartTime = p.StartTime
			into.Count += p.Count
			into.Sum += p.Sum
			into.BucketCounts = slices.Clone(into.BucketCounts)
			for i, n := range p.BucketCounts { // an instrument's boundaries never change
				into.BucketCounts[i] += n
			}
			into.Min = extreme(p.Min, into.Min, math.Min)
			into.Max = extreme(p.Max, into.Max, math.Max)
			if len(into.Exemplars) == 0 {
				into.Exemplars = p.Exemplars
			}
		})
}

// extreme returns the minimum or maximum of two, each of which may be undefined.
func extreme(a, b metricdata.Extrema[float64], of func(a, b float64) float64) metricdata.Extrema[float64] {
	x, hasX := a.Value()
	y, hasY := b.Value()
	switch {
	case !hasX:
		return b
	case !hasY:
		return a
	}
	return metricdata.NewExtrema(of(x, y))
}

// withoutDeltas returns the metrics that may be repeated.
func withoutDeltas(data *metricdata.ResourceMetrics) *metricdata.ResourceMetrics {
	return only(data, func(m metricdata.Metrics) bool {
		_, delta := pointsOf(m.Data)
		return !delta
	})
}

// isTotal reports whether a metric adds up what has happened.
func isTotal(m metricdata.Metrics) bool {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		return data.IsMonotonic
	case metricdata.Gauge[float64]:
		return false
	}
	return true
}

// only returns the metrics for which keep returns true.
func only(data *metricdata.ResourceMetrics, keep func(metricdata.Metrics) bool) *metricdata.ResourceMetrics {
	rest := *data
	rest.ScopeMetrics = nil
	for _, scope := range data.ScopeMetrics {
		scope.Metrics = slices.DeleteFunc(slices.Clone(scope.Metrics), func(m metricdata.Metrics) bool { return !keep(m) })
		rest.ScopeMetrics = append(rest.ScopeMetrics, scope)
	}
	return &rest
}
