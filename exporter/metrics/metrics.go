// Package metrics derives metrics, most of them from finished spans, and sends them. A
// [Recorder] sees every span of a run, including spans that a sampler drops later, so metrics
// cover all runs.
//
//	spans -> tally -> series -> request  -> the receiver
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

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

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

	// defaultTimeout is that of the specification.
	defaultTimeout = 30 * time.Second
)

// A Recorder counts until Close, and sends at an interval what it has counted. It may be used by
// several goroutines.
type Recorder struct {
	to       exporter.MetricsClient
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	started  time.Time

	deltas     bool      // are sent, each in one request only; otherwise totals, in each request
	deltasFrom time.Time // from when on deltas may be sent

	timeout   time.Duration // of a request
	requests  context.Context
	cancel    context.CancelFunc   // ends requests
	last      chan context.Context // gets the context of the last request
	closed    chan struct{}        // after the last request
	err       error                // of the latest request: totals repeat all that was lost before
	delivered atomic.Bool          // a request was

	mu    sync.Mutex
	tally tally
	since time.Time // tally has counts since then
	sent  counts    // former ones: deltas that were sent, delivered or not
	open  counts    // of spans that have not ended

	lastArrival time.Time // of bytes of the stream
}

// New starts a Recorder, which sends deltas or else totals. from should identify the process: two
// processes that send the same series overwrite each other's counts.
func New(to exporter.MetricsClient, deltas bool, version string, from *resourcepb.Resource) *Recorder {
	interval, _ := milliseconds(intervalVariable) // CheckEnvironment reports errors
	interval = cmp.Or(interval, defaultInterval)
	timeout, _ := milliseconds(timeoutVariable)
	now := time.Now()
	r := &Recorder{
		to: to, resource: from, scope: &commonpb.InstrumentationScope{Name: scope, Version: version}, started: now,
		deltas: deltas, deltasFrom: now.Add(interval - 2*time.Second), // two snapshots before
		timeout: cmp.Or(timeout, defaultTimeout), last: make(chan context.Context), closed: make(chan struct{}),
		tally: newTally(), since: now, sent: counts{}, open: counts{}, lastArrival: now,
	}
	r.requests, r.cancel = context.WithCancel(context.Background())
	go r.run(interval)
	return r
}

// run sends at each interval, and a last time when Close asks for it.
func (r *Recorder) run(interval time.Duration) {
	defer close(r.closed)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.send(r.requests)
		case ctx := <-r.last:
			r.send(ctx)
			return
		}
	}
}

// send sends what was counted. It tries again only if the receiver asks for a delay that the
// context allows.
func (r *Recorder) send(ctx context.Context) {
	request := r.request()
	if request == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for {
		r.err = r.to.UploadMetrics(ctx, request)
		if r.err == nil {
			r.delivered.Store(true)
			return
		}
		failed, ok := errors.AsType[*exporter.UploadError](r.err)
		end, _ := ctx.Deadline()
		if !ok || failed.RetryAfter <= 0 || time.Until(end) < failed.RetryAfter {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(failed.RetryAfter):
		}
	}
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

// request returns an encoded request with what is sent now, nil if that is nothing.
func (r *Recorder) request() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, idle := range r.open[semconv.MetricIdle] {
		idle.sum = time.Since(r.lastArrival).Seconds()
	}
	request := r.encode(slices.Concat(r.tally.counts.metrics(r.deltas, r.since), r.open.metrics(r.deltas, r.started)))
	if r.deltas {
		r.sent.addAll(r.tally.counts)
		r.tally.counts, r.since = counts{}, time.Now()
	}
	return request
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
// Snapshot does. A request that waits for its receiver goes on until ctx ends: its deltas are in
// no other one.
func (r *Recorder) Close(ctx context.Context) (left []byte, err error) {
	r.SetOpen(nil)
	r.mu.Lock()
	left = r.totals(nil)
	r.mu.Unlock()
	stop := context.AfterFunc(ctx, r.cancel)
	r.last <- ctx
	<-r.closed
	stop()
	r.cancel()
	_ = r.to.Stop(ctx)
	if r.err == nil {
		return nil, nil
	}
	if upload, ok := errors.AsType[*exporter.UploadError](r.err); ok && !upload.MayRepeat() {
		left = nil
	}
	return left, r.err
}
