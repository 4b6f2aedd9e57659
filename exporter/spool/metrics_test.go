package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

const (
	cumulative = metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	delta      = metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
)

// metricsHere takes metrics at the same endpoint as here.
var metricsHere = Destination{Protocol: here.Protocol, Endpoint: here.Endpoint, Signal: Metrics}

// metricsOf is a request of counters that all have this value.
func metricsOf(t testing.TB, temporality metricpb.AggregationTemporality, counters int, value int64) Request {
	t.Helper()
	scope := &metricpb.ScopeMetrics{}
	for i := range counters {
		scope.Metrics = append(scope.Metrics, &metricpb.Metric{Name: fmt.Sprint("counter-", i), Data: &metricpb.Metric_Sum{Sum: &metricpb.Sum{
			AggregationTemporality: temporality,
			DataPoints:             []*metricpb.NumberDataPoint{{Value: &metricpb.NumberDataPoint_AsInt{AsInt: value}}},
		}}})
	}
	body, err := proto.Marshal(&colmetricpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricpb.ResourceMetrics{{ScopeMetrics: []*metricpb.ScopeMetrics{scope}}}})
	must(t, err)
	return Request{Body: body, Points: counters, Delta: temporality == delta}
}

func putMetrics(t testing.TB, s Spool, r Request) Losses {
	t.Helper()
	evicted, err := tryPut(s, metricsHere, r, "connection refused")
	must(t, err)
	return evicted
}

func claimMetrics(t testing.TB, o *Outbox) *Claim {
	t.Helper()
	c, corrupt, err := nextOf(o)
	if err != nil || c == nil || corrupt > 0 {
		t.Fatalf("%+v, %d corrupt, %v", c, corrupt, err)
	}
	return c
}

// TestMetricsAreApart keeps spans and metrics of one endpoint in one spool, and mixes
// them in no request.
func TestMetricsAreApart(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a", "b")
	one, two := metricsOf(t, cumulative, 3, 1), metricsOf(t, delta, 4, 2)
	putMetrics(t, s, one)
	putMetrics(t, s, two)

	destinations, err := s.Destinations(background)
	if err != nil || len(destinations) != 2 || destinations[0] != here || destinations[1] != metricsHere {
		t.Errorf("destinations %+v, %v", destinations, err)
	}
	entries, err := s.List(background)
	must(t, err)
	var listed []string
	for _, e := range entries {
		listed = append(listed, fmt.Sprintf("%s %s %d %d", e.State, e.Signal, e.Spans, e.Points))
	}
	want(t, listed, "waiting  2 0", "waiting metrics 0 3", "waiting metrics 0 4")
	info, err := os.Stat(entries[1].Path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	want(t, drained(t, s, here), "a", "b")
	o := openBox(t, s, metricsHere)
	defer o.Close()
	for i, r := range []Request{one, two} {
		c := claimMetrics(t, o)
		if !bytes.Equal(c.Metrics.Body, r.Body) || c.Metrics.Points != r.Points || c.Metrics.Delta != (i == 1) || len(c.Spans) > 0 {
			t.Errorf("claimed %+v", c)
		}
		must(t, c.Done())
	}
	if files := filesOf(t, s.Dir); len(files) > 0 {
		t.Errorf("left %q", files)
	}
}

// TestSpansOfOldVersions reads a file from before metrics were spooled.
func TestSpansOfOldVersions(t *testing.T) {
	s := newSpool(t, 1<<20)
	dir, err := s.makeDir("5a7031208c81c534") // of {grpc http://localhost:4317}
	must(t, err)
	request := requestOf(t, "a")
	b := append(appendRecord(nil, fieldNote, []byte(`{"protocol":"grpc","endpoint":"http://localhost:4317","reason":"connection refused"}`)), request.Body...)
	must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("1790000000000000000-1-%d-0a1b2c.otlp", len(b))), b, 0o600))
	want(t, drained(t, s, here), "a")
}

// TestLogsOfOldVersions sets them aside: their frames would be misread.
func TestLogsOfOldVersions(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	j.file.note = Note{Destination: here, PID: 1} // as before logs had a format
	checkpoint(t, j, spanOf("open"))
	die(t, j)
	wantRecovered(t, s, 0)
	want(t, states(t, s), "corrupt 0")

	j = newJournal(t, s)
	j.file.note = Note{Destination: here, PID: 1}
	end(t, j, spanOf("ended"))
	checkpoint(t, j)
	if !j.Close(background, "the collector hangs") {
		t.Error("nothing was kept")
	}
	o := openBox(t, s, here)
	defer o.Close()
	if c, corrupt, err := nextOf(o); c != nil || corrupt != 1 || err != nil {
		t.Errorf("Next: %v, %d corrupt, %v", c, corrupt, err)
	}
}

// TestMetricsInTheWrongPlace takes no spans for metrics, nor metrics for spans.
func TestMetricsInTheWrongPlace(t *testing.T) {
	for _, to := range []Destination{here, metricsHere} {
		s := newSpool(t, 1<<20)
		if err := s.Put(background, metricsHere, metricsOf(t, cumulative, 3, 1), ""); err != nil {
			t.Fatal(err)
		}
		put(t, s, here, "a")
		from, into := here, metricsHere
		if to == here {
			from, into = metricsHere, here
		}
		name := filesOf(t, filepath.Join(s.Dir, from.dir()))[0]
		must(t, os.Rename(filepath.Join(s.Dir, from.dir(), name), filepath.Join(s.Dir, into.dir(), name)))
		o := openBox(t, s, into)
		c, corrupt, err := nextOf(o)
		if err != nil || c == nil || len(c.Spans)+c.Metrics.Points > 3 {
			t.Errorf("%+v, %v", c, err)
		}
		must(t, c.Done())
		c, more, err := nextOf(o)
		if c != nil || err != nil || corrupt+more == 0 {
			t.Errorf("then %+v, %d corrupt, %v", c, corrupt+more, err)
		}
		o.Close()
	}
}

// TestDeltasOfADeadSender repeats no deltas that may have arrived.
func TestDeltasOfADeadSender(t *testing.T) {
	for _, temporality := range []metricpb.AggregationTemporality{cumulative, delta} {
		s := newSpool(t, 1<<20)
		putMetrics(t, s, metricsOf(t, temporality, 3, 1))
		dead := openBox(t, s, metricsHere)
		claimMetrics(t, dead)
		unlock(dead.lock) // as the system does

		o := openBox(t, s, metricsHere)
		c, corrupt, err := nextOf(o)
		if err != nil || (c == nil) != (temporality == delta) || corrupt != map[bool]int{true: 3}[temporality == delta] {
			t.Errorf("%v: claimed %+v, %d corrupt, %v", temporality, c, corrupt, err)
		}
		o.Close()
	}
}

// TestEvictedMetrics counts data points and spans apart.
func TestEvictedMetrics(t *testing.T) {
	s := newSpool(t, 4<<10)
	s.Owner = NewOwner()
	other := s
	other.Owner = NewOwner()
	putMetrics(t, other, metricsOf(t, cumulative, 50, 1))
	putMetrics(t, s, metricsOf(t, cumulative, 30, 1))
	if evicted := putMetrics(t, s, metricsOf(t, cumulative, 130, 1)); evicted != (Losses{OtherPoints: 50, OwnPoints: 30}) {
		t.Errorf("evicted %+v", evicted)
	}
	if err := s.Put(background, metricsHere, rejected(metricsOf(t, cumulative, 100, 1)), "400"); err != nil {
		t.Fatal(err)
	}
	want(t, states(t, s), "rejected 0")
}
