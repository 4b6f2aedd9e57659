package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/propagators/envcar"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
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
	tap      *tap // nil if there is nothing to trace for
	say      *reporter
	came     time.Time // when the bytes at hand came
	mapper   *mapping.Mapper
	exporter *exporter.Exporter   // nil if no spans are to be sent
	tree     *exporter.TreeWriter // nil if none is to be drawn
	page     *page                // nil if none is to be shown

	live    bool
	process *mapping.Process // nil if spantee did not start the agent
	ended   exitStatus       // how it did
	details bool             // content was asked for
	stderr  tail             // of the process, if there are details

	edges   int           // of the runs at the last checkpoint
	changed bool          // something came since
	settled int           // spans at the last checkpoint
	saved   time.Time     // when that was
	saving  time.Duration // how long it took
}

// startTracing sets up what the flags and the environment ask for. Wrong flags
// are an error. A wrong environment is not: it must not break a pipe.
//
// A recording was last written when replayed says, which is zero for a live
// stream. process is the agent, nil if somebody else started it.
func startTracing(o *options, say *reporter, replayed time.Time, process *mapping.Process) (*tracing, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.traceURL == "" {
		o.traceURL = os.Getenv("SPANTEE_TRACE_URL")
		if err := checkTraceURL("$SPANTEE_TRACE_URL", o.traceURL); err != nil {
			say.problem(withHint(err))
			o.traceURL = ""
		}
	}
	t := &tracing{options: o, say: say, came: time.Now(), live: replayed.IsZero(), process: process}

	if o.show && !o.goesElsewhere() && o.maxAttributeBytes == defaultAttributeBytes {
		o.maxAttributeBytes = viewerAttributeBytes
	}
	opts := mapping.Options{
		Agent: o.agent, Deltas: mapping.Deltas(o.deltas), MaxSpanEvents: o.maxSpanEvents,
		Replay: replayed,
		Now:    func() time.Time { return t.came },
		Emit:   t.emit, RunEnded: say.runEnded,
		Process: process,
	}
	if !o.ignoreTraceparent {
		opts.Parent = parentFromEnvironment()
	}
	err := o.applyTo(&opts, say.problem)
	if err != nil {
		return nil, err
	}
	t.details = opts.Content == mapping.ContentDetails || opts.Content == mapping.ContentFull
	if t.mapper, err = mapping.New(opts); err != nil {
		return nil, err
	}

	client, err := o.client()
	switch {
	case err != nil && (o.toFile != "" || !reflect.ValueOf(o.otlp).IsZero()) && !fromEnvironment(err):
		return nil, err
	case err != nil:
		say.problem("no spans are sent: " + withHint(err))
	case opts.Parent.IsValid() && !opts.Parent.IsSampled():
		say.problem("$TRACEPARENT says not sampled, so no spans are sent (--ignore-traceparent sends them)")
	case client != nil:
		resource, err := exporter.Resource(context.Background(), mapping.Cursor, "")
		if err != nil {
			say.problem(withHint(err))
		}
		t.exporter = exporter.New(exporter.Config{
			Client:   client,
			Spool:    o.spool(),
			Resource: resource,
			Scope:    scope(),
			Wait:     !t.live,
		})
	}
	if o.tree {
		t.tree = exporter.NewTreeWriter(say.w, say.treeStyle())
	}
	if o.show {
		if t.page, err = o.startPage(say); err != nil {
			return nil, err
		}
	}
	say.tracing = t.exporter != nil || t.tree != nil || t.page != nil
	return t, nil
}

// start begins to trace what comes through the tap.
func (t *tracing) start() {
	if !t.say.tracing {
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
	t.mapper.Write(p)
	t.changed = true
	if t.mapper.Stats().Edges != t.edges { // what is on disk has the wrong roots, or ids
		t.checkpoint()
	}
}

// tick comes every second.
func (t *tracing) tick() {
	if t.page != nil {
		t.page.open(t.mapper.Open())
	}
	if t.changed || t.exporter != nil && t.exporter.Settled() != t.settled || time.Since(t.saved) > spool.Heartbeat {
		t.checkpoint()
	}
}

// checkpoint prepares for spantee to be killed. With thousands of sessions open
// at once it takes its time, and comes the less often.
func (t *tracing) checkpoint() {
	start := time.Now()
	if t.exporter == nil || start.Sub(t.saved) < 20*t.saving {
		return
	}
	t.settled = t.exporter.Settled()
	t.say.checkpointed(t.exporter.Checkpoint(t.mapper.Open()))
	t.edges, t.changed = t.mapper.Stats().Edges, false
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
	ctx := trace.ContextWithSpanContext(context.Background(), t.mapper.Root())
	propagation.TraceContext{}.Inject(ctx, &envcar.Carrier{SetEnvFunc: func(key, value string) {
		env = append(env, key+"="+value)
	}})
	return env
}

// emit takes a finished span from the mapper.
func (t *tracing) emit(span *tracepb.Span) {
	if t.tree != nil {
		t.tree.Export(span)
	}
	if t.page != nil {
		t.page.take(span)
	}
	if t.exporter != nil {
		t.exporter.Export(span)
	}
}

// end ends the trace, and delivers what it can within the flush timeout.
func (t *tracing) end(interrupted bool) {
	ctx, cancel := context.WithTimeout(context.Background(), t.flushTimeout)
	defer cancel()
	if t.tap == nil {
		t.deliver(ctx) // nothing
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
			t.say.problem(fmt.Sprintf("the tree: %v", err))
		}
	}
	t.deliver(ctx)
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

// spool returns where undelivered spans are kept, nil if nowhere.
func (o *options) spool() *spool.Spool {
	s, err := spool.Default()
	s.Max = o.spoolMax.bytes
	if o.noSpool || s.Max == 0 || err != nil {
		return nil
	}
	return &s
}

// client returns where spans go, nil if nowhere.
func (o *options) client() (exporter.Client, error) {
	if o.show && !o.goesElsewhere() {
		return nil, nil
	}
	if o.toFile != "" {
		return exporter.NewFile(o.toFile)
	}
	if file := os.Getenv("SPANTEE_TO"); file != "" {
		client, err := exporter.NewFile(file)
		if err != nil {
			return nil, fmt.Errorf("$SPANTEE_TO: %w", err)
		}
		return client, nil
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch v := os.Getenv("OTEL_TRACES_EXPORTER"); v {
	case "", "otlp":
		return exporter.NewOTLP(o.otlp)
	case "none":
		return nil, nil
	case "file":
		return nil, fmt.Errorf("$OTEL_TRACES_EXPORTER is file: say which with --to or $SPANTEE_TO")
	default:
		return nil, fmt.Errorf("$OTEL_TRACES_EXPORTER is %q: spantee knows otlp, file and none", v)
	}
}

// fromEnvironment tells whether an error names a variable.
func fromEnvironment(err error) bool {
	return strings.Contains(err.Error(), "OTEL_") || strings.HasPrefix(err.Error(), "$")
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

// parentFromEnvironment returns what $TRACEPARENT and $TRACESTATE point at.
func parentFromEnvironment() trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), new(envcar.Carrier)))
}
