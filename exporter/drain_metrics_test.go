package exporter

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

var metricsThere = spool.Destination{Protocol: "grpc", Endpoint: "http://localhost:4317", Signal: spool.Metrics}

// metricsRequest has one data point with a value, which says which request it is.
func metricsRequest(t *testing.T, value int64, temporality metricpb.AggregationTemporality) spool.Request {
	t.Helper()
	body, err := proto.Marshal(&colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricpb.ResourceMetrics{{
		ScopeMetrics: []*metricpb.ScopeMetrics{{Metrics: []*metricpb.Metric{{Name: "m", Data: &metricpb.Metric_Sum{Sum: &metricpb.Sum{
			AggregationTemporality: temporality,
			DataPoints:             []*metricpb.NumberDataPoint{{Value: &metricpb.NumberDataPoint_AsInt{AsInt: value}}},
		}}}}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return spool.Request{Body: body, Points: 1, Delta: temporality == metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA}
}

// A metricsScript answers requests of metrics, one after the other, and all further
// ones with the last answer.
type metricsScript struct {
	with     []error
	requests []int64 // their values
}

func (a *metricsScript) UploadMetrics(_ context.Context, body []byte) error {
	request := new(colmetricpb.ExportMetricsServiceRequest)
	if err := proto.Unmarshal(body, request); err != nil {
		return err
	}
	a.requests = append(a.requests, request.ResourceMetrics[0].ScopeMetrics[0].Metrics[0].GetSum().DataPoints[0].GetAsInt())
	err := a.with[0]
	a.with = a.with[min(1, len(a.with)-1):]
	if err != nil && err.Error() == "panic" {
		panic("in a client")
	}
	return err
}

// TestMetricsBacklog decides about spooled metrics: cumulative ones may be sent again,
// deltas only if they were certainly not taken.
func TestMetricsBacklog(t *testing.T) {
	fails := func(v Verdict, refused bool) error {
		return &UploadError{Verdict: v, Err: errors.New("no"), Refused: refused}
	}
	for _, tc := range []struct {
		name               string
		answer             error
		cumulative, deltas Fates // of the first request
		waits, deltasWait  int   // of two
		rejected           int
	}{
		{name: "taken", cumulative: Fates{Delivered: 2}, deltas: Fates{Delivered: 2}},
		{name: "unwanted", answer: &UploadError{Verdict: Unwanted, Err: errors.New("x")}, cumulative: Fates{Unwanted: 2}, deltas: Fates{Unwanted: 2}},
		{name: "nobody there", answer: fails(Unreachable, true), waits: 2, deltasWait: 2},
		{name: "wrong token", answer: fails(Misconfigured, true), waits: 2, deltasWait: 2},
		{name: "answer lost", answer: fails(Retryable, false), deltas: Fates{Dropped: 1}, waits: 2, deltasWait: 1},
		{name: "time is over", answer: context.DeadlineExceeded, deltas: Fates{Dropped: 1}, waits: 2, deltasWait: 1},
		{name: "too old", answer: fails(Permanent, false), cumulative: Fates{Rejected: 2}, deltas: Fates{Rejected: 2}, rejected: 2},
		{name: "too large", answer: fails(TooLarge, false), cumulative: Fates{Rejected: 2}, deltas: Fates{Rejected: 2}, rejected: 2},
		{name: "panics", answer: errors.New("panic"), cumulative: Fates{Rejected: 2}, deltas: Fates{Rejected: 2}, rejected: 2},
		{name: "partial", answer: &UploadError{Verdict: Partial, Rejected: 5, Err: errors.New("no")}, cumulative: Fates{Dropped: 2}, deltas: Fates{Dropped: 2}},
	} {
		for temporality, want := range map[metricpb.AggregationTemporality]Fates{2: tc.cumulative, 1: tc.deltas} {
			s := *newSpool(t)
			for value := range int64(2) {
				if err := s.Put(t.Context(), metricsThere, metricsRequest(t, value, temporality), ""); err != nil {
					t.Fatal(err)
				}
			}
			b := Backlog{Spool: s, To: metricsThere, Metrics: &metricsScript{with: []error{tc.answer}}, More: func(time.Duration) bool { return true }}
			err := b.Send(t.Context(), t.Context())
			waits := tc.waits
			if temporality == metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA {
				waits = tc.deltasWait
			}
			if b.Earlier.Metrics != want || (err != nil) != (waits > 0) {
				t.Errorf("%s, %v: %+v, want %+v, error %v", tc.name, temporality, b.Earlier.Metrics, want, err)
			}
			states := map[spool.State]int{}
			entries, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				states[e.State] += e.Points
			}
			if states[spool.Waiting] != waits || states[spool.Rejected] != tc.rejected || len(states) > 1 {
				t.Errorf("%s, %v: in the spool %v", tc.name, temporality, states)
			}
		}
	}
}

// TestMetricsBacklogWaits sends a request again after the time that the receiver gave,
// and stops when there is no more time.
func TestMetricsBacklogWaits(t *testing.T) {
	s := *newSpool(t)
	for value := range int64(3) {
		if err := s.Put(t.Context(), metricsThere, metricsRequest(t, value, 1), ""); err != nil {
			t.Fatal(err)
		}
	}
	busy := &UploadError{Verdict: Retryable, RetryAfter: time.Second, Refused: true, Err: errors.New("busy")}
	client := &metricsScript{with: []error{busy, busy, nil}}
	var waited []time.Duration
	left := 2
	b := Backlog{
		Spool: s, To: metricsThere, Metrics: client,
		More:  func(time.Duration) bool { left--; return left >= 0 },
		Retry: func(after time.Duration) bool { waited = append(waited, after); return true },
	}
	if err := b.Send(t.Context(), t.Context()); err != nil || b.Earlier.Metrics.Delivered != 2 {
		t.Errorf("%+v, %v", b.Earlier, err)
	}
	if !slices.Equal(client.requests, []int64{0, 0, 0, 1}) || !slices.Equal(waited, []time.Duration{time.Second, time.Second}) {
		t.Errorf("sent %v, waited %v", client.requests, waited)
	}
}

// TestMetricsBacklogLeavesItsOwn sends nothing that this process has reported as
// spooled.
func TestMetricsBacklogLeavesItsOwn(t *testing.T) {
	s := *newSpool(t)
	other := s
	s.Owner, other.Owner = spool.NewOwner(), spool.NewOwner()
	for i, s := range []spool.Spool{s, other} {
		if err := s.Put(t.Context(), metricsThere, metricsRequest(t, int64(i), 2), ""); err != nil {
			t.Fatal(err)
		}
	}
	client := &metricsScript{with: []error{nil}}
	b := Backlog{Spool: s, To: metricsThere, Metrics: client, More: func(time.Duration) bool { return true }}
	if err := b.Send(t.Context(), t.Context()); err != nil || b.Earlier.Metrics.Delivered != 1 || !slices.Equal(client.requests, []int64{1}) {
		t.Errorf("%+v, %v, sent %v", b.Earlier, err, client.requests)
	}
	if entries, err := s.List(t.Context()); err != nil || len(entries) != 1 || entries[0].State != spool.Waiting {
		t.Errorf("left %+v, %v", entries, err)
	}
}
