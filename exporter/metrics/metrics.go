// Package metrics derives metrics, most of them from finished spans, aggregates them
// with OpenTelemetry's metrics SDK, and sends them. A [Recorder] sees every span of a
// run, including spans that a sampler drops later, so metrics cover all runs.
//
// Metric attributes, such as agent, model and tool, have few distinct values. They
// never hold ids, paths or content.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
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

// An Exporter sends metrics to one destination. A receiver that takes no metrics is not
// reported as a failure.
type Exporter interface {
	exporter.MetricsUploader
	Encode(data *metricdata.ResourceMetrics) ([]byte, error) // as UploadMetrics takes them
	Destination() spool.Destination
	Temporality(kind sdk.InstrumentKind) metricdata.Temporality
	Aggregation(kind sdk.InstrumentKind) sdk.Aggregation
	Close()
}

// A Config says where metrics go.
type Config struct {
	Exporter Exporter // required
	Version  string   // of spantee

	// Resource has the attributes of all metrics. It should identify the process:
	// two processes that send the same series overwrite each other's counts.
	Resource *resource.Resource

	// Gate, if set, is shared with the other Recorders that send to the receiver.
	Gate *Gate

	// Spool, if set, keeps the last metrics if they cannot be delivered, and a journal
	// of those that a killed process would lose. Metrics of earlier processes for the
	// same destination are sent once the receiver has accepted a request.
	Spool *spool.Spool

	// Interval is how long to wait between requests; zero is
	// $OTEL_METRIC_EXPORT_INTERVAL, or 10 s.
	Interval time.Duration
}

// A Recorder counts until Close. It may be used by several goroutines.
type Recorder struct {
	reader *sdk.ManualReader // neither the reader nor its provider has to be closed
	sender sender

	meter      metric.Meter
	counters   map[string]metric.Int64Counter
	histograms map[string]metric.Float64Histogram
	cost       metric.Float64Counter

	mu     sync.Mutex
	sets   map[string]metric.MeasurementOption // of attributes, by what is in them
	setKey []byte

	changed bool // something was counted since the last Save

	used map[string][len(usages)]int64 // by model calls of runs that have not ended, by trace and session
	gaps map[string][]float64          // between chunks of chats that have not ended, by their span ids

	// open is read while the SDK holds its own lock, for which a holder of mu may wait.
	open        atomic.Pointer[openSpans]
	lastArrival atomic.Int64 // of bytes of the stream, in nanoseconds since 1970

	unsaved chan struct{}      // has a value after Save
	ending  context.Context    // ends with Close
	endRun  context.CancelFunc // ends ending
	cancel  context.CancelFunc // ends a request in flight
	ended   chan struct{}      // closed when run has returned
}

// New starts a Recorder.
func New(cfg Config) *Recorder {
	r := &Recorder{
		sender: sender{
			exporter: cfg.Exporter, gate: cmp.Or(cfg.Gate, NewGate()), resource: cfg.Resource,
			scope: instrumentation.Scope{Name: scope, Version: cfg.Version},
		},
		sets: map[string]metric.MeasurementOption{}, used: map[string][len(usages)]int64{}, gaps: map[string][]float64{},
		unsaved: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if cfg.Spool != nil {
		own := *cfg.Spool
		own.Losses, own.SetAside, own.Recovered = new(spool.LossCounter), nil, nil // which may wait for a Recorder
		r.sender.spool, r.sender.journal = &own, own.NewMetricsJournal(cfg.Exporter.Destination())
	}
	r.Received(time.Now())
	r.open.Store(new(openSpans))
	r.reader = sdk.NewManualReader(sdk.WithTemporalitySelector(cfg.Exporter.Temporality), sdk.WithAggregationSelector(cfg.Exporter.Aggregation))
	provider := sdk.NewMeterProvider(sdk.WithReader(r.reader), sdk.WithCardinalityLimit(maxSeries))
	r.makeInstruments(provider.Meter(scope))
	r.ending, r.endRun = context.WithCancel(context.Background())
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	interval, _ := milliseconds(intervalVariable) // CheckEnvironment reports errors
	go r.run(ctx, cmp.Or(cfg.Interval, interval, defaultInterval))
	return r
}

const (
	intervalVariable = "OTEL_METRIC_EXPORT_INTERVAL"
	timeoutVariable  = "OTEL_METRIC_EXPORT_TIMEOUT"
)

// CheckEnvironment returns an error for each invalid variable. Its default is used.
func CheckEnvironment() (invalid []error) {
	for _, variable := range []string{intervalVariable, timeoutVariable} {
		if _, err := milliseconds(variable); err != nil {
			invalid = append(invalid, err)
		}
	}
	return invalid
}

// milliseconds reads a variable. It returns zero if the variable is unset or invalid.
func milliseconds(variable string) (time.Duration, error) {
	v := strings.TrimSpace(os.Getenv(variable))
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("invalid $%s %q (want a positive number of milliseconds, such as 10000)", variable, v)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// run sends the metrics at every interval. The SDK's own reader does so too, but
// at the end it collects everything twice.
func (r *Recorder) run(ctx context.Context, interval time.Duration) {
	defer close(r.ended)
	timeout, _ := milliseconds(timeoutVariable)
	timeout = cmp.Or(timeout, defaultTimeout)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	observe := sync.OnceFunc(r.observe)
	for {
		select {
		case <-ticker.C:
			if r.sender.gate.delay() > 0 {
				continue
			}
			observe() // a run that ends before has no need to report what was open
			attempt, cancel := context.WithTimeout(ctx, timeout)
			if r.sender.send(attempt, r.collect()) == nil { // otherwise the next request repeats it
				r.sender.drain(attempt, func() bool { return r.ending.Err() == nil })
			}
			cancel()
			r.sender.save(ctx)
		case <-r.unsaved:
			r.sender.hold(r.collect())
			r.sender.save(ctx)
		case <-r.ending.Done():
			return
		}
	}
}

// Save makes what was counted until now survive a kill of the process, if there is a
// spool. It does not wait for the disk. Call it about once a second.
func (r *Recorder) Save() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed && r.sender.journal != nil {
		r.changed = false
		select {
		case r.unsaved <- struct{}{}:
		default: // it is about to be saved
		}
	}
}

// collect returns what there is to send.
func (r *Recorder) collect() (list []metricdata.Metrics) {
	var data metricdata.ResourceMetrics
	_ = r.reader.Collect(context.Background(), &data) // our only callback returns no errors
	for _, scope := range data.ScopeMetrics {         // at most one
		list = append(list, scope.Metrics...)
	}
	return list
}

// Received records when bytes of the stream arrived.
func (r *Recorder) Received(at time.Time) { r.lastArrival.Store(at.UnixNano()) }

// A Report is what became of the metrics, in data points.
type Report struct {
	Delivered int   // that were accepted, repeated ones included
	Spooled   int   // to be delivered later
	Rejected  int   // by the receiver, and kept
	Lost      int   // that will never arrive
	Cause     error // why points were not delivered; may be an *exporter.Error
	NotKept   error // why the spool did not keep the lost ones

	Losses  spool.Losses     // of the spool, for example to make room
	Earlier exporter.Earlier // what else became of other processes' metrics
}

// drainGrace is how long Close goes on sending metrics of earlier processes.
const drainGrace = 200 * time.Millisecond

// closeGrace is how long after its context Close waits for the disk, which has a grace
// period of its own.
const closeGrace = 400 * time.Millisecond

// errAbandoned is why nothing is known of the metrics.
var errAbandoned = errors.New("neither the receiver nor the disk answered in time")

// Close sends the last values and stops, or spools them. It returns when ctx ends
// or, if the disk is slow, soon after, and does not wait for an unreachable
// collector.
func (r *Recorder) Close(ctx context.Context) Report {
	attempts, disk, cancel := exporter.Deadlines(ctx)
	defer cancel()
	if r.sender.spool == nil {
		attempts = ctx
	}
	closed := make(chan Report, 1)
	go func() { closed <- r.end(attempts, disk) }()
	select {
	case report := <-closed:
		return report
	case <-ctx.Done():
	}
	select {
	case report := <-closed:
		return report
	case <-time.After(closeGrace): // an exporter that ignores its context is left behind
		cumulative, deltas := count(r.collect())
		return Report{Lost: cumulative + deltas, Cause: errAbandoned}
	}
}

func (r *Recorder) end(ctx, disk context.Context) Report {
	r.endRun()
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
	if err == nil {
		start := time.Now()
		r.sender.drain(ctx, func() bool { return time.Since(start) < drainGrace && ctx.Err() == nil })
	}
	return r.sender.close(disk)
}
