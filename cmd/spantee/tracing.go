package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

// tracing is the consumer of the stream: the mapper and all destinations of its
// spans.
type tracing struct {
	*options
	tee      *tee.Tee
	done     chan struct{} // closed when the mapper is finished
	say      *reporter
	arrival  time.Time // of the current bytes
	mapper   *mapping.Mapper
	exporter *exporter.Exporter // nil if no spans are sent
	tree     *tree.Writer       // nil without --tree
	page     *page              // nil without --view
	open     openSpans          // on the page, or for a viewer
	status   *statusLine        // nil if none is drawn
	services services
	sampler  sampler
	metrics  *meter       // nil if no metrics are sent
	account  *account     // nil if nobody reads it
	step     *stepSummary // nil outside of GitHub Actions
	late     time.Time    // when the end should be over; zero if the mapper did not finish

	watch       watch
	overLimit   string    // the limit that the current bytes reached
	lastArrival time.Time // of any bytes

	live    bool
	process *mapping.Process  // nil if spantee did not start the agent
	ended   proc.Status       // how the agent ended
	details bool              // content was asked for
	stderr  *proc.AgentStderr // nil unless exec records content

	untraced   tee.Lost      // what the mapper did not see; set when it has finished
	emitted    atomic.Int64  // spans that have ended
	generation int           // of the runs at the last checkpoint
	changed    bool          // bytes have arrived since the last checkpoint
	unsaved    int           // bytes of spans since the last checkpoint or end of a piece
	saved      time.Time     // when the last checkpoint was
	saving     time.Duration // how long the last checkpoint took
}

// startTracing sets up what the configuration asks for. rec is nil for a live
// stream. process is the agent, nil if spantee did not start it.
func startTracing(o *options, cfg *config, say *reporter, rec *recording, process *mapping.Process) (*tracing, error) {
	t := &tracing{options: o, say: say, arrival: time.Now(), live: rec == nil, process: process, sampler: cfg.sampler}
	t.services = cfg.services(t.live, process)
	t.lastArrival = t.arrival
	var err error
	if t.account, err = o.account(); err != nil {
		return nil, err
	}
	t.step = newStepSummary(o.quiet)
	t.watch.stallAfter = o.stallAfter
	t.details = cfg.content.level != content.None
	if cfg.content.maxIsDefault && (cfg.to.file != "" || o.show && !cfg.to.isSet()) {
		cfg.content.maxAttributeBytes = wholeAttributeBytes // only a file or the viewer gets these spans
	}
	if rec == nil {
		rec = new(recording)
	}
	say.again = rec.again
	if t.mapper, err = t.newMapper(rec); err != nil {
		return nil, err
	}
	resource, err := t.services.of(presumed(o.agent))
	if err != nil {
		say.problem(err)
	}
	client, err := cfg.to.open()
	if err != nil && strings.HasPrefix(cfg.to.source, "$") {
		say.problem(fmt.Errorf("no spans are sent: %w", err))
		client, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if t.metrics = t.meter(cfg, client); t.metrics != nil && cfg.spool != nil {
		cfg.spool.Recovered = t.metrics.countKilled
	}
	if err := t.startExporter(cfg, client, resource); err != nil {
		return nil, err
	}
	if o.tree {
		t.tree = tree.NewWriter(say.w, say.treeStyle())
	}
	if o.show {
		if t.page, err = o.startPage(say); err != nil {
			return nil, err
		}
	}
	t.open = openSpans{page: t.page, feed: t.feed(cfg, client)}
	if !t.live {
		t.askViewer(cfg)
	}
	say.hasDestination = t.exporter != nil || t.tree != nil || t.page != nil || t.account != nil
	return t, nil
}

// newMapper returns a mapper for a stream.
func (t *tracing) newMapper(rec *recording) (*mapping.Mapper, error) {
	opts := mapping.Options{
		Agent: t.agent, Deltas: mapping.Deltas(t.deltas), MaxSpanEvents: t.maxSpanEvents,
		Replay: rec.written, Shift: rec.shift, Parent: t.say.cfg.parent,
		Now:  func() time.Time { return t.arrival },
		Emit: t.emit, RunStarted: t.say.runStarted, RunEnded: t.say.runEnded,
		Process: t.process,
	}
	t.say.cfg.content.applyTo(&opts)
	return mapping.New(opts)
}

// startExporter starts an exporter, unless spans go nowhere. A recording needs no
// spool, because it can be sent again.
func (t *tracing) startExporter(cfg *config, client exporter.Client, resource *resourcepb.Resource) (err error) {
	if client == nil {
		return nil
	}
	to := exporter.Config{Client: client, Spool: cfg.spool, Resource: resource, Scope: scope()}
	if !t.live {
		to.Spool, to.Wait = nil, true
	}
	t.exporter, err = exporter.New(to)
	return err
}

// start returns the copy from in to out, and begins to trace it.
func (t *tracing) start(in io.Reader, out io.Writer) *tee.Tee {
	t.tee = tee.New(in, out, tee.Options{
		Recording: !t.live, SpillDir: t.spillDir(), SpillMax: t.spillMax.bytes,
		Progress: t.emitted.Load, Hurry: func() { t.setWait(false) },
	})
	t.changed = t.process != nil // the root of the process has begun
	t.saved = time.Now()
	t.done = make(chan struct{})
	if t.say.hasDestination || t.metrics != nil || t.watch.limits != nil {
		go t.run()
	} else {
		t.tee.Detach(errUnneeded)
		close(t.done)
	}
	return t.tee
}

// errUnneeded detaches a mapper whose spans have no destination.
var errUnneeded = errors.New("tracing is disabled")

// run maps the stream until its end. If the mapper panics, the stream goes on.
func (t *tracing) run() {
	defer close(t.done)
	t.guard(t.follow)
	whole, lost := t.tee.Ended()
	t.guard(func() { t.finish(whole, lost) })
}

// guard recovers a panic of the mapper.
func (t *tracing) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			t.tee.Detach(fmt.Errorf("a bug in spantee: %v", p))
		}
	}()
	f()
}

// maxPiece is how much of the stream is mapped before its spans are journaled and
// may be sent.
const maxPiece = 64 << 10

// follow maps the stream.
func (t *tracing) follow() {
	buf := make([]byte, maxPiece)
	behind := false
	for due := after(t.tick()); ; {
		piece, err := t.tee.Next(buf, due)
		if err != nil {
			return
		}
		if len(piece.Bytes) > 0 {
			if piece.Behind != behind {
				behind = piece.Behind
				t.setWait(behind)
			}
			t.consume(piece.Bytes, piece.Arrived)
		}
		soon := time.Now().Add(time.Second)
		switch {
		case !due.IsZero() && !due.Add(time.Second).After(soon):
			due = after(t.tick())
		case due.IsZero() || due.After(soon):
			due = soon
		}
	}
}

// after returns when a delay is over, the zero time if there is none.
func after(delay time.Duration) time.Time {
	if delay == 0 {
		return time.Time{}
	}
	return time.Now().Add(delay)
}

// consume maps a piece of the stream.
func (t *tracing) consume(p []byte, arrival time.Time) {
	t.arrival = arrival
	t.lastArrival, t.watch.stalled = arrival, false
	if t.metrics != nil {
		t.metrics.received(arrival)
	}
	t.metrics.count()
	t.begin()
	t.fitViewer()
	t.mapper.Write(p)
	t.changed = true
	t.reached(t.overLimit)
	t.overLimit = ""
	if t.mapper.Stats().Generation != t.open.generation { // a run began or got its final ids
		t.showOpen()
	}
	switch {
	case t.mapper.Stats().Generation != t.generation: // the journal has the wrong roots or ids
		t.checkpoint()
	case t.exporter != nil:
		t.exporter.Commit()
		t.unsaved = 0
	}
}

// begin is called before a piece of the stream is mapped. It does nothing for a
// recording: it has no journal, and its end may release all its spans at once, so its
// spans must be able to wait for room within the piece.
func (t *tracing) begin() {
	if t.exporter != nil && t.live {
		t.exporter.Begin()
	}
}

// tick is called one second after bytes arrive, again until the journal has
// everything, and when the stream may have been silent for too long. It returns how
// long until it must be called in any case, 0 for never.
func (t *tracing) tick() time.Duration {
	next := soonest(t.look(time.Now()), soonest(t.showOpen(), t.showStatus(time.Now())))
	switch {
	case t.exporter == nil && t.metrics == nil || !t.live:
		return next
	case t.changed:
		t.checkpoint()
	}
	t.metrics.count()
	if t.changed {
		return soonest(next, time.Second)
	}
	return next
}

// setWait tells the exporter whether the mapper may wait for it.
func (t *tracing) setWait(wait bool) {
	if t.exporter != nil {
		t.exporter.SetWait(wait)
	}
}

// maxUnsaved is how many bytes of spans may wait for a checkpoint.
const maxUnsaved = 1 << 20

// checkpoint saves what a killed spantee would lose. With thousands of open
// sessions it takes a while, so it runs less often, and until then the spans of
// this piece of the stream wait. A recording needs no checkpoints.
func (t *tracing) checkpoint() {
	start := time.Now()
	if t.exporter == nil && t.metrics == nil || !t.live || start.Sub(t.saved) < 20*t.saving && t.unsaved < maxUnsaved {
		return
	}
	t.unsaved = 0
	var open []exporter.OpenSpan
	counted := map[string][][]byte{}
	t.mapper.Open(func(span []byte, agent string) {
		span = slices.Clone(span)
		if t.exporter != nil && t.sampler.keepsSpan(span) {
			from, _ := t.services.of(agent)
			open = append(open, exporter.OpenSpan{Span: span, From: from})
		}
		if t.metrics != nil {
			counted[agent] = append(counted[agent], span)
		}
	})
	if t.metrics != nil {
		t.metrics.setOpen(counted)
	}
	if t.exporter != nil {
		t.say.checkpointed(t.exporter.Checkpoint(open))
	}
	t.generation, t.changed = t.mapper.Stats().Generation, false
	t.saved, t.saving = time.Now(), time.Since(start)
}

// finish ends all spans.
func (t *tracing) finish(whole bool, lost tee.Lost) {
	if t.status != nil {
		t.status.say.w.Status("")
	}
	t.arrival = time.Now()
	t.untraced = lost
	t.mapper.SetUntraced(lost.Bytes, lost.Lines)
	if t.process != nil {
		t.mapper.SetExit(t.ended.Code, proc.SignalName(t.ended.Signal), t.stderr.String())
	}
	t.begin()
	t.mapper.Close(!whole)
	if t.exporter != nil {
		t.say.checkpointed(t.exporter.Checkpoint(nil))
	}
	if t.metrics != nil {
		go t.metrics.count() // while the spans are delivered
	}
}

// environment returns the environment of the process, with the trace that it is
// part of.
func (t *tracing) environment() []string {
	env := os.Environ()
	if t.exporter == nil {
		return env
	}
	env = slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "TRACEPARENT=") || strings.HasPrefix(kv, "TRACESTATE=")
	})
	root := t.mapper.Root()
	if !t.sampler.keeps(root.TraceID()) {
		root = root.WithTraceFlags(root.TraceFlags().WithSampled(false))
	}
	ctx := trace.ContextWithSpanContext(context.Background(), root)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for _, key := range []string{"traceparent", "tracestate"} {
		if value := carrier.Get(key); value != "" {
			env = append(env, strings.ToUpper(key)+"="+value)
		}
	}
	return env
}

// emit handles a finished span from the mapper.
func (t *tracing) emit(span []byte, agent string) {
	defer t.emitted.Add(1)
	t.unsaved += len(span)
	from, _ := t.services.of(agent) // the error was reported for the first agent
	if t.exporter != nil && t.sampler.keepsSpan(span) {
		t.exporter.Export(span, from)
	}
	if t.metrics != nil {
		t.metrics.add(span, agent)
	}
	if l := t.watch.limits; l != nil {
		t.overLimit = cmp.Or(t.overLimit, l.count(span))
	}
	if t.page != nil {
		t.page.take(span, from)
	}
	if t.tree == nil && t.account == nil {
		return
	}
	decoded := new(runs.Span)
	if err := decoded.Read(span); err != nil {
		t.say.problem(fmt.Errorf("a span is not shown: %w", err))
		return
	}
	if t.account != nil {
		t.account.recorder.Add(decoded)
	}
	if t.tree != nil {
		t.tree.Export(decoded)
	}
	if t.step != nil {
		t.step.take(decoded)
	}
}

// spillDir returns the directory for the spill, "" for none. It is beside the
// spool, and never where others can write.
func (o *options) spillDir() string {
	s, err := spool.Default()
	if o.noSpool || err != nil {
		return ""
	}
	return filepath.Dir(s.Dir)
}
