package metrics

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// A sender counts what becomes of the data points. A cumulative point is lost
// only if no later point of its series is delivered, because each repeats the ones before.
// A delta is not repeated, so it is sent again if the receiver certainly has not taken it.
type sender struct {
	exporter Exporter
	resource *resource.Resource
	scope    instrumentation.Scope
	gate     *Gate
	spool    *spool.Spool          // nil if nothing is kept
	journal  *spool.MetricsJournal // of held; nil without a spool

	report   Report
	held     []metricdata.Metrics // what the receiver has not taken: the last values, and all deltas that may be sent again
	rejected []metricdata.Metrics // by the receiver for good, in the last attempt
	retry    bool                 // another attempt may succeed
	unwanted bool                 // the receiver takes no metrics

	drainFrom time.Time // no sending of earlier processes' metrics before this time, after a failure
}

// encode returns an ExportMetricsServiceRequest.
func (s *sender) encode(list []metricdata.Metrics) ([]byte, error) {
	return s.exporter.Encode(&metricdata.ResourceMetrics{
		Resource: s.resource, ScopeMetrics: []metricdata.ScopeMetrics{{Scope: s.scope, Metrics: list}},
	})
}

// send makes one attempt for data, and for the deltas that the receiver has not
// taken before.
func (s *sender) send(ctx context.Context, data []metricdata.Metrics) error {
	_, lost := count(s.rejected)
	s.report.Lost += lost
	data = merge(s.held, data)
	s.held, s.rejected = nil, nil
	cumulative, deltas := count(data)
	if s.unwanted || cumulative+deltas == 0 {
		return nil
	}
	if s.journal != nil && deltas > 0 { // from now on they may have arrived
		s.journal.Clear(ctx)
	}
	request, err := s.encode(data)
	if err == nil {
		err = s.UploadMetrics(ctx, request)
	}
	return s.settle(data, err)
}

// UploadMetrics makes an attempt through the gate.
func (s *sender) UploadMetrics(ctx context.Context, request []byte) error {
	return s.gate.pass(ctx, func() error { return s.exporter.UploadMetrics(ctx, request) })
}

// hold adds later metrics to those that the receiver has not taken.
func (s *sender) hold(later []metricdata.Metrics) { s.held = merge(s.held, later) }

// diskPatience is how long the disk may take to save them.
const diskPatience = 1500 * time.Millisecond

// save makes the held metrics survive a kill of the process. What is open then is not
// counted.
func (s *sender) save(ctx context.Context) {
	if s.journal == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, diskPatience)
	defer cancel()
	counted := totals(s.held)
	if len(counted) == 0 || s.unwanted {
		s.journal.Clear(ctx)
	} else if request, err := s.request(counted); err == nil {
		_ = s.journal.Replace(ctx, request) // on failure, a kill loses what was counted since the last time
	}
}

// settle counts what became of a request, and holds what may be sent again.
func (s *sender) settle(data []metricdata.Metrics, err error) error {
	cumulative, deltas := count(data)
	if err == nil {
		s.report.Delivered += cumulative + deltas
		return nil
	}
	upload, ok := errors.AsType[*exporter.UploadError](err)
	if !ok {
		upload = &exporter.UploadError{Verdict: exporter.Permanent, Err: err}
	}
	switch {
	case upload.Verdict == exporter.Unwanted:
		s.unwanted = true
		return nil
	case upload.Verdict == exporter.Partial:
		lost := upload.RejectedOf(cumulative + deltas)
		s.report.Delivered += cumulative + deltas - lost
		s.report.Lost += lost
	case upload.Verdict == exporter.Permanent, upload.Verdict == exporter.TooLarge:
		s.rejected = data
	case upload.Refused:
		s.held = data
	default: // the answer may have been lost
		s.report.Lost += deltas
		s.held = withoutDeltas(data)
	}
	s.retry = upload.Verdict == exporter.Retryable
	if s.report.Cause == nil || !isNotSent(err) {
		s.report.Cause = upload.Err
	}
	return upload
}

// mayRetry reports whether it makes sense to try again after err.
func (s *sender) mayRetry(err error) bool {
	return err != nil && s.retry && len(s.held) > 0 && !isNotSent(err)
}

// drainRest is the pause after a failure, or after another process was found sending.
const drainRest = 10 * time.Second

// drain sends the metrics that earlier processes left in the spool while more returns true,
// once the receiver has taken metrics, or said that it takes none.
func (s *sender) drain(ctx context.Context, more func() bool) {
	if s.spool == nil || s.report.Delivered == 0 && !s.unwanted || time.Now().Before(s.drainFrom) {
		return
	}
	b := exporter.Backlog{
		Spool: *s.spool, To: s.exporter.Destination(), Metrics: s,
		More: func(time.Duration) bool { return s.gate.delay() <= 0 && more() },
	}
	if err := b.Send(ctx, ctx); err != nil { // what fails stays in the spool
		s.drainFrom = time.Now().Add(drainRest)
	}
	s.report.Earlier.Add(b.Earlier)
}

// close spools what is left, and returns what became of everything.
func (s *sender) close(disk context.Context) Report {
	s.keep(disk, s.held, false)
	s.keep(disk, s.rejected, true)
	if s.journal != nil {
		s.journal.Close(disk)
	}
	s.exporter.Close()
	r := s.report
	if s.spool != nil {
		r.Losses = s.spool.Losses.Take()
	}
	if r.Lost+r.Spooled+r.Rejected == 0 {
		r.Cause = nil
	}
	return r
}

// request returns metrics as they are spooled.
func (s *sender) request(data []metricdata.Metrics) (spool.Request, error) {
	cumulative, deltas := count(data)
	body, err := s.encode(data)
	return spool.Request{Body: body, Points: cumulative + deltas, Delta: deltas > 0}, err
}

// keep spools metrics that were not delivered, and counts them.
func (s *sender) keep(disk context.Context, rest []metricdata.Metrics, rejected bool) {
	request, err := s.request(rest)
	points := request.Points
	if points == 0 {
		return
	}
	if s.spool == nil {
		s.report.Lost += points
		return
	}
	if err == nil {
		request.Rejected = rejected
		err = s.spool.Put(disk, s.exporter.Destination(), request, s.report.Cause.Error())
	}
	switch {
	case err != nil:
		s.report.Lost, s.report.NotKept = s.report.Lost+points, err
	case rejected:
		s.report.Rejected += points
	default:
		s.report.Spooled += points
	}
}
