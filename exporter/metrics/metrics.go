// Package metrics derives metrics from finished spans and sends them with
// OpenTelemetry's metrics SDK. A [Recorder] sees every span of a run, including
// spans that a sampler drops later, so metrics cover all runs.
//
// Metric attributes, such as agent, model and tool, have few distinct values. They
// never hold ids, paths or content.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

const (
	// scope is the instrumentation scope, the same as that of spantee's spans.
	scope = "github.com/spantee/spantee"

	// defaultInterval shows a run that hangs within 15 s. The specification's
	// minute is longer than most runs.
	defaultInterval = 10 * time.Second

	// defaultTimeout of a request, by the specification.
	defaultTimeout = 30 * time.Second

	// maxSeries bounds the series of an instrument. Further series are added up in
	// one with the attribute otel.metric.overflow.
	maxSeries = 200
)

// A Config says where metrics go.
type Config struct {
	// Exporter is required. Its Export makes one attempt, and returns an
	// *exporter.UploadError, or errors.ErrUnsupported if the receiver takes no
	// metrics, which is not reported.
	Exporter sdk.Exporter
	Version  string // of spantee

	// Resource has the attributes of all metrics. It should identify the process:
	// two processes that send the same series overwrite each other's counts.
	Resource *resource.Resource

	// Gate, if set, is shared with the other Recorders that send to the receiver.
	Gate *Gate

	// Interval is how long to wait between requests; zero is
	// $OTEL_METRIC_EXPORT_INTERVAL, or 10 s.
	Interval time.Duration
}

// A Recorder counts until Close. It may be used by several goroutines.
type Recorder struct {
	instruments
	reader   *sdk.ManualReader
	provider *sdk.MeterProvider
	sender   sender

	mu    sync.Mutex
	gaps  map[string][]float64 // between chunks of chats that have not ended, by their span ids
	open  map[openKey]int64
	agent string // of a run that is open; empty if there is none

	heard atomic.Int64 // when bytes came last, in nanoseconds

	ending chan struct{}      // closed by Close
	cancel context.CancelFunc // ends a request that was sent before
	ended  chan struct{}      // closed when there is none any more
}

// New starts a Recorder.
func New(cfg Config) (*Recorder, error) {
	if cfg.Exporter == nil {
		return nil, errors.New("metrics: no Exporter")
	}
	r := &Recorder{sender: sender{exporter: cfg.Exporter, gate: cmp.Or(cfg.Gate, NewGate())}, gaps: map[string][]float64{}, ending: make(chan struct{}), ended: make(chan struct{})}
	r.Received(time.Now())
	r.reader = sdk.NewManualReader(sdk.WithTemporalitySelector(cfg.Exporter.Temporality), sdk.WithAggregationSelector(cfg.Exporter.Aggregation))
	r.provider = sdk.NewMeterProvider(sdk.WithReader(r.reader), sdk.WithResource(cfg.Resource), sdk.WithCardinalityLimit(maxSeries))
	if err := r.create(r.provider, cfg.Version); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go r.run(ctx, cmp.Or(cfg.Interval, milliseconds("OTEL_METRIC_EXPORT_INTERVAL"), defaultInterval))
	return r, nil
}

// milliseconds reads a variable, which is zero unless it makes sense.
func milliseconds(variable string) time.Duration {
	n, _ := strconv.Atoi(os.Getenv(variable))
	return time.Duration(max(n, 0)) * time.Millisecond
}

// run sends what there is at every interval. The SDK's own reader does so too, but
// at the end it collects everything twice.
func (r *Recorder) run(ctx context.Context, interval time.Duration) {
	defer close(r.ended)
	timeout := cmp.Or(milliseconds("OTEL_METRIC_EXPORT_TIMEOUT"), defaultTimeout)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if r.sender.gate.delay() > 0 {
				continue
			}
			attempt, cancel := context.WithTimeout(ctx, timeout)
			_ = r.sender.send(attempt, r.collect()) // the next one repeats it
			cancel()
		case <-r.ending:
			return
		}
	}
}

// collect returns what there is to send.
func (r *Recorder) collect() *metricdata.ResourceMetrics {
	data := new(metricdata.ResourceMetrics)
	_ = r.reader.Collect(context.Background(), data) // of our own callback, which has no errors
	return data
}

// Received notes that bytes of the stream came.
func (r *Recorder) Received(at time.Time) { r.heard.Store(at.UnixNano()) }

// A Report is what became of the metrics.
type Report struct {
	Delivered int   // data points that were accepted, repeated ones included
	Lost      int   // data points that will never arrive
	Cause     error // why points were lost; may be an *exporter.Error
}

// Close sends the last values and stops. It returns when ctx ends at the latest,
// and does not wait for an unreachable collector.
func (r *Recorder) Close(ctx context.Context) Report {
	close(r.ending)
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
	r.cancel()
	<-r.ended
	r.SetOpen(nil)
	err := r.sender.send(ctx, r.collect())
	for backoff := 50 * time.Millisecond; r.sender.mayRetry(err) && wait(ctx, backoff) == nil; backoff *= 2 {
		err = r.sender.send(ctx, r.collect())
	}
	_ = r.provider.Shutdown(context.Background()) // neither sends anything
	_ = r.sender.exporter.Shutdown(context.Background())
	return r.sender.close()
}
