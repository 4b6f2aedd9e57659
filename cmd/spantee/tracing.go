package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/propagators/envcar"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
)

const (
	// livePatience is how long a live stream may be held up by the mapper, all
	// in all.
	livePatience = 100 * time.Millisecond

	// replayPatience is the same for a recording. There the mapper waits for
	// the exporter, which gives up sooner, and nobody for the stream.
	replayPatience = 30 * time.Second

	// mapperGrace is how long a mapper that nobody makes wait may end no span
	// before it is taken to hang.
	mapperGrace = time.Second
)

// tracing is all that hangs on the tap.
type tracing struct {
	*options
	cfg      *config
	tap      *tap // nil if there is nothing to trace for
	say      *reporter
	came     time.Time // when the bytes at hand came
	mapper   *mapping.Mapper
	exporter *exporter.Exporter // nil if no spans are to be sent
	tree     *tree.Writer       // nil if none is to be drawn
	page     *page              // nil if none is to be shown
	metrics  *metrics.Recorder  // nil if none are to be sent
	step     *stepSummary       // nil outside of GitHub Actions

	watch     watch
	overLimit string    // the limit that the bytes at hand reached
	heard     time.Time // when bytes came last
	live      bool
	process   *mapping.Process // nil if spantee did not start the agent
	ended     exitStatus       // how it did
	details   bool             // content was asked for
	stderr    tail             // of the process, if there are details

	generation int           // of the runs at the last checkpoint
	changed    bool          // something came since
	settled    int           // spans at the last checkpoint
	saved      time.Time     // when that was
	saving     time.Duration // how long it took
}

// startTracing sets up what the configuration asks for.
//
// A recording was last written when replayed says, which is zero for a live
// stream. process is the agent, nil if somebody else started it.
func startTracing(o *options, cfg *config, say *reporter, replayed time.Time, process *mapping.Process) (*tracing, error) {
	t := &tracing{options: o, cfg: cfg, say: say, came: time.Now(), live: replayed.IsZero(), process: process}
	t.heard = t.came
	t.watch.stallAfter = o.stallAfter
	t.details = cfg.content.level != content.None
	opts := mapping.Options{
		Agent: o.agent, Deltas: mapping.Deltas(o.deltas), MaxSpanEvents: o.maxSpanEvents,
		Replay: replayed, Parent: cfg.parent,
		Now:  func() time.Time { return t.came },
		Emit: t.emit, RunEnded: say.runEnded,
		Process: process,
	}
	cfg.content.applyTo(&opts)
	var err error
	if t.mapper, err = mapping.New(opts); err != nil {
		return nil, err
	}
	resource := cfg.resource(o.agent, t.live, process, say)
	if t.exporter, err = cfg.startExporter(resource, !t.live, say); err != nil {
		return nil, err
	}
	if t.metrics, err = cfg.startMetrics(resource, !t.live); err != nil {
		say.problem(fmt.Errorf("no metrics are sent: %w", err))
	}
	if o.tree {
		t.tree = tree.NewWriter(say.w, say.treeStyle())
	}
	t.step = newStepSummary(o.quiet)
	if o.show {
		if t.page, err = o.startPage(say); err != nil {
			return nil, err
		}
	}
	say.tracing = t.exporter != nil || t.tree != nil || t.page != nil || t.step != nil
	return t, nil
}

// startExporter returns nil if spans go nowhere.
func (c *config) startExporter(resource *resourcepb.Resource, recording bool, say *reporter) (*exporter.Exporter, error) {
	client, err := c.to.open()
	if err != nil && strings.HasPrefix(c.to.source, "$") {
		say.problem(fmt.Errorf("no spans are sent: %w", err))
		return nil, nil
	}
	if client == nil || err != nil {
		return nil, err
	}
	return exporter.New(exporter.Config{Client: client, Spool: c.spool, Resource: resource, Scope: scope(), Wait: recording})
}

// serviceName is that of an agent, by default of the first one.
func serviceName(flag string) string {
	if a := agent.Find(flag); a != nil {
		return a.Name
	}
	return agent.Agents[0].Name
}

// start begins to trace what comes through the tap.
func (t *tracing) start() {
	if !t.say.tracing && t.metrics == nil && t.watch.limits == nil {
		return
	}
	patience := livePatience
	if !t.live {
		patience = replayPatience
	}
	t.changed = t.process != nil // its root has begun
	t.saved = time.Now()
	t.tap = newTap(patience, t)
}

// consume takes the next bytes of the stream from the tap.
func (t *tracing) consume(p []byte, came time.Time) {
	t.came = came
	t.heard, t.watch.stalled = came, false
	if t.metrics != nil {
		t.metrics.Received(came)
	}
	t.mapper.Write(p)
	t.changed = true
	t.reached(t.overLimit)
	t.overLimit = ""
	if t.mapper.Stats().Generation != t.generation { // what is on disk has the wrong roots, or ids
		t.checkpoint()
	}
}

// tick comes every second.
func (t *tracing) tick() {
	t.look(time.Now())
	if t.changed || t.exporter != nil && t.exporter.Settled() != t.settled || time.Since(t.saved) > spool.Heartbeat {
		t.checkpoint()
	}
}

// checkpoint prepares for spantee to be killed. With thousands of sessions open
// at once it takes its time, and comes the less often.
func (t *tracing) checkpoint() {
	start := time.Now()
	if t.exporter == nil && t.metrics == nil || start.Sub(t.saved) < 20*t.saving {
		return
	}
	open, err := t.openSpans()
	if t.metrics != nil {
		t.metrics.SetOpen(open)
	}
	if t.exporter != nil {
		t.settled = t.exporter.Settled()
		if err == nil {
			err = t.exporter.Checkpoint(t.cfg.sampler.sampled(open))
		}
		t.say.checkpointed(err)
	}
	t.generation, t.changed = t.mapper.Stats().Generation, false
	t.saved, t.saving = time.Now(), time.Since(start)
}

// finish ends all spans.
func (t *tracing) finish(whole bool) {
	t.came = time.Now()
	if t.process != nil {
		t.mapper.Exited(t.ended.code, signalName(t.ended.signal), t.stderr.String())
	}
	t.mapper.Close(!whole)
}

// environment returns that of the process, with the trace that it is part of.
func (t *tracing) environment() []string {
	env := os.Environ()
	if t.exporter == nil {
		return env
	}
	env = slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "TRACEPARENT=") || strings.HasPrefix(kv, "TRACESTATE=")
	})
	root := t.mapper.Root()
	if !t.cfg.sampler.keeps(root.TraceID()) {
		root = root.WithTraceFlags(root.TraceFlags().WithSampled(false))
	}
	ctx := trace.ContextWithSpanContext(context.Background(), root)
	propagation.TraceContext{}.Inject(ctx, &envcar.Carrier{SetEnvFunc: func(key, value string) {
		env = append(env, key+"="+value)
	}})
	return env
}

// emit takes a finished span from the mapper.
func (t *tracing) emit(span []byte) {
	if t.exporter != nil && t.cfg.sampler.keepsSpan(span) {
		t.exporter.Export(span)
	}
	if t.metrics != nil {
		if err := t.metrics.Export(span); err != nil {
			t.say.problem(err)
		}
	}
	if l := t.watch.limits; l != nil {
		t.overLimit = cmp.Or(t.overLimit, l.count(span))
	}
	if t.tree == nil && t.page == nil && t.step == nil {
		return
	}
	decoded := new(tracepb.Span)
	if err := proto.Unmarshal(span, decoded); err != nil {
		t.say.problem(fmt.Errorf("a span is not shown: %w", err))
		return
	}
	if t.tree != nil {
		t.tree.Export(decoded)
	}
	if t.page != nil {
		t.page.take(decoded)
	}
	if t.step != nil {
		t.step.take(decoded)
	}
}

// openSpans are the spans that have not ended.
func (t *tracing) openSpans() (open []*tracepb.Span, err error) {
	for _, span := range t.mapper.Open() {
		decoded := new(tracepb.Span)
		if err := proto.Unmarshal(span, decoded); err != nil {
			return nil, err
		}
		open = append(open, decoded)
	}
	return open, nil
}

// end ends the trace, and delivers what it can within the flush timeout.
func (t *tracing) end(interrupted bool) {
	ctx, cancel := context.WithTimeout(context.Background(), t.flushTimeout)
	defer cancel()
	if t.tap == nil {
		t.deliver(ctx) // nothing
		t.endMetrics(ctx)
		return
	}
	var why error
	if interrupted {
		why = errInterrupted
	}
	t.tap.end(why)
	select {
	case <-t.tap.done:
	case <-ctx.Done():
		if !t.drained(ctx) {
			t.say.hangs()
			return // the mapper is not to be touched
		}
	}
	t.say.stats = t.mapper.Stats()
	if err := t.tap.err(); !errors.Is(err, errInterrupted) {
		t.say.failure = err
	}
	if t.tree != nil {
		if err := t.tree.Close(); err != nil {
			t.say.problem(fmt.Errorf("the tree: %w", err))
		}
	}
	if t.step != nil {
		if err := t.step.end(t.say); err != nil {
			t.say.problem(fmt.Errorf("the step summary: %w", err))
		}
	}
	t.deliver(ctx)
	t.endMetrics(ctx)
}

var errInterrupted = errors.New("a signal came")

// drained waits, past the flush timeout, for as long as the mapper ends spans:
// there may be a few megabytes it is behind. Delivering nothing more is what
// sets one free that waits for the exporter.
func (t *tracing) drained(ctx context.Context) bool {
	for ended := -1; ; ended = t.say.delivery.Ended {
		t.deliver(ctx)
		if t.say.delivery.Ended == ended {
			return false
		}
		select {
		case <-t.tap.done:
			return true
		case <-time.After(mapperGrace):
		}
	}
}

func (t *tracing) deliver(ctx context.Context) {
	if t.exporter != nil {
		t.say.delivery = t.exporter.Close(ctx)
	}
}

// lastWritten returns when stdin, if it is a file, was last written: it is then
// a recording, and zero if it is live.
func lastWritten(stdin *os.File) time.Time {
	info, err := stdin.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}
