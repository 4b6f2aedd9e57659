package mapping

import (
	"iter"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/jsonscan"
)

// A stream holds the state that the runs of one stream share.
type stream struct {
	opts         Options
	capture      *content.Capture
	names        *names
	keys         map[runKey]bool   // of the latest runs
	began        instant           // when the stream did
	now          instant           // when the current bytes came
	position     instant           // in a file: counts the lines that said something about a run
	number       int               // of the current line
	shift        instant           // of all times of a recording
	foreseen     map[int]*foreseen // by the number of the line that begins the run
	found        map[int]*foreseen // not nil in the first reading, which emits nothing
	latest       instant           // end of a run, in the first reading
	stats        Stats
	callers      map[string]*caller // of the latest sub-agents, by callKey
	unknownTypes []UnknownType
	between      map[*agent.Agent]int // lines of unknown types that came outside of runs, which the agent's next run counts
	untraced     struct{ bytes, lines int64 }
	lastWords    []byte // the last line, if it is not JSON: agents print why they died
	copy         bool   // it is a copy, whose runs end without changing the stream's or its keys: see Open

	results []Output
	yielded int    // how many of them
	wire    []byte // of the current Output
	roots   []root // which wait for the end of the Process
}

// arrival returns when the current line came, or its place in a file: how many lines have
// said something about a run. The lines of other programs take no time.
func (s *stream) arrival() instant {
	if s.opts.Source != Pipe {
		return s.position
	}
	return s.now
}

// written returns when the recording was last written.
func (s *stream) written() instant { return quantize(instant(s.opts.Written.UnixNano())) }

// callKey identifies a call among those of all sessions.
func callKey(session, call string) string { return session + "\x00" + call }

// An Output is a finished span, or says that a run has started.
type Output struct {
	// Span is the wire encoding of an opentelemetry.proto.trace.v1.Span, nil if a run has
	// started. It is valid until the next Output.
	Span    []byte
	Agent   string // the name of its agent, which is the service's
	TraceID trace.TraceID
	End     time.Time

	Started *Run // a run whose trace id is known from now on
	Ended   *Run // the run whose root Span is

	span *span // is encoded when its turn comes: the end of a run may have many
	ids  *ids
}

// outputs are what was mapped and not taken yet.
func (s *stream) outputs() iter.Seq[Output] {
	return func(yield func(Output) bool) {
		for s.yielded < len(s.results) {
			out := s.results[s.yielded]
			s.results[s.yielded] = Output{}
			s.yielded++
			if ended := out.span; ended != nil {
				s.wire = ended.encode(s.wire[:0], out.ids, s.opts.Parent)
				out.Span, out.TraceID, out.End = s.wire, out.ids.traceID(s.opts.Parent), time.Unix(0, int64(ended.end.at))
			}
			if !yield(out) {
				return
			}
		}
		s.results, s.yielded = s.results[:0], 0
	}
}

// yieldAll yields what was mapped and not taken yet, and reports whether more is wanted.
func (s *stream) yieldAll(yield func(Output, error) bool) bool {
	for out := range s.outputs() {
		if !yield(out, nil) {
			return false
		}
	}
	return true
}

// attributes returns no attributes yet, for messages with this field. wire is memory for them.
func (s *stream) attributes(field protowire.Number, wire []byte) attributes {
	return attributes{field: field, max: s.opts.MaxAttributeBytes, wire: wire}
}

// facts appends harmless facts to a, and captures those that are content. Without a or to,
// it leaves them out.
func (s *stream) facts(a *attributes, list []agent.Fact, to *content.Attributes) {
	for i := range list {
		f := &list[i]
		switch harmless := f.Level == agent.Harmless; {
		case harmless && a == nil, !harmless && to == nil, f.Level == agent.Full && !s.capture.Full():
		case f.Kind == agent.FactInt:
			a.int(f.Key, f.Int)
		case f.Kind == agent.FactBool:
			a.bool(f.Key, f.Int != 0)
		case harmless:
			a.str(f.Key, s.names.pass(string(jsonscan.Unquote(f.Text))))
		case f.Kind == agent.FactJSON:
			s.capture.Raw(to, f.Key, f.Text)
		default:
			s.capture.Text(to, f.Key, f.Text)
		}
	}
}
