package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
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
	// mapperGrace is how long a mapper that nobody makes wait may not advance at
	// the end before it is taken to hang.
	mapperGrace = stallLimit

	// countGrace is how long the disk has to tell how much was not traced.
	countGrace = time.Second
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

	untraced untraced      // what the mapper did not see, once it is finished
	emitted  atomic.Int64  // spans that have ended
	edges    int           // of the runs at the last checkpoint
	changed  bool          // something came since
	open     int           // spans that had not ended at the last checkpoint
	settled  int           // spans that were out of memory then
	saved    time.Time     // when that was
	saving   time.Duration // how long it took
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
	t.changed = t.process != nil // its root has begun
	t.saved = time.Now()
	t.tap = newTap(t, t.live, t.spillDir(), t.spillMax.bytes)
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

// tick is called a second after something came, and again until all that ended
// is out of memory and the journal knows it.
func (t *tracing) tick() time.Duration {
	switch {
	case t.exporter == nil:
		return 0
	case t.changed || t.exporter.Settled() != t.settled || time.Since(t.saved) > spool.Heartbeat:
		t.checkpoint()
	}
	switch {
	case t.changed || int64(t.settled) < t.emitted.Load():
		return time.Second
	case t.open > 0:
		return spool.Heartbeat
	}
	return 0
}

// backlog tells the exporter whether the mapper has time to wait for it.
func (t *tracing) backlog(wait bool) {
	if t.exporter != nil {
		t.exporter.SetWait(wait)
	}
}

// progress grows with every span.
func (t *tracing) progress() int64 { return t.emitted.Load() }

// checkpoint prepares for spantee to be killed. With thousands of sessions open
// at once it takes its time, and comes the less often.
func (t *tracing) checkpoint() {
	start := time.Now()
	if t.exporter == nil || start.Sub(t.saved) < 20*t.saving {
		return
	}
	t.settled = t.exporter.Settled()
	open := t.mapper.Open()
	t.say.checkpointed(t.exporter.Checkpoint(open))
	t.open = len(open)
	t.edges, t.changed = t.mapper.Stats().Edges, false
	t.saved, t.saving = time.Now(), time.Since(start)
}

// finish ends all spans.
func (t *tracing) finish(whole bool, lost untraced) {
	t.came = time.Now()
	t.untraced = lost
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
	defer t.emitted.Add(1)
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

// end ends the trace. It waits for the mapper as long as that advances, and then
// delivers what it can within the flush timeout.
func (t *tracing) end(interrupted bool) {
	if t.tap == nil {
		t.deliver(t.flushTimeout) // nothing
		return
	}
	t.tap.close(!interrupted)
	patience := t.flushTimeout
	if !t.live && !interrupted {
		patience = math.MaxInt64 // for the exporter, which knows when a collector takes nothing
	}
	timeout := t.flushTimeout
	if !t.tap.wait(patience) {
		// It may wait for the exporter, which lets it go once it delivers nothing more.
		timeout = 0
		t.deliver(timeout)
		if !t.tap.wait(mapperGrace) {
			t.say.hangs(t.lost())
			return // the mapper is not to be touched
		}
	}
	t.say.stats = t.mapper.Stats()
	t.say.failure, t.say.lost = t.tap.err(), t.untraced
	if t.tree != nil {
		if err := t.tree.Close(); err != nil {
			t.say.problem(fmt.Sprintf("the tree: %v", err))
		}
	}
	t.deliver(timeout)
}

// lost is what a mapper that hangs has not seen. The disk may be why it hangs.
func (t *tracing) lost() untraced {
	counted := make(chan untraced, 1)
	go func() { counted <- t.tap.lost() }()
	select {
	case lost := <-counted:
		return lost
	case <-time.After(countGrace):
		return untraced{}
	}
}

// deliver closes the exporter. A live stream gives the collector timeout in all;
// a recording gives it as much for each answer.
func (t *tracing) deliver(timeout time.Duration) {
	if t.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	if !t.live {
		cancel()
		ctx, cancel = t.whileTaken(timeout)
	}
	defer cancel()
	t.say.delivery = t.exporter.Close(ctx)
}

// whileTaken returns a context that ends when the collector takes nothing for
// timeout.
func (t *tracing) whileTaken(timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for before := -1; t.exporter.Settled() != before; {
			before = t.exporter.Settled()
			select {
			case <-ctx.Done():
			case <-time.After(timeout):
			}
		}
	}()
	return ctx, cancel
}

// spillDir returns where what the mapper has not seen is put aside, "" for
// nowhere. It is beside the spool, and never where others can write.
func (o *options) spillDir() string {
	s, err := spool.Default()
	if o.noSpool || err != nil {
		return ""
	}
	return filepath.Dir(s.Dir)
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
