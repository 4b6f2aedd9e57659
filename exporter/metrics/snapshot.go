package metrics

import (
	"maps"
	"time"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
)

// Snapshot returns an ExportMetricsServiceRequest with the totals that a receiver would miss if
// the process were killed now, or nil if there are none. open are the spans that have not
// ended, as they would end now. Deltas are missing from it once they may be sent before the
// next snapshot replaces this one.
func (r *Recorder) Snapshot(open [][]byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deltas && time.Now().After(r.deltasFrom) {
		return nil
	}
	return r.totals(open)
}

// totals returns a request with all that was counted, and what is open. It returns nil if a
// part of it was delivered as deltas. It is called with r.mu held.
func (r *Recorder) totals(open [][]byte) []byte {
	if r.deltas && r.delivered.Load() {
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
	return r.encode(all.counts.metrics(r.deltas, r.started))
}

// encode returns a request with metrics, nil without any.
func (r *Recorder) encode(list []*metricspb.Metric) []byte {
	if len(list) == 0 {
		return nil
	}
	b, _ := proto.Marshal(&colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{ // all text is UTF-8
		Resource: r.resource, ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: r.scope, Metrics: list}},
	}}})
	return b
}
