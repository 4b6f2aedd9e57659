package spool

import (
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// A MetricsRequest is an ExportMetricsServiceRequest from a spool.
type MetricsRequest struct {
	Body   []byte // in wire format
	Points int    // data points
	Delta  bool   // some would count twice if they arrived twice
}

// readMetrics reads a request of metrics. One without data points is not from this
// package.
func readMetrics(b []byte) (MetricsRequest, error) {
	request := new(metricpb.MetricsData) // encoded as the request is
	if proto.Unmarshal(b, request) != nil {
		return MetricsRequest{}, errCorrupt
	}
	m := MetricsRequest{Body: b}
	for _, resource := range request.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				points, temporality := pointsOf(metric)
				m.Points += points
				m.Delta = m.Delta || temporality == metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
			}
		}
	}
	if m.Points == 0 {
		return MetricsRequest{}, errCorrupt
	}
	return m, nil
}

// pointsOf returns how many data points a metric has, and their temporality, if
// metrics of its type have one.
func pointsOf(m *metricpb.Metric) (int, metricpb.AggregationTemporality) {
	switch data := m.Data.(type) {
	case *metricpb.Metric_Sum:
		return len(data.Sum.GetDataPoints()), data.Sum.GetAggregationTemporality()
	case *metricpb.Metric_Histogram:
		return len(data.Histogram.GetDataPoints()), data.Histogram.GetAggregationTemporality()
	case *metricpb.Metric_ExponentialHistogram:
		return len(data.ExponentialHistogram.GetDataPoints()), data.ExponentialHistogram.GetAggregationTemporality()
	}
	return len(m.GetGauge().GetDataPoints()), metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_UNSPECIFIED
}
