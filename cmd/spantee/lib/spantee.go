// Package spantee traces coding agents whose output a Go program reads, such as an
// orchestrator that runs many of them. It passes an agent's stream through unchanged,
// turns it into an OpenTelemetry trace, and reports at the end what the agent did, what it
// used and what failed:
//
//	exporter, err := spantee.NewExporter(spantee.ExporterOptions{})
//	...
//	t, err := spantee.New(ctx, spantee.Options{Exporter: exporter})
//	...
//	cmd.Stdout = t.Tee(os.Stdout)
//	err = cmd.Run()
//	receipt, err := t.Close(ctx)
//
// Each agent has a [Tracer] of its own. Any number of them may run at once and share an
// [Exporter]. Telemetry never hurts the run: writing neither fails nor waits for a
// collector, and only Close waits, at most as long as its context says.
//
// The package changes nothing global, handles no signals, prints nothing, starts no
// goroutine that outlives Close, and keeps nothing on disk unless ExporterOptions.SpoolDir
// names a folder. It reads the environment only if ExporterOptions.Environment is set.
// The libraries beneath it read a few variables by themselves: net/http and grpc-go those
// of proxies, OpenTelemetry's clients OTEL_EXPORTER_OTLP_CERTIFICATE.
//
// The names of this package and the fields of a [Receipt] are stable: within a major version
// of the module, none is renamed or removed, and none changes its meaning. Spans follow the
// OpenTelemetry conventions for generative AI, which may still change.
package spantee

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

// Options configure a Tracer. The zero Options trace an agent only for its Receipt.
type Options struct {
	Exporter *Exporter // sends the spans; nil sends none

	// Agent is the agent's name, such as "cursor", "claude" or "codex"; "" detects it.
	Agent string

	// Content says which content spans have, besides names, sizes, counts and times:
	// "none", "details" (also paths and commands) or "full" (also prompts and results).
	// Secrets are redacted. "" means "none".
	Content string

	// Command, if set, is the program that is run as the agent. The trace then has a root
	// span even if the program prints nothing. Environ makes that span the parent of the
	// program's own spans, and Exited records on it how the program ended.
	Command string
}

// A Receipt says what an agent did, and what became of its spans. Its schema is
// testdata/schema/receipt-1.json.
type Receipt = receipt.Receipt

// An OptionError is an invalid option.
type OptionError struct {
	Option string // such as "Options.Agent"
	Err    error
}

func (e *OptionError) Error() string { return fmt.Sprintf("spantee: invalid %s: %v", e.Option, e.Err) }
func (e *OptionError) Unwrap() error { return e.Err }

// A DeliveryError says that spans were not delivered. The Receipt has the numbers.
type DeliveryError struct {
	Lost  int   // spans that nobody will deliver: they are neither delivered nor spooled
	Cause error // why the first of all undelivered spans was not delivered
}

func (e *DeliveryError) Error() string {
	return fmt.Sprintf("spantee: spans were not delivered (%d lost): %v", e.Lost, e.Cause)
}
func (e *DeliveryError) Unwrap() error { return e.Cause }

// A StoppedError says that a bug in spantee ended tracing before the end of the stream. The
// stream went on.
type StoppedError struct{ Panic any }

func (e *StoppedError) Error() string {
	return fmt.Sprintf("spantee: tracing stopped because of a bug: %v", e.Panic)
}

// A Tracer traces the output of one agent. It may be used by several goroutines.
type Tracer struct {
	recorder receipt.Recorder
	exporter *exporter.Exporter // nil if no spans are sent
	close    sync.Once
	receipt  *Receipt // of Close
	err      error    // of Close

	mu      sync.Mutex // guards the following fields
	stream  *tracer.Stream
	over    bool        // nothing more is traced
	stopped error       // why tracing ended early; may be nil
	save    *time.Timer // calls saveOpen; nil without a spool
	process *mapping.Process
	exit    proc.Status
}

// New returns a Tracer. If ctx has a span, that span is the parent of the agent's. The end
// of ctx does not end the Tracer. The error may be an *[OptionError]. The caller must
// Close the Tracer.
func New(ctx context.Context, o Options) (*Tracer, error) {
	if err := mapping.CheckAgent(o.Agent); err != nil {
		return nil, &OptionError{"Options.Agent", err}
	}
	level := content.Level(o.Content)
	switch level {
	case "", content.None, content.Details, content.Full:
	default:
		return nil, &OptionError{"Options.Content", fmt.Errorf("%q (want none, details or full)", o.Content)}
	}
	e := o.Exporter
	if e == nil {
		e = new(Exporter)
	}
	t := new(Tracer)
	cfg := tracer.Config{
		Mapping:   mapping.Options{Agent: o.Agent, Content: level, Parent: trace.SpanContextFromContext(ctx)},
		Resources: e.resource, Live: e.spool != nil,
	}
	if o.Command != "" {
		t.process = tracer.NewProcess(o.Command)
		cfg.Mapping.Process = t.process
	}
	if e.client != nil {
		t.exporter = e.start()
		cfg.Consumers = append(cfg.Consumers, &tracer.Delivery{Exporter: t.exporter})
	}
	cfg.Consumers = append(cfg.Consumers, tracer.Func(func(s *tracer.Span) { t.recorder.Add(s.Facts()) }))
	var err error
	if t.stream, err = tracer.New(cfg); err != nil {
		return nil, err
	}
	if e.spool != nil {
		t.mu.Lock() // saveOpen must see the timer
		defer t.mu.Unlock()
		t.save = time.AfterFunc(saveInterval, t.saveOpen)
	}
	return t, nil
}

// saveInterval is how often open spans are saved, in case the process is killed.
const saveInterval = time.Second

// Tee returns a Writer for the agent's output: it writes to w, and then to the Tracer. Its
// errors are those of w.
func (t *Tracer) Tee(w io.Writer) io.Writer { return tee{w, t} }

type tee struct {
	w io.Writer
	t *Tracer
}

func (t tee) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	_, _ = t.t.Write(p[:min(max(n, 0), len(p))]) // it never fails; w may have miscounted
	return n, err
}

// Write takes the next bytes of the agent's output. It never fails, also after Close.
func (t *Tracer) Write(p []byte) (int, error) {
	now := time.Now()
	t.locked(func() { t.stream.Write(p, now) })
	return len(p), nil
}

// locked calls do, unless tracing is over. A panic ends tracing, not the program.
func (t *Tracer) locked(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	defer func() {
		if why := recover(); why != nil {
			t.over, t.stopped = true, &StoppedError{why}
		}
	}()
	do()
}

// saveOpen saves what a killed process would lose.
func (t *Tracer) saveOpen() {
	t.locked(func() {
		t.stream.Tick(time.Now(), false)
		t.save.Reset(saveInterval)
	})
}

// Environ returns environment variables for the agent that make the spans of its tools part
// of the trace. It returns none unless Options.Command and Options.Exporter are set, and
// none once the agent has printed something.
func (t *Tracer) Environ() (env []string) {
	if t.exporter != nil {
		t.locked(func() { env = tracer.Environment(t.stream.Mapper.Root()) })
	}
	return env
}

// Exited records how the agent's process ended. With os/exec, state is cmd.ProcessState.
// The Receipt then has the exit status as a shell reports it.
func (t *Tracer) Exited(state *os.ProcessState) {
	if state == nil { // it was not started
		return
	}
	end := proc.EndOf(state)
	t.locked(func() {
		t.exit = end
		if t.process != nil {
			t.process.PID = state.Pid()
		}
		t.stream.Mapper.SetExit(end.Code, proc.SignalName(end.Signal), "")
	})
}

// Receipt returns what the agent has done so far, as far as its spans have ended.
func (t *Tracer) Receipt() *Receipt { return t.recorder.Receipt() }

// Close ends the trace, and delivers its spans until ctx ends, or for at most 10 seconds if
// ctx has no deadline. Undelivered spans are spooled if there is a spool. The error may
// be a *[DeliveryError] or a *[StoppedError], or both joined; the Receipt is valid in any
// case. A further call returns the same.
func (t *Tracer) Close(ctx context.Context) (*Receipt, error) {
	t.close.Do(func() { t.receipt, t.err = t.end(ctx) })
	return t.receipt, t.err
}

// closeTimeout is for a context without a deadline.
const closeTimeout = 10 * time.Second

func (t *Tracer) end(ctx context.Context) (*Receipt, error) {
	unknown := tracer.UnknownTypes(nil)
	t.locked(func() {
		t.stream.At(time.Now())
		_ = t.stream.Close(false) // an error of the log counts if a span is lost
		t.over = true
		unknown = tracer.UnknownTypes(t.stream.Mapper.UnknownTypes())
	})
	t.mu.Lock() // saveOpen may have to end
	stopped, exit := t.stopped, t.exit
	if t.save != nil {
		t.save.Stop()
	}
	t.mu.Unlock()

	var delivered exporter.Report
	if t.exporter != nil {
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, closeTimeout)
			defer cancel()
		}
		delivered = t.exporter.Close(ctx)
	}
	r := t.recorder.Receipt()
	r.Finish(tracer.Version(), exit.ShellStatus(), stopped == nil, delivered)
	r.UnknownTypes = unknown
	if delivered.Delivered == delivered.Ended {
		return r, stopped
	}
	return r, errors.Join(stopped, &DeliveryError{delivered.Rejected + delivered.Dropped, delivered.Cause})
}
