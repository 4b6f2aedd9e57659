package spool

import (
	"cmp"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A MetricsRequest is an ExportMetricsServiceRequest from a spool.
type MetricsRequest struct {
	Body   []byte // in wire format
	Points int    // data points
	Delta  bool   // some would count twice if they arrived twice
}

// Field numbers of opentelemetry.proto.metrics.v1. Its generated types would have to be
// initialized at every start.
const (
	fieldResourceMetrics = 1
	fieldScopeMetrics    = 2
	fieldMetrics         = 2

	fieldGauge       = 5
	fieldSum         = 7
	fieldHistogram   = 9
	fieldExponential = 10

	fieldPoints      = 1 // in all four of them
	fieldTemporality = 2 // not in a gauge

	temporalityDelta = 1
)

// readMetrics reads a request of metrics. One without data points is not from this
// package.
func readMetrics(b []byte) (MetricsRequest, error) {
	m := MetricsRequest{Body: b}
	for _, data := range []protowire.Number{fieldGauge, fieldSum, fieldHistogram, fieldExponential} {
		path := []protowire.Number{fieldResourceMetrics, fieldScopeMetrics, fieldMetrics, data, fieldPoints}
		if eachAt(path, b, func(field.Value) { m.Points++ }) != nil {
			return MetricsRequest{}, errCorrupt
		}
		path[len(path)-1] = fieldTemporality
		_ = eachAt(path, b, func(v field.Value) { m.Delta = m.Delta || v.Number == temporalityDelta })
	}
	if m.Points == 0 {
		return MetricsRequest{}, errCorrupt
	}
	return m, nil
}

// eachAt calls do with every field at the end of a path through nested messages.
func eachAt(path []protowire.Number, message []byte, do func(field.Value)) error {
	var inner error
	err := field.Each(message, func(number protowire.Number, v field.Value) {
		switch {
		case number != path[0] || inner != nil:
		case len(path) == 1:
			do(v)
		default:
			inner = eachAt(path[1:], v.Bytes, do)
		}
	})
	return cmp.Or(err, inner)
}
