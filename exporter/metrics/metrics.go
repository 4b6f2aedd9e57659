// Package metrics counts what runs did, and sends it by OpenTelemetry's metrics
// SDK. A [Recorder] takes the finished spans of a run, and so needs no source of
// its own: what a metric says is the sum of what the spans say, whichever of them
// a sampler drops later.
//
// Attributes are names that few values are known of: agent, model, tool, error
// type. Ids, paths and content are never among them.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter"
)

const (
	// scope is that of spantee's spans, too.
	scope = "github.com/spantee/spantee"

	// defaultInterval shows a run that hangs within 15 s. The specification's
	// minute is longer than most runs.
	defaultInterval = 10 * time.Second

	// maxSeries of an instrument. What comes beyond them is added to one with the
	// attribute otel.metric.overflow.
	maxSeries = 200
)

// A Config says where metrics go.
type Config struct {
	// Exporter is required. Its Export makes one attempt, and returns an
	// *exporter.UploadError, or errors.ErrUnsupported of a receiver that takes no
	// metrics: that is none of our business.
	Exporter sdk.Exporter
	Version  string // of spantee

	// Resource has the attributes of all metrics. It should identify one process:
	// two that send the same series overwrite each other's counts.
	Resource *resource.Resource

	// Interval is how long to wait between requests; zero is
	// $OTEL_METRIC_EXPORT_INTERVAL, or 10 s.
	Interval time.Duration
}

// A Recorder counts until Close. It may be used by several goroutines.
type Recorder struct {
	instruments
	provider *sdk.MeterProvider
	sender   *sender

	mu     sync.Mutex
	buffer []byte               // a span without its events
	gaps   map[string][]float64 // between chunks of chats that have not ended, by their span ids
	open   map[openKey]int64
	agent  string // of a run that is open; empty if there is none

	heard atomic.Int64 // when bytes came last, in nanoseconds
}

// New starts a Recorder.
func New(cfg Config) (*Recorder, error) {
	if cfg.Exporter == nil {
		return nil, errors.New("metrics: no Exporter")
	}
	r := &Recorder{sender: &sender{Exporter: cfg.Exporter}, gaps: map[string][]float64{}}
	r.Received(time.Now())
	options := []sdk.PeriodicReaderOption{}
	if cfg.Interval > 0 || os.Getenv("OTEL_METRIC_EXPORT_INTERVAL") == "" { // which the reader reads
		options = append(options, sdk.WithInterval(cmp.Or(cfg.Interval, defaultInterval)))
	}
	r.provider = sdk.NewMeterProvider(
		sdk.WithReader(sdk.NewPeriodicReader(r.sender, options...)),
		sdk.WithResource(cfg.Resource),
		sdk.WithCardinalityLimit(maxSeries),
	)
	if err := r.create(r.provider, cfg.Version); err != nil {
		_ = r.provider.Shutdown(context.Background())
		return nil, err
	}
	return r, nil
}

// Received notes that bytes of the stream came.
func (r *Recorder) Received(at time.Time) { r.heard.Store(at.UnixNano()) }

// A Report is what became of the metrics.
type Report struct {
	Delivered int   // data points that were accepted, repeated ones included
	Lost      int   // data points that will never arrive
	Cause     error // why not; may be an *exporter.Error
}

// Close sends the last values and stops. It returns when ctx ends at the latest,
// and does not wait for a collector that is not there.
func (r *Recorder) Close(ctx context.Context) Report {
	r.SetOpen(nil)
	for backoff := 50 * time.Millisecond; r.sender.mayRetry(r.provider.ForceFlush(ctx)); backoff *= 2 {
		select {
		case <-time.After(backoff):
			continue
		case <-ctx.Done():
		}
		break
	}
	// Nothing has changed since: Shutdown needs no time to send it again.
	r.sender.stop()
	_ = r.provider.Shutdown(ctx)
	return r.sender.close()
}

// A sender counts what becomes of the data points.
type sender struct {
	sdk.Exporter

	mu       sync.Mutex
	report   Report
	behind   int       // cumulative points of the last request, if that failed
	retry    bool      // it may succeed later
	silent   bool      // the receiver takes no metrics
	notUntil time.Time // the receiver wants no request before
}

// Export makes one attempt. A cumulative point that is not delivered is lost only
// if no later one is: that repeats it.
func (s *sender) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	cumulative, delta := count(data)
	s.mu.Lock()
	delay, silent := time.Until(s.notUntil), s.silent
	s.mu.Unlock()
	if silent || cumulative+delta == 0 {
		return nil
	}
	err := wait(ctx, delay)
	if err == nil {
		err = s.Exporter.Export(ctx, data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if upload.RetryAfter > 0 {
		s.notUntil = time.Now().Add(upload.RetryAfter)
	}
	if !errors.Is(err, errDelay) || s.report.Cause == nil {
		s.report.Cause = upload.Err
	}
	return err
}

// mayRetry tells whether another attempt after one that returned err makes sense.
// The delta points of the one before are gone, the cumulative ones are not.
func (s *sender) mayRetry(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return err != nil && s.behind > 0 && s.retry
}

// stop makes the sender send nothing more.
func (s *sender) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// wait waits until the receiver wants requests again.
func wait(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return errDelay
	}
}

var errDelay error = &exporter.UploadError{Verdict: exporter.Retryable, Err: errors.New("the collector wanted no requests yet")}

func (s *sender) close() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Lost += s.behind
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

// fieldEvents is the number of events in an opentelemetry.proto.trace.v1.Span.
const fieldEvents protowire.Number = 11
