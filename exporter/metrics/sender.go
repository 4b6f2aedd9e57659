package metrics

import (
	"context"
	"errors"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/spantee/spantee/exporter"
)

// A sender counts what becomes of the data points. A cumulative point that is not
// delivered is lost only if no later one is: that repeats it. A delta is not
// repeated, and so it is sent again if the receiver certainly has not taken it.
type sender struct {
	exporter sdk.Exporter
	gate     *Gate

	report  Report
	refused []*metricdata.ResourceMetrics // with deltas that the receiver has not taken, the oldest first
	behind  int                           // cumulative points of the last request, if that failed
	retry   bool                          // it may succeed later
	silent  bool                          // the receiver takes no metrics
}

// maxRefused is how many requests wait for a receiver that is busy: a minute and a
// half by default.
const maxRefused = 9

// send makes one attempt for what waits, and then for data. It stops where one
// fails.
func (s *sender) send(ctx context.Context, data *metricdata.ResourceMetrics) error {
	requests := append(s.refused, data)
	s.refused = nil
	for i, r := range requests {
		cumulative, delta := count(r)
		if s.silent || cumulative+delta == 0 {
			continue
		}
		err := s.gate.pass(ctx, func() error { return s.exporter.Export(ctx, r) })
		if err = s.settle(err, cumulative, delta); err == nil {
			continue
		}
		if upload, ok := errors.AsType[*exporter.UploadError](err); ok && upload.Refused && delta > 0 {
			s.report.Lost -= delta
			s.refused = append(s.refused, r)
		}
		s.keep(requests[i+1:])
		return err
	}
	return nil
}

// keep keeps requests that no attempt was made for, as far as there is room.
func (s *sender) keep(requests []*metricdata.ResourceMetrics) {
	for _, r := range requests {
		if cumulative, delta := count(r); delta > 0 {
			s.refused = append(s.refused, r)
		} else if cumulative > 0 {
			s.behind = cumulative
		}
	}
	for len(s.refused) > maxRefused {
		_, delta := count(s.refused[0])
		s.report.Lost += delta
		s.refused = s.refused[1:]
	}
}

// settle counts what became of a request.
func (s *sender) settle(err error, cumulative, delta int) error {
	if err == nil {
		s.report.Delivered += cumulative + delta
		s.behind = 0
		return nil
	}
	if errors.Is(err, errors.ErrUnsupported) {
		s.silent = true
		return nil
	}
	upload, ok := errors.AsType[*exporter.UploadError](err)
	if !ok {
		upload = &exporter.UploadError{Verdict: exporter.Permanent, Err: err}
	}
	switch upload.Verdict {
	case exporter.Partial:
		s.report.Delivered += cumulative + delta - upload.Rejected
		s.report.Lost += upload.Rejected
		s.behind = 0
	default:
		s.report.Lost += delta
		s.behind = cumulative
	}
	s.retry = upload.Verdict == exporter.Retryable
	if s.report.Cause == nil || !errors.Is(err, errDelay) && !errors.Is(err, errNoTime) {
		s.report.Cause = upload.Err
	}
	return upload
}

// mayRetry tells whether another attempt after one that returned err makes sense.
func (s *sender) mayRetry(err error) bool {
	return err != nil && s.retry && (s.behind > 0 || len(s.refused) > 0)
}

// close tells what became of everything.
func (s *sender) close() Report {
	r := s.report
	r.Lost += s.behind
	for _, data := range s.refused {
		_, delta := count(data)
		r.Lost += delta
	}
	if r.Lost == 0 {
		r.Cause = nil
	}
	return r
}

// count returns how many data points there are of either kind.
func count(data *metricdata.ResourceMetrics) (cumulative, delta int) {
	add := func(t metricdata.Temporality, n int) {
		if t == metricdata.DeltaTemporality {
			delta += n
			return
		}
		cumulative += n
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				add(d.Temporality, len(d.DataPoints))
			case metricdata.Sum[float64]:
				add(d.Temporality, len(d.DataPoints))
			case metricdata.Histogram[int64]:
				add(d.Temporality, len(d.DataPoints))
			case metricdata.Histogram[float64]:
				add(d.Temporality, len(d.DataPoints))
			case metricdata.ExponentialHistogram[int64]:
				add(d.Temporality, len(d.DataPoints))
			case metricdata.ExponentialHistogram[float64]:
				add(d.Temporality, len(d.DataPoints))
			case metricdata.Gauge[float64]:
				add(metricdata.CumulativeTemporality, len(d.DataPoints))
			}
		}
	}
	return cumulative, delta
}
