package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
)

// A meter counts what agents do. Each agent is a service, which has a Recorder from the
// agent's first run on.
type meter struct {
	settings  *otlp.Settings // nil if metrics go nowhere
	resources func(agent string) *resourcepb.Resource
	failed    func(error)

	mu      sync.Mutex // the end does not wait for a mapper that hangs
	byAgent map[string]*metrics.Recorder
	own     *metrics.Recorder // of the stream's first agent; nil if there is none
}

// newMeter returns a meter, and reports what is wrong with the settings.
func newMeter(settings *otlp.Settings, resources func(agent string) *resourcepb.Resource, failed func(error)) *meter {
	if settings != nil {
		for _, err := range slices.Concat(settings.Ignored(), metrics.CheckEnvironment()) {
			failed(err)
		}
	}
	return &meter{settings: settings, resources: resources, failed: failed, byAgent: map[string]*metrics.Recorder{}}
}

// of returns the Recorder of an agent, nil if there can be none.
func (m *meter) of(agent string) *metrics.Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.byAgent[agent]
	if known || m.settings == nil {
		return r
	}
	from := metrics.Resource(m.resources(agent), os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), uuid.NewString())
	if to, err := m.settings.MetricExporter(); err != nil {
		m.failed(fmt.Errorf("no metrics are sent: %w", err))
	} else {
		r = metrics.New(to, tracer.Version(), from)
	}
	m.byAgent[agent] = r
	m.own = cmp.Or(m.own, r)
	return r
}

// all returns the Recorders that there are.
func (m *meter) all() (list []*metrics.Recorder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.byAgent {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// received notes that bytes of the stream came.
func (m *meter) received(at time.Time) {
	for _, r := range m.all() {
		r.Received(at)
	}
}

// stalled counts a silence of an agent.
func (m *meter) stalled(agent string) {
	if r := m.of(agent); r != nil {
		r.Stalled(agent)
	}
}

// consume counts a span.
func (m *meter) consume(s *tracer.Span) {
	defer m.catch()
	if r := m.of(s.Agent); r != nil {
		r.Count(s.Facts())
	}
}

// remember notes a span that was counted before, perhaps by another process.
func (m *meter) remember(out mapping.Output) {
	defer m.catch()
	if r := m.of(out.Agent); r != nil && out.Span != nil {
		var span runs.Span
		_ = span.Read(out.Span) // the mapper's spans are valid
		r.Remember(&span)
	}
}

// setOpen replaces the spans that have not ended. If saved is set, it returns the metrics that
// would be lost if the process were killed now.
func (m *meter) setOpen(spans []mapping.Output, saved bool) (ifKilled []byte) {
	defer m.catch()
	open := map[*metrics.Recorder][][]byte{}
	for _, out := range spans {
		if r := m.of(out.Agent); r != nil {
			open[r] = append(open[r], out.Span)
		}
	}
	if saved {
		ifKilled = []byte{} // which replaces an earlier one
	}
	for _, r := range m.all() {
		r.SetOpen(open[r])
		if saved {
			ifKilled = append(ifKilled, r.Snapshot(open[r])...) // requests in a row are one
		}
	}
	return ifKilled
}

// catch is deferred: a bug in the metrics must end neither the process nor the trace.
func (m *meter) catch() {
	if p := recover(); p != nil {
		m.failed(fmt.Errorf("the metrics are incomplete: a bug in spantee: %v", p))
	}
}

// close sends the last values, with what became of the spans. If they are not delivered, it
// returns why, and what is left to send.
func (m *meter) close(ctx context.Context, spans exporter.Report) (left []byte, err error) {
	m.mu.Lock()
	own := m.own
	m.mu.Unlock()
	if own != nil { // once, whatever other agents there are
		own.Spans(spans.Delivered, spans.Spooled, spans.Rejected+spans.Dropped)
	}
	list := m.all()
	errs, requests := make([]error, len(list)), make([][]byte, len(list))
	var closing sync.WaitGroup
	for i, r := range list {
		closing.Go(func() { requests[i], errs[i] = r.Close(ctx) })
	}
	closing.Wait()
	return slices.Concat(requests...), cmp.Or(errs...)
}
