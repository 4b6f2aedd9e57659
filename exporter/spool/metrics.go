package spool

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A MetricsRequest is an ExportMetricsServiceRequest from a spool.
type MetricsRequest struct {
	Body   []byte // in wire format
	Points int    // data points
	Delta  bool   // some would count twice if they arrived twice
}

const temporalityDelta = 1

// readMetrics reads a request of metrics. One without data points is not from this
// package.
func readMetrics(b []byte) (MetricsRequest, error) {
	m := MetricsRequest{Body: b}
	var malformed error
	for _, data := range []protowire.Number{field.Gauge, field.Sum, field.Histogram, field.Exponential} {
		path := []protowire.Number{field.ResourceMetrics, field.ScopeMetrics, field.Metrics, data, field.Points}
		eachAt(path, b, &malformed, func(field.Content) { m.Points++ })
		path[len(path)-1] = field.Temporality
		eachAt(path, b, nil, func(v field.Content) { m.Delta = m.Delta || v.Number == temporalityDelta })
	}
	if m.Points == 0 || malformed != nil {
		return MetricsRequest{}, errCorrupt
	}
	return m, nil
}

// eachAt calls do with every field at the end of a path through nested messages.
func eachAt(path []protowire.Number, message []byte, malformed *error, do func(field.Content)) {
	for number, v := range field.All(message, malformed) {
		switch {
		case number != path[0]:
		case len(path) == 1:
			do(v)
		default:
			eachAt(path[1:], v.Bytes, malformed, do)
		}
	}
}
