// Package tracer maps one stream of an agent, and hands its spans to their consumers:
//
//	bytes -> Stream -> mapping.Mapper -> Span -> Exporter, Consumers
//	                        └─ open spans -> journal of the Exporter
//
// The commands and package spantee are built on it. The commands are not built on package
// spantee, because they need what a stable API should not promise: recordings, sampling,
// spans that are open, and how a mapper that hangs is left behind.
//
// The package prints nothing, reads no signals, and reads the environment only in NewSampler.
package tracer

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
)

// A Consumer gets each span as it ends. It must not retain the span or any of its bytes.
type Consumer func(*Span)

// A Span is a finished span.
type Span struct {
	Wire  []byte // the encoding of an opentelemetry.proto.trace.v1.Span
	Agent string
	From  *resourcepb.Resource // the agent as a service

	facts   runs.Span
	decoded bool
}

// Facts decodes the span, for all consumers once.
func (s *Span) Facts() *runs.Span {
	if !s.decoded {
		_ = s.facts.Read(s.Wire) // the mapper's spans are valid
		s.decoded = true
	}
	return &s.facts
}

// UnknownTypes returns unknown types of lines as a receipt has them.
func UnknownTypes(of []mapping.UnknownType) []receipt.UnknownType {
	list := make([]receipt.UnknownType, len(of))
	for i, t := range of {
		list[i] = receipt.UnknownType(t)
	}
	return list
}

// A Config says what becomes of a stream's spans.
type Config struct {
	Mapping   mapping.Options                         // Now is the Stream's own
	Resources func(agent string) *resourcepb.Resource // of an agent's spans; nil if they have none

	Exporter  *exporter.Exporter       // nil if no spans are sent
	Sampled   func(trace.TraceID) bool // whether a trace is sent; nil if all are
	Live      bool                     // what a killed process would lose is saved
	Consumers []Consumer               // of all spans, sent or not

	Started, Ended func(mapping.Run) // called for each run, if set

	// Lock, if set, is held while a span or a run is handed on: several Streams may share
	// an Exporter and Consumers.
	Lock sync.Locker
}

// A Stream turns an agent's output into spans. It is not safe for concurrent use, except
// for Emitted.
type Stream struct {
	// Mapper's other methods, such as NoteStall, may be called directly: see At and Changed.
	Mapper *mapping.Mapper

	cfg     Config
	now     time.Time // when the current bytes came
	span    Span      // for Consumers
	emitted atomic.Int64

	journaled *exporter.Exporter // saves what a killed process would lose; nil for a recording, which can be sent again
	saved     checkpoint         // the last one
}

// A checkpoint saves the spans that are open. Those that ended are saved after each piece of
// the stream.
type checkpoint struct {
	at         time.Time
	took       time.Duration // without the disk
	generation int           // of the runs
	changed    bool          // open spans have changed since
	unsaved    int           // bytes of spans since then, or since the end of a piece
}

// maxUnsaved is how many bytes of spans may wait for a checkpoint.
const maxUnsaved = 1 << 20

// New returns a Stream, or an error if the options of the mapping are invalid.
func New(cfg Config) (*Stream, error) {
	s := &Stream{cfg: cfg, now: time.Now()}
	if cfg.Live {
		s.journaled = cfg.Exporter
	}
	if cfg.Resources == nil {
		s.cfg.Resources = func(string) *resourcepb.Resource { return nil }
	}
	s.saved = checkpoint{at: s.now, changed: cfg.Mapping.Process != nil} // the root of the process has begun
	cfg.Mapping.Now = func() time.Time { return s.now }
	var err error
	s.Mapper, err = mapping.New(cfg.Mapping)
	return s, err
}

// Emitted returns how many spans have ended.
func (s *Stream) Emitted() int64 { return s.emitted.Load() }

// MaxPiece is how much of the stream is mapped before its spans are journaled and may be
// sent: see [exporter.Exporter.Begin].
const MaxPiece = 64 << 10

// Write maps the next bytes of the stream.
func (s *Stream) Write(p []byte, arrived time.Time) {
	s.now = arrived
	for piece := range slices.Chunk(p, MaxPiece) {
		s.write(piece)
	}
}

func (s *Stream) write(piece []byte) {
	s.begin()
	s.take(s.Mapper.Map(piece))
	s.Changed()
	if s.Mapper.Stats().Generation != s.saved.generation { // the journal has the wrong roots or ids
		s.checkpoint() // ends the transaction, now or when one is due
	} else if s.journaled != nil {
		s.journaled.Commit()
		s.saved.unsaved = 0
	}
}

// begin is called before a piece of the stream is mapped. It does nothing for a
// recording: its end may release all its spans at once, so they must be able to wait for
// room within the piece.
func (s *Stream) begin() {
	if s.journaled != nil {
		s.journaled.Begin()
	}
}

// At sets the current time for direct calls to the Mapper.
func (s *Stream) At(now time.Time) { s.now = now }

// Changed says that the open spans have changed since the last checkpoint.
func (s *Stream) Changed() { s.saved.changed = true }

// Save makes a checkpoint if anything has changed since the last one. Call it about once
// a second.
func (s *Stream) Save() {
	if s.saved.changed {
		s.checkpoint()
	}
}

// checkpoint saves all spans. With thousands of open sessions that takes a while, so it is
// done less often, and until then the spans of the current piece wait.
func (s *Stream) checkpoint() {
	began := time.Now()
	if s.journaled == nil || began.Sub(s.saved.at) < 20*s.saved.took && s.saved.unsaved < maxUnsaved {
		return
	}
	var open []exporter.OpenSpan
	for out := range s.Mapper.Open() {
		if s.isSent(out.TraceID) {
			open = append(open, exporter.OpenSpan{Span: slices.Clone(out.Span), From: s.cfg.Resources(out.Agent)})
		}
	}
	s.saved = checkpoint{took: time.Since(began), generation: s.Mapper.Stats().Generation}
	_ = s.journaled.Checkpoint(open) // Close tells whether the disk takes any
	s.saved.at = time.Now()
}

// Close ends the stream and all of its spans. interrupted says that the stream was cut
// off. It returns why the spans were not protected against a kill, or nil if they were.
func (s *Stream) Close(interrupted bool) (unprotected error) {
	s.begin()
	s.take(s.Mapper.Close(interrupted))
	if s.journaled == nil {
		return nil
	}
	return s.journaled.Checkpoint(nil)
}

func (s *Stream) isSent(id trace.TraceID) bool {
	return s.cfg.Exporter != nil && (s.cfg.Sampled == nil || s.cfg.Sampled(id))
}

// take hands on what the Mapper has made of the stream.
func (s *Stream) take(outputs iter.Seq[mapping.Output]) {
	for out := range outputs {
		s.handOn(&out)
	}
}

func (s *Stream) handOn(out *mapping.Output) {
	if s.cfg.Lock != nil {
		s.cfg.Lock.Lock()
		defer s.cfg.Lock.Unlock()
	}
	if out.Started != nil && s.cfg.Started != nil {
		s.cfg.Started(*out.Started)
	}
	if out.Span != nil {
		s.Emit(*out)
	}
	if out.Ended != nil && s.cfg.Ended != nil {
		s.cfg.Ended(*out.Ended)
	}
}

// Read hands on what the Mapper makes of a recording, and ends the Stream. It calls report
// for each output, with the error of what cannot be read, and stops when report returns false.
func (s *Stream) Read(outputs iter.Seq2[mapping.Output, error], report func(error) (more bool)) {
	s.now = time.Now()
	for out, err := range outputs {
		if !report(err) {
			break
		}
		s.handOn(&out)
	}
	_ = s.Close(true)
}

// Emit hands a span to everyone, as if the stream had made it.
func (s *Stream) Emit(out mapping.Output) {
	defer s.emitted.Add(1)
	s.saved.unsaved += len(out.Span)
	s.span.Wire, s.span.Agent, s.span.From, s.span.decoded = out.Span, out.Agent, s.cfg.Resources(out.Agent), false
	if s.isSent(out.TraceID) {
		s.cfg.Exporter.Export(out.Span, s.span.From)
	}
	for _, c := range s.cfg.Consumers {
		c(&s.span)
	}
}

// Environment returns the variables that tell a process which span it runs in.
func Environment(span trace.SpanContext) (env []string) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
	for _, key := range []string{"traceparent", "tracestate"} {
		if value := carrier.Get(key); value != "" {
			env = append(env, strings.ToUpper(key)+"="+value)
		}
	}
	return env
}
