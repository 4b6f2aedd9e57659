package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	attr "go.opentelemetry.io/otel/attribute"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
)

// A meter counts what agents do. Each agent is a service, which has a Recorder from the
// agent's first run on.
type meter struct {
	to     *otlp.Settings                          // nil if metrics go nowhere
	spans  exporter.Client                         // whose connection metrics share; may be nil
	spool  *spool.Spool                            // nil if nothing is kept
	from   func(agent string) *resourcepb.Resource // the service that an agent's spans come from
	failed func(error)
	gate   *metrics.Gate

	mu          sync.Mutex // the end does not wait for a mapper that hangs
	ended       bool
	lastArrival time.Time
	byAgent     map[string]*metrics.Recorder // nil for one that could not be started
	byService   map[attr.Distinct]*metrics.Recorder
	own         *metrics.Recorder // of the stream's first agent; nil if there is none
}

func newMeter(to *otlp.Settings, failed func(error)) *meter {
	return &meter{
		to: to, failed: failed, gate: metrics.NewGate(), lastArrival: time.Now(),
		byAgent: map[string]*metrics.Recorder{}, byService: map[attr.Distinct]*metrics.Recorder{},
	}
}

// of returns the Recorder of an agent, nil if there can be none.
func (m *meter) of(agent string) *metrics.Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.byAgent[agent]
	if !known && m.to != nil {
		r = m.service(m.from(agent))
		m.byAgent[agent] = r
		m.own = cmp.Or(m.own, r)
	}
	return r
}

// service returns the Recorder of a service. It is called with mu held.
func (m *meter) service(of *resourcepb.Resource) *metrics.Recorder {
	resource := metrics.Resource(of, os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), tracer.NewInstanceID())
	same, _ := attr.NewSetWithFiltered(resource.Attributes(), attr.NewDenyKeysFilter("service.instance.id"))
	name := same.Equivalent()
	if r := m.byService[name]; r != nil || m.ended || m.to == nil {
		return r
	}
	r := metrics.New(metrics.Config{Exporter: m.to.MetricExporter(m.spans), Version: tracer.Version(), Resource: resource, Gate: m.gate, Spool: m.spool})
	r.Received(m.lastArrival)
	m.byService[name] = r
	return r
}

// countKilled counts the spans that were open when a process was killed. The process has
// counted those that had ended, and its metrics wait in the spool.
func (m *meter) countKilled(open []*spool.Span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, spans := range spool.Requests(open) {
		resource := new(resourcepb.Resource)
		if proto.Unmarshal(spans[0].Of.Resource, resource) != nil {
			continue // no process of this version has written it
		}
		resource.Attributes = slices.DeleteFunc(resource.Attributes, func(kv *commonpb.KeyValue) bool {
			return kv.Key == "service.instance.id" // it is another's
		})
		if r := m.service(resource); r != nil {
			for _, killed := range spans {
				var span runs.Span
				if span.Read(killed.Encoded()) == nil {
					r.Count(&span)
				}
			}
		}
	}
}

// started returns the Recorders that there are.
func (m *meter) started() []*metrics.Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.byService))
}

// received notes that bytes of the stream came.
func (m *meter) received(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastArrival = at
	for _, r := range m.byService {
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

// setOpen replaces the spans that have not ended.
func (m *meter) setOpen(spans []mapping.Output) {
	defer m.catch()
	open := map[*metrics.Recorder][][]byte{}
	for _, out := range spans {
		if r := m.of(out.Agent); r != nil {
			open[r] = append(open[r], out.Span)
		}
	}
	for _, r := range m.started() {
		r.SetOpen(open[r])
	}
}

// catch is deferred: a bug in the metrics must end neither the process nor the trace.
func (m *meter) catch() {
	if p := recover(); p != nil {
		m.failed(fmt.Errorf("the metrics are incomplete: a bug in spantee: %v", p))
	}
}

// save makes what was counted survive a kill.
func (m *meter) save() {
	for _, r := range m.started() {
		r.Save()
	}
}

// close sends the last values, with what became of the spans.
func (m *meter) close(ctx context.Context, spans exporter.Report) (total metrics.Report) {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	list := m.started()
	reports := make([]metrics.Report, len(list))
	var closing sync.WaitGroup
	if m.own != nil { // once, whatever other agents there are
		m.own.Spans(spans.Delivered, spans.Spooled, spans.Rejected+spans.Dropped)
	}
	for i, r := range list {
		closing.Go(func() { reports[i] = r.Close(ctx) })
	}
	closing.Wait()
	for _, r := range reports {
		total.Delivered += r.Delivered
		total.Lost += r.Lost
		total.Spooled += r.Spooled
		total.Rejected += r.Rejected
		total.Cause = cmp.Or(total.Cause, r.Cause)
		total.NotKept = cmp.Or(total.NotKept, r.NotKept)
		total.Losses.Add(r.Losses)
		total.Earlier.Add(r.Earlier)
	}
	kept := min(total.Spooled, total.Losses.OwnPoints) // of one agent, evicted for those of another
	total.Spooled -= kept
	total.Rejected -= total.Losses.OwnPoints - kept
	total.Lost += total.Losses.OwnPoints
	return total
}
