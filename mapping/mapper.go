// Package mapping turns the output of a coding agent into OpenTelemetry spans.
//
// A [Mapper] takes the stream in pieces of any size, and returns each span as it ends:
//
//	bytes -> lines -> agent.Decoder -> events -> sessions -> run (timeline, account) -> spans -> Output
//
// The package opens no connection, prints nothing, and reads no clock if Options.Now
// is set.
package mapping

import (
	"fmt"
	"iter"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact"
)

// Deltas says how the pieces in which a model's answer arrives are recorded.
type Deltas string

// The values of [Options.Deltas].
const (
	DeltasEach    Deltas = "each"    // one event per delta, merged where a trace grows too big
	DeltasMessage Deltas = "message" // one event per message or block of thinking
	DeltasOff     Deltas = "off"     // counts only
)

// Options configure a Mapper.
type Options struct {
	// Agent is the agent whose stream it is, one of [Agents]; "" detects it.
	Agent string

	Deltas        Deltas // "" means DeltasEach
	MaxSpanEvents int    // events in a span before they continue in another; 0 means 512

	Content           content.Level    // "" means content.None
	Redactor          *redact.Redactor // removes secrets from content; nil means one with all rules
	MaxAttributeBytes int              // of a string in a span; 0 means 2048, the maximum is [MaxAttribute]

	// Replay, if set, says that the stream is a recording, and when it was last
	// written. Arrival times then mean nothing.
	Replay time.Time

	// Shift is added to all times of a recording.
	Shift time.Duration

	// Parent, if valid, is the parent of the root spans.
	Parent trace.SpanContext

	// Now returns when the bytes of the current Map came; nil means [time.Now].
	Now func() time.Time

	// Process, if set, is the agent's process: its first run begins in New, and
	// Close emits its roots.
	Process *Process
}

// MaxAttribute is the maximum of Options.MaxAttributeBytes. It is small enough for
// several strings to fit into a request.
const MaxAttribute = 256 << 10

func (o *Options) replay() bool { return !o.Replay.IsZero() }

// check fills in defaults, and returns an error for an invalid option.
func (o *Options) check() error {
	switch o.Deltas {
	case "":
		o.Deltas = DeltasEach
	case DeltasEach, DeltasMessage, DeltasOff:
	default:
		return fmt.Errorf("invalid deltas %q (want each, message or off)", o.Deltas)
	}
	if o.Content == "" {
		o.Content = content.None
	}
	if o.MaxSpanEvents <= 0 {
		o.MaxSpanEvents = 512
	}
	if o.MaxAttributeBytes <= 0 {
		o.MaxAttributeBytes = 2048
	}
	o.MaxAttributeBytes = min(o.MaxAttributeBytes, MaxAttribute)
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// A Run describes one run of an agent, from its first line to its result.
type Run struct {
	Agent, Model, Session    string
	TraceID                  trace.TraceID
	Spans, Tools, ToolErrors int // so far; background work may end later
	Duration                 time.Duration
	ErrorType                string // "" if it went well
	Status                   string // says more than ErrorType
}

// Stats count what a [Mapper] saw.
type Stats struct {
	Lines            int
	BadLines         int // not JSON, or without a type
	FirstBad         int // the first such line, from 1
	Unknown          int // JSON of an unknown type
	Unidentified     int // lines that do not identify an agent
	EndsWithoutStart int
	Oversize         int // lines past the parse limit, of which only ids and times were read
	Hidden           int // names and ids that may be secrets, replaced by _OTHER
	Evicted          int // runs, tasks and calls that were ended early because too many were open
	Runs             int
	Generation       int    // grows when a run begins, gets its final ids, or ends: Open then emits other roots
	Spans            int    // finished
	Foreign          string // what the stream looks like, if spantee does not support it
	Agent            string // the agent of the run that began last
}

// Agents are the values of [Options.Agent].
var Agents = agent.Flags()

// A Mapper turns a stream into spans. It is not safe for concurrent use.
type Mapper struct {
	opts     Options
	capture  *content.Capture
	names    *names
	replayed instant // when the recording was last written
	now      instant // when the current bytes came
	lines    lines
	detector detector
	events   []agent.Event // of the current line
	number   int           // of the line that they are of
	place    instant       // in a recording: of the last line that said something about a run
	sessions sessions
	keys     runKeys
	process
	stats     Stats
	results   []result
	wire      []byte     // of the current Output
	event     attributes // of the current span event
	lastWords []byte     // the last line, if it is not JSON: agents print why they died
	ghost     bool       // a copy, see Open

	traceState string // of Options.Parent

	untraced struct{ bytes, lines int64 }
	closed   bool
}

// SetMaxAttributeBytes changes [Options.MaxAttributeBytes] for the rest of the stream.
func (m *Mapper) SetMaxAttributeBytes(n int) {
	n = min(n, MaxAttribute)
	m.opts.MaxAttributeBytes, m.event.max = n, n
	m.capture = m.capture.WithMax(n)
}

// New returns a Mapper, or an error if the options are invalid.
func New(opts Options) (*Mapper, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	m := &Mapper{opts: opts, sessions: newSessions()}
	m.event = attributes{field: fieldEventAttributes, max: opts.MaxAttributeBytes}
	m.traceState = opts.Parent.TraceState().String()
	var err error
	if m.capture, err = content.New(opts.Content, opts.MaxAttributeBytes, opts.Redactor); err != nil {
		return nil, err
	}
	if m.names, err = newNames(opts.Redactor); err != nil {
		return nil, err
	}
	if m.detector, err = newDetector(opts.Agent); err != nil {
		return nil, err
	}
	if opts.replay() {
		m.replayed = quantize(instant(opts.Replay.UnixNano()))
	}
	m.lines = lines{max: maxLine, line: m.takeLine}
	if p := opts.Process; p != nil {
		m.tick()
		m.first = m.newRun(m.detector.presumed(), "", 1, m.now)
		m.first.ids = newIDs(p.Key)
	}
	return m, nil
}

// Stats returns the counts so far.
func (m *Mapper) Stats() Stats {
	m.stats.Hidden = m.names.hidden
	return m.stats
}

// tick records the time.
func (m *Mapper) tick() { m.now = quantize(instant(m.opts.Now().UnixNano())) }

// Map maps the next bytes of the stream, and returns what ended in them. What the caller
// does not take comes first the next time.
func (m *Mapper) Map(p []byte) iter.Seq[Output] {
	if !m.closed {
		m.tick()
		_, _ = m.lines.Write(p)
	}
	return m.outputs()
}

// Close ends the stream and every span that is still open, and returns the rest.
// interrupted says that the stream was cut off, so that an incomplete last line does
// not count as bad.
func (m *Mapper) Close(interrupted bool) iter.Seq[Output] {
	if !m.closed {
		m.tick()
		m.end(interrupted)
	}
	return m.outputs()
}

func (m *Mapper) end(interrupted bool) {
	why := errInterrupted
	if !interrupted {
		why = errIncomplete
		m.lines.end()
	}
	m.settle()
	for _, s := range m.detector.sources {
		m.events = s.decoder.Flush(m.events[:0])
		m.apply(s.agent)
	}
	m.abandonAll(why)
	m.endEvictedCalls(why)
	m.closed = true
	if m.opts.Process != nil {
		m.emitRoots(m.exit.errorType())
	}
}

// SetUntraced sets how much of the stream the Mapper will not see, which is recorded
// on the roots that are still open.
func (m *Mapper) SetUntraced(bytes, lines int64) {
	m.untraced.bytes, m.untraced.lines = bytes, lines
}

// arrival returns when the current line came. In a recording it is how many lines have
// said something about a run: the lines of other programs take no time.
func (m *Mapper) arrival() instant {
	if m.opts.replay() {
		return m.place
	}
	return m.now
}

// takeLine maps one line, or the head and tail of a line past the parse limit.
func (m *Mapper) takeLine(line, tail []byte) {
	m.stats.Lines++
	if tail != nil {
		m.stats.Oversize++
	}
	if len(line) > 0 { // the events of a line with a prefix change it, see apply
		m.lastWords = m.lastWords[:0]
		if line[0] != '{' {
			m.lastWords = append(m.lastWords, line[:min(len(line), maxLastWords)]...)
		}
	}
	m.decode(agent.Line{Text: line, Tail: tail, Arrival: m.now}, m.stats.Lines)
}

// maxLastWords is how much is kept of a line that may say why a run died.
const maxLastWords = 2 << 10

// apply dispatches the current events to their runs.
func (m *Mapper) apply(a *agent.Agent) {
	for i := range m.events {
		ev := &m.events[i]
		if ev.Kind != agent.Malformed {
			m.lastWords = m.lastWords[:0]
		}
		if ev.Kind != agent.Unknown {
			m.place = max(m.place, ev.Arrival)
		}
		switch ev.Kind {
		case agent.Malformed:
			m.badLine(m.number)
		case agent.Unknown, agent.Ignored:
			if ev.Kind == agent.Unknown {
				m.stats.Unknown++
			}
			if s := m.sessions.byID[string(ev.Session)]; s != nil && s.id != "" && s.run != nil { // not another program's line
				s.run.skip(ev)
			}
		default:
			m.dispatch(a, ev)
		}
	}
}
