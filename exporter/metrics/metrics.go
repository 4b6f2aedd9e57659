// Package metrics derives metrics, most of them from finished spans, and sends them with
// OpenTelemetry's metrics SDK. A [Recorder] sees every span of a run, including spans that
// a sampler drops later, so metrics cover all runs.
//
//	spans -> tally -> series -> Produce  -> the SDK's reader and exporter
//	                         -> Snapshot -> the log of the process
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

const (
	// scope is the instrumentation scope, the same as that of spantee's spans.
	scope = "github.com/spantee/spantee"

	// defaultInterval shows a run that hangs within 15 s. The specification's
	// minute is longer than most runs.
	defaultInterval = 10 * time.Second
)

// A Recorder counts until Close. It may be used by several goroutines. The SDK's reader asks it
// what it has counted, and sends that.
type Recorder struct {
	provider *sdk.MeterProvider
	to       *outcome
	resource *resource.Resource
	scope    instrumentation.Scope
	started  time.Time

	temporality metricdata.Temporality // of what is sent
	deltasFrom  time.Time              // from when on deltas may be sent

	mu    sync.Mutex
	tally tally
	since time.Time // tally has counts since then
	sent  counts    // former ones: deltas that were handed to the reader
	open  counts    // of spans that have not ended

	lastArrival time.Time // of bytes of the stream
}

// New starts a Recorder. from should identify the process: two processes that send the
// same series overwrite each other's counts.
func New(to sdk.Exporter, version string, from *resource.Resource) *Recorder {
	interval, _ := milliseconds(intervalVariable) // CheckEnvironment reports errors
	interval = cmp.Or(interval, defaultInterval)
	now := time.Now()
	r := &Recorder{
		to: &outcome{Exporter: to}, started: now, resource: from, scope: instrumentation.Scope{Name: scope, Version: version},
		temporality: to.Temporality(sdk.InstrumentKindHistogram), deltasFrom: now.Add(interval - 2*time.Second), // two snapshots before
		tally: newTally(), since: now, sent: counts{}, open: counts{}, lastArrival: now,
	}
	r.to.open, r.to.close = context.WithCancel(context.Background())
	r.provider = sdk.NewMeterProvider(sdk.WithResource(from), sdk.WithReader(sdk.NewPeriodicReader(r.to, sdk.WithInterval(interval), sdk.WithProducer(r))))
	return r
}

// Count counts a finished span. It retains nothing of it.
func (r *Recorder) Count(s *runs.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.count(s)
}

// Remember takes a span that another Recorder, or this one, has counted. It counts nothing,
// but of the tokens that the run's root states, those of the span are counted already.
func (r *Recorder) Remember(s *runs.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.usage(s, func(string, int64) {})
}

// Stalled counts a stall of an agent's run.
func (r *Recorder) Stalled(agent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.counts.series(semconv.MetricStalls, []byte(semconv.AgentName+end+agent+end)).add(1)
}

// Spans counts what became of the spans. Call it once.
func (r *Recorder) Spans(delivered, spooled, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.counts.series(semconv.MetricSpansDelivered, nil).add(float64(delivered))
	r.tally.counts.series(semconv.MetricSpansSpooled, nil).add(float64(spooled))
	r.tally.counts.series(semconv.MetricSpansDropped, nil).add(float64(dropped))
}

// SetOpen takes the spans that have not ended: each is the wire bytes of one
// opentelemetry.proto.trace.v1.Span.
func (r *Recorder) SetOpen(spans [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, semconv.MetricIdle)
	for _, all := range r.open {
		for _, series := range all {
			series.sum = 0 // otherwise what has ended would keep its last value
		}
	}
	var s runs.Span
	for _, wire := range spans {
		_ = s.Read(wire) // it is valid
		switch {
		case s.StatesTotals():
			r.open.of(&s, semconv.MetricActiveRuns, semconv.AgentName).add(1)
			r.open.of(&s, semconv.MetricIdle, semconv.AgentName)
		case s.Kind() == runs.Tool && s.ErrorType() == semconv.ErrorKilled:
			r.open.of(&s, semconv.MetricActiveTools, semconv.AgentName, semconv.ToolName).add(1)
		}
	}
}

// Received records when bytes of the stream arrived.
func (r *Recorder) Received(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastArrival = at
}

// Produce returns the values that are sent now, for the SDK's reader.
func (r *Recorder) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, idle := range r.open[semconv.MetricIdle] {
		idle.sum = time.Since(r.lastArrival).Seconds()
	}
	list := slices.Concat(r.tally.counts.data(r.temporality, r.since), r.open.data(r.temporality, r.started))
	if r.temporality == metricdata.DeltaTemporality {
		r.sent.addAll(r.tally.counts)
		r.tally.counts, r.since = counts{}, time.Now()
	}
	return []metricdata.ScopeMetrics{{Scope: r.scope, Metrics: list}}, nil
}

// An outcome remembers what became of requests. A request that waits for its receiver when
// the Recorder is closed goes on until Close has no time left: the SDK's reader would cancel it,
// and its deltas are in no other one.
type outcome struct {
	sdk.Exporter
	open  context.Context
	close context.CancelFunc

	last      atomic.Pointer[error] // of the last request; each repeats what is cumulative, so the last one tells
	delivered atomic.Bool           // one has arrived
}

func (o *outcome) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	during, done := o.open, func() {}
	if deadline, ok := ctx.Deadline(); ok {
		during, done = context.WithDeadline(o.open, deadline)
	}
	defer done()
	err := o.Exporter.Export(during, data)
	o.last.Store(&err)
	if err == nil {
		o.delivered.Store(true)
	}
	return err
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

// Close sends the last values. If they are not delivered, it returns why, and the totals as
// Snapshot does.
func (r *Recorder) Close(ctx context.Context) (left []byte, err error) {
	r.SetOpen(nil)
	r.mu.Lock()
	left = r.totals(nil)
	r.mu.Unlock()
	stop := context.AfterFunc(ctx, r.to.close)
	err = r.provider.Shutdown(ctx)
	stop()
	r.to.close()
	if last := r.to.last.Load(); last != nil {
		err = *last
	}
	if err == nil {
		return nil, nil
	}
	if upload, ok := errors.AsType[*exporter.UploadError](err); ok && !upload.MayRepeat() {
		left = nil
	}
	return left, err
}
