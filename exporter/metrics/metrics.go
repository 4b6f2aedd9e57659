// Package metrics derives metrics, most of them from finished spans, and sends them with
// OpenTelemetry's metrics SDK. A [Recorder] sees every span of a run, including spans that
// a sampler drops later, so metrics cover all runs.
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
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/spantee/spantee/exporter"
)

const (
	// scope is the instrumentation scope, the same as that of spantee's spans.
	scope = "github.com/spantee/spantee"

	// defaultInterval shows a run that hangs within 15 s. The specification's
	// minute is longer than most runs.
	defaultInterval = 10 * time.Second

	// maxSeries bounds the series of an instrument. Further series are added up in
	// one with the attribute otel.metric.overflow.
	maxSeries = 200
)

// A Recorder counts until Close. It may be used by several goroutines.
type Recorder struct {
	provider *sdk.MeterProvider
	from     *resource.Resource
	sent     *outcome   // nil for a Recorder that only counts what is open
	reader   sdk.Reader // of snapshots

	deltasFrom time.Time // from when on deltas may be sent

	meter      metric.Meter
	counters   map[string]metric.Int64Counter
	histograms map[string]metric.Float64Histogram
	cost       metric.Float64Counter

	mu     sync.Mutex
	sets   map[string]metric.MeasurementOption // of attributes, by what is in them
	setKey []byte

	used map[string][len(usages)]int64 // by model calls that no root has stated yet, by session
	gaps map[string][]float64          // between chunks of chats that have not ended, by their span ids

	// open is read while the SDK holds its own lock, for which a holder of mu may wait.
	open        atomic.Pointer[openSpans]
	lastArrival atomic.Int64 // of bytes of the stream, in nanoseconds since 1970
}

// New starts a Recorder. from should identify the process: two processes that send the
// same series overwrite each other's counts.
func New(to sdk.Exporter, version string, from *resource.Resource) *Recorder {
	interval, _ := milliseconds(intervalVariable) // CheckEnvironment reports errors
	sent := &outcome{Exporter: to}
	sent.open, sent.close = context.WithCancel(context.Background())
	r := newRecorder(version, from, sent, cmp.Or(interval, defaultInterval))
	r.observe()
	return r
}

func newRecorder(version string, from *resource.Resource, to *outcome, interval time.Duration) *Recorder {
	r := &Recorder{
		from: from, sent: to, deltasFrom: time.Now().Add(interval - 2*time.Second), // two snapshots before
		sets: map[string]metric.MeasurementOption{}, used: map[string][len(usages)]int64{}, gaps: map[string][]float64{},
		counters: map[string]metric.Int64Counter{}, histograms: map[string]metric.Float64Histogram{},
	}
	r.Received(time.Now())
	r.open.Store(new(openSpans))
	options := []sdk.Option{
		sdk.WithResource(from), sdk.WithCardinalityLimit(maxSeries), sdk.WithExemplarFilter(exemplar.AlwaysOffFilter),
	}
	if to != nil {
		r.reader = sdk.NewPeriodicReader(to, sdk.WithInterval(interval))
		options = append(options, sdk.WithReader(r.reader))
	}
	if to == nil || to.Temporality(sdk.InstrumentKindHistogram) == metricdata.DeltaTemporality { // which a snapshot must not take from the requests
		r.reader = sdk.NewManualReader()
		options = append(options, sdk.WithReader(r.reader))
	}
	r.provider = sdk.NewMeterProvider(options...)
	r.meter = r.provider.Meter(scope, metric.WithInstrumentationVersion(version))
	return r
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

// Received records when bytes of the stream arrived.
func (r *Recorder) Received(at time.Time) { r.lastArrival.Store(at.UnixNano()) }

// Close sends the last values. If they are not delivered, it returns why, and the totals as
// Snapshot does.
func (r *Recorder) Close(ctx context.Context) (left []byte, err error) {
	r.SetOpen(nil)
	left = r.totals(nil)
	stop := context.AfterFunc(ctx, r.sent.close)
	err = r.provider.Shutdown(ctx)
	stop()
	r.sent.close()
	if last := r.sent.last.Load(); last != nil {
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
