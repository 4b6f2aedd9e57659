// Package tracer maps one stream of an agent, and hands its spans to their consumers:
//
//	bytes -> Stream -> mapping.Mapper -> Span -> Consumers, such as a Delivery
//	                        └─ open spans -> Snapshot, once a second
//
// The commands and package spantee are built on it. The commands are not built on package
// spantee, because they need what a stable API should not promise: recordings, sampling,
// spans that are open, and how a mapper that hangs is left behind.
//
// The package prints nothing, reads no signals, and does not read the environment.
package tracer

import (
	"cmp"
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

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
)

// A Consumer gets what a Stream makes of the agent's output.
type Consumer interface {
	// Span takes a span that has ended. It must not retain the span or any of its bytes.
	Span(*Span)

	// Piece says that all spans of a piece of the stream have come. open is nil if the last
	// Snapshot is still good. The error says why a kill would lose spans.
	Piece(open *Snapshot) (unprotected error)
}

// A Func is a Consumer of finished spans alone.
type Func func(*Span)

// Span calls f.
func (f Func) Span(s *Span) { f(s) }

// Piece does nothing.
func (Func) Piece(*Snapshot) error { return nil }

// A Span is a span that has ended or, in a Snapshot, as it would end now.
type Span struct {
	Wire    []byte // the encoding of an opentelemetry.proto.trace.v1.Span
	Agent   string
	TraceID trace.TraceID
	From    *spool.Origin // the agent as a service
	EndsRun bool          // it is the run's root

	facts   runs.Span
	decoded bool
}

// A Snapshot has the spans that have not ended.
type Snapshot struct {
	Open    []*Span
	Changed bool // since the last Snapshot; otherwise only time has passed
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
	Consumers []Consumer

	Live bool // Snapshots are taken

	Started, Ended func(mapping.Run) // called for each run, if set

	// Lock, if set, is held while anything is handed on: several Streams may share Consumers.
	Lock sync.Locker
}

// A Stream turns an agent's output into spans. It is not safe for concurrent use, except
// for Emitted.
type Stream struct {
	// Mapper's other methods, such as NoteStall, may be called directly: see At and Changed.
	Mapper *mapping.Mapper

	// Open returns the spans that have not ended, as they would end now. It is the Mapper's
	// method, unless the Stream gets the spans of others.
	Open func(now time.Time) iter.Seq[mapping.Output]

	cfg     Config
	now     time.Time                // when the current bytes came
	origins map[string]*spool.Origin // by agent
	span    Span                     // the current one
	bytes   int                      // of the spans that have ended in the current piece
	emitted atomic.Int64
	last    taken
}

// taken says when and how the last snapshot was taken.
type taken struct {
	at         time.Time
	took       time.Duration // without the disk
	generation int           // of the runs
	bytes      int           // of its spans
	changed    bool          // open spans have changed since
}

// minUnsaved is how many bytes of ended spans may wait for a snapshot, and as many as the
// last one has: otherwise a stream of many sessions would be written again and again.
const minUnsaved = 1 << 20

// New returns a Stream, or an error if the options of the mapping are invalid.
func New(cfg Config) (*Stream, error) {
	s := &Stream{cfg: cfg, now: time.Now()}
	if cfg.Resources == nil {
		s.cfg.Resources = func(string) *resourcepb.Resource { return nil }
	}
	s.origins = map[string]*spool.Origin{}
	if cfg.Lock == nil {
		s.cfg.Lock = new(sync.Mutex)
	}
	s.last = taken{at: s.now, changed: cfg.Mapping.Process != nil} // the root of the process has begun
	cfg.Mapping.Now = func() time.Time { return s.now }
	var err error
	if s.Mapper, err = mapping.New(cfg.Mapping); err != nil {
		return nil, err
	}
	s.Open = s.Mapper.Open
	return s, nil
}

// Emitted returns how many spans have ended.
func (s *Stream) Emitted() int64 { return s.emitted.Load() }

// MaxPiece is how much of the stream is mapped before Consumers are told that a piece is.
const MaxPiece = 64 << 10

// Write maps the next bytes of the stream.
func (s *Stream) Write(p []byte, arrived time.Time) {
	s.now = arrived
	for piece := range slices.Chunk(p, MaxPiece) {
		s.take(s.Mapper.Map(piece))
	}
}

// EndLine says that nothing has come since the last bytes, which arrived then: their last line
// may be whole although its newline is missing.
func (s *Stream) EndLine(arrived time.Time) {
	s.now = arrived
	lines := s.Mapper.Stats().Lines
	if outputs := s.Mapper.EndLine(); s.Mapper.Stats().Lines > lines {
		s.take(outputs)
	}
}

// take hands on what a piece of the stream led to.
func (s *Stream) take(outputs iter.Seq[mapping.Output]) {
	for out := range outputs {
		s.handOn(&out)
	}
	s.Changed()
	switch {
	case !s.cfg.Live || s.Mapper.Stats().Generation == s.last.generation:
		if s.bytes > 0 {
			_ = s.piece(nil) // Close tells whether the disk takes any
		}
	case s.isDue() || s.bytes > max(minUnsaved, s.last.bytes): // the last snapshot has the wrong roots or ids
		s.snap(s.now)
	}
}

// At sets the current time for direct calls to the Mapper.
func (s *Stream) At(now time.Time) { s.now = now }

// Changed says that the open spans have changed since the last snapshot.
func (s *Stream) Changed() { s.last.changed = true }

// Tick takes a snapshot of what is open if that has changed since the last one, or if
// somebody watches how time passes. Call it about once a second.
func (s *Stream) Tick(now time.Time, watched bool) {
	if s.cfg.Live && (s.last.changed || watched) && s.isDue() {
		s.snap(now)
	}
}

// maxInterval bounds how much less often snapshots are taken that take long.
const maxInterval = 4 * time.Second

// isDue reports whether a snapshot may be taken. With thousands of open sessions that takes
// a while, so it is done less often, and until then the spans of the current piece wait.
func (s *Stream) isDue() bool { return time.Since(s.last.at) >= min(50*s.last.took, maxInterval) }

// snap takes a Snapshot.
func (s *Stream) snap(now time.Time) {
	began, open := time.Now(), &Snapshot{Changed: s.last.changed}
	s.last = taken{generation: s.Mapper.Stats().Generation}
	for out := range s.Open(now) {
		s.last.bytes += len(out.Span)
		open.Open = append(open.Open, &Span{Wire: slices.Clone(out.Span), Agent: out.Agent, TraceID: out.TraceID, From: s.origin(out.Agent)})
	}
	s.last.took = time.Since(began)
	_ = s.piece(open)
	s.last.at = time.Now()
}

// Close ends the stream and all of its spans. interrupted says that the stream was cut
// off. It returns why the spans were not protected against a kill, or nil if they were.
func (s *Stream) Close(interrupted bool) (unprotected error) {
	for out := range s.Mapper.Close(interrupted) {
		s.handOn(&out)
	}
	if !s.cfg.Live {
		return s.piece(nil)
	}
	return s.piece(&Snapshot{Changed: true})
}

// Flush ends the current piece. The error says why a kill would lose spans.
func (s *Stream) Flush() (unprotected error) { return s.piece(nil) }

func (s *Stream) piece(open *Snapshot) (unprotected error) {
	s.cfg.Lock.Lock()
	defer s.cfg.Lock.Unlock()
	s.bytes = 0
	for _, c := range s.cfg.Consumers {
		unprotected = cmp.Or(unprotected, c.Piece(open))
	}
	return unprotected
}

// handOn hands on what the Mapper has made of the stream.
func (s *Stream) handOn(out *mapping.Output) {
	// A recording's end may release all its spans at once, which must wait for room.
	if s.bytes > MaxPiece && !s.cfg.Live {
		_ = s.piece(nil)
	}
	s.cfg.Lock.Lock()
	defer s.cfg.Lock.Unlock()
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

// Emit hands a span to all Consumers, as if the stream had made it.
func (s *Stream) Emit(out mapping.Output) {
	defer s.emitted.Add(1)
	s.span.Wire, s.span.Agent, s.span.TraceID, s.span.From, s.span.decoded = out.Span, out.Agent, out.TraceID, s.origin(out.Agent), false
	s.span.EndsRun = out.Ended != nil
	s.bytes += len(out.Span)
	for _, c := range s.cfg.Consumers {
		c.Span(&s.span)
	}
}

// origin returns the origin of an agent's spans.
func (s *Stream) origin(agent string) *spool.Origin {
	if s.origins[agent] == nil {
		s.origins[agent] = spool.NewOrigin(s.cfg.Resources(agent), Scope())
	}
	return s.origins[agent]
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
