package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	attr "go.opentelemetry.io/otel/attribute"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/spool"
)

// A metricsConfig says where metrics go.
type metricsConfig struct {
	to         *otlp.Settings // nil if they go nowhere
	recordings bool           // also for recordings
}

// resolveMetrics determines where metrics go: where their own variables say, or
// else where spans go.
//
// Unless $OTEL_METRICS_EXPORTER is set, metrics are sent only if spans are sent by
// OTLP, and only for a live stream: a recording that is sent twice would count
// twice.
func (o *options) resolveMetrics(spans destination, problem func(error)) (c metricsConfig) {
	switch chosen := os.Getenv("OTEL_METRICS_EXPORTER"); {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), chosen == "none", chosen == "" && spans.otlp == nil:
		return metricsConfig{}
	case chosen != "" && chosen != "otlp":
		problem(fmt.Errorf("no metrics are sent: invalid $OTEL_METRICS_EXPORTER %q (want otlp or none)", chosen))
		return metricsConfig{}
	case chosen == "otlp":
		c.recordings = true
	}
	cfg := o.otlp
	cfg.Signal = otlp.Metrics
	settings, err := resolveOTLP(cfg)
	if err != nil {
		problem(fmt.Errorf("no metrics are sent: %w", err))
		return metricsConfig{}
	}
	c.to = settings
	return c
}

// A meter counts what agents do. It counts most spans later, so that the spans of a short
// session are counted while they are delivered. Its methods for a stream do nothing for
// nil.
type meter struct {
	recorders
	from func(agent string) *resourcepb.Resource

	counting sync.Mutex          // is locked before mu
	wire     []byte              // the spans that are not counted yet
	spanEnds []spanEnd           // of each of them
	open     map[string][][]byte // from setOpen; nil if it was not called since the last count
}

// A spanEnd is where a span ends in meter.wire, and whose it is.
type spanEnd struct {
	at    int
	agent string
}

// maxUncounted is how many bytes of spans may wait to be counted.
const maxUncounted = 64 << 10

// recorders are the Recorders of the services: each agent is one, from its first run on.
// A stream without a run has no metrics.
type recorders struct {
	to     *otlp.Settings  // nil if metrics go nowhere
	spans  exporter.Client // whose connection metrics share; may be nil
	spool  *spool.Spool    // nil if nothing is kept
	gate   *metrics.Gate
	failed func(error)

	mu          sync.Mutex // the end does not wait for a mapper that hangs
	ended       bool
	lastArrival time.Time
	byAgent     map[string]*metrics.Recorder // nil for one that could not be started
	byService   map[attr.Distinct]*metrics.Recorder
	list        []*metrics.Recorder // of byService
	own         *metrics.Recorder   // of the stream's first agent; nil if there is none
}

// meter returns nil if metrics go nowhere.
func (t *tracing) meter(spans exporter.Client) *meter {
	to := t.cfg.metrics
	if to.to == nil || !t.to.Live && !to.recordings {
		return nil
	}
	for _, err := range slices.Concat(to.to.Ignored(), metrics.CheckEnvironment()) {
		t.say.problem(err)
	}
	m := newMeter(to.to, t.say.problem)
	m.spans, m.from = spans, t.to.Resources
	if t.to.Live { // a recording can be sent again
		m.spool = t.cfg.spool
	}
	return m
}

func newMeter(to *otlp.Settings, failed func(error)) *meter {
	return &meter{recorders: recorders{
		to: to, failed: failed, gate: metrics.NewGate(), lastArrival: time.Now(),
		byAgent: map[string]*metrics.Recorder{}, byService: map[attr.Distinct]*metrics.Recorder{},
	}}
}

// of returns the Recorder of an agent, nil if there can be none.
func (m *meter) of(agent string) *metrics.Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.byAgent[agent]
	if !known {
		r = m.service(m.from(agent))
		m.byAgent[agent] = r
		m.own = cmp.Or(m.own, r)
	}
	return r
}

// service returns the Recorder of a service. It is called with mu held.
func (rs *recorders) service(of *resourcepb.Resource) *metrics.Recorder {
	resource := metrics.Resource(of, os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), newUUID())
	same, _ := attr.NewSetWithFiltered(resource.Attributes(), attr.NewDenyKeysFilter("service.instance.id"))
	name := same.Equivalent()
	if r := rs.byService[name]; r != nil || rs.ended || rs.to == nil {
		return r
	}
	r, err := metrics.New(metrics.Config{Exporter: rs.to.MetricExporter(rs.spans), Version: tracer.Version(), Resource: resource, Gate: rs.gate, Spool: rs.spool})
	if err != nil {
		rs.failed(fmt.Errorf("no metrics are sent: %w", err))
		return nil
	}
	r.Received(rs.lastArrival)
	rs.byService[name] = r
	rs.list = append(rs.list, r)
	return r
}

// countKilled counts the spans that were open when a process was killed. The process has
// counted those that had ended, and its metrics wait in the spool.
func (rs *recorders) countKilled(recovered spool.Part) {
	resource := new(resourcepb.Resource)
	if err := proto.Unmarshal(recovered.Resource, resource); err != nil {
		return // the spool has done it before
	}
	resource.Attributes = slices.DeleteFunc(resource.Attributes, func(kv *commonpb.KeyValue) bool {
		return kv.Key == "service.instance.id" // it is another's
	})
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.service(resource)
	for _, span := range recovered.Spans {
		_, _, tag := protowire.ConsumeTag(span)
		if wire, n := protowire.ConsumeBytes(span[max(tag, 0):]); n > 0 && r != nil {
			_ = r.Export(wire) // the spool has read it
		}
	}
}

// started returns the Recorders that there are.
func (rs *recorders) started() []*metrics.Recorder {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.list
}

// received notes that bytes of the stream came.
func (m *meter) received(at time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastArrival = at
	for _, r := range m.list {
		r.Received(at)
	}
}

// stalled counts a silence of an agent.
func (m *meter) stalled(agent string) {
	if m == nil {
		return
	}
	if r := m.of(agent); r != nil {
		r.Stalled(agent)
	}
}

// Consume counts a span at once if it is decoded already.
func (m *meter) Consume(s *tracer.Span) {
	if s.Decoded() {
		m.counts(func() {
			if r := m.of(s.Agent); r != nil {
				r.Record(s.Facts())
			}
		})
		return
	}
	m.counting.Lock()
	m.wire = append(m.wire, s.Wire...)
	m.spanEnds = append(m.spanEnds, spanEnd{len(m.wire), s.Agent})
	full := len(m.wire) > maxUncounted
	m.counting.Unlock()
	if full {
		m.count()
	}
}

// setOpen takes the spans that have not ended, by their agents. They replace those of
// the last call when they are counted.
func (m *meter) setOpen(spans map[string][][]byte) {
	m.counting.Lock()
	defer m.counting.Unlock()
	m.open = spans
}

// count counts what has come since the last call.
func (m *meter) count() {
	if m != nil {
		m.counts(m.countWaiting)
	}
}

// save counts what has come, and makes it survive a kill.
func (m *meter) save() {
	if m == nil {
		return
	}
	m.count()
	for _, r := range m.started() {
		r.Save()
	}
}

// counts calls do. A bug there must end neither the process nor the trace.
func (m *meter) counts(do func()) {
	m.counting.Lock()
	defer m.counting.Unlock()
	defer func() {
		if p := recover(); p != nil {
			m.failed(fmt.Errorf("the metrics are incomplete: a bug in spantee: %v", p))
		}
	}()
	do()
}

func (m *meter) countWaiting() {
	wire, ends, open := m.wire, m.spanEnds, m.open
	m.wire, m.spanEnds, m.open = nil, nil, nil
	start := 0
	for _, end := range ends {
		if r := m.of(end.agent); r != nil {
			if err := r.Export(wire[start:end.at]); err != nil {
				m.failed(err)
			}
		}
		start = end.at
	}
	if open != nil {
		m.publishOpen(open)
	}
	if cap(wire) <= 2*maxUncounted {
		m.wire, m.spanEnds = wire[:0], ends[:0]
	}
}

func (m *meter) publishOpen(spans map[string][][]byte) {
	open := map[*metrics.Recorder][][]byte{}
	for agent, list := range spans {
		if r := m.of(agent); r != nil {
			open[r] = append(open[r], list...)
		}
	}
	for _, r := range m.started() {
		r.SetOpen(open[r])
	}
}

// close sends the last values, with what became of the spans.
func (m *meter) close(ctx context.Context, spans exporter.Report) (total metrics.Report) {
	m.count()
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
		total.Evicted.Add(r.Evicted)
		total.Earlier.Add(r.Earlier)
	}
	kept := min(total.Spooled, total.Evicted.OwnPoints) // of one agent, evicted for those of another
	total.Spooled -= kept
	total.Rejected -= total.Evicted.OwnPoints - kept
	total.Lost += total.Evicted.OwnPoints
	return total
}
