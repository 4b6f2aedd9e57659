// Package mapping turns the output of a coding agent into OpenTelemetry spans.
//
// A [Mapper] takes the stream in pieces of any size, and returns each span as it ends:
//
//	bytes -> lines -> agent.Decoder -> events -> sessions -> run (timeline, account) -> spans -> Output
//
// The files of that flow, in order, are mapper, input, lines, cutline, detect, sessions, run, root,
// tool, turn, deltas, emit, timeline, account, stream, span and wire. timeline declares the
// types run, invocation, turn and tool. moment, clock and begin say when something happened. A
// recording goes that way twice, see survey. The other files serve one of these.
//
// The package opens no connection, prints nothing, and reads no clock if Options.Now
// is set.
package mapping

import (
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A Mapper turns a stream into spans. It is not safe for concurrent use.
type Mapper struct {
	stream
	inputs    []*Input         // the open ones; the first one is the stream's
	numInputs int              // how many inputs there were
	decoders  []*agent.Decoder // of all inputs, one for each agent
	events    []agent.Event    // of the current line
	sessions  sessions
	exit      *exit // how the Process ended, nil before it did
	closed    bool
}

// New returns a Mapper, or an error if the options are invalid.
func New(opts Options) (*Mapper, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	m := &Mapper{stream: stream{opts: opts, keys: map[runKey]bool{}, callers: map[string]*caller{}, between: map[*agent.Agent]int{}}}
	m.sessions = newSessions(&m.stream)
	m.names = newNames(opts.Redactor)
	var err error
	if m.capture, err = content.New(opts.Content, opts.MaxAttributeBytes, opts.Redactor); err != nil {
		return nil, err
	}
	m.tick()
	m.began = m.now
	first := m.Input()
	if p := opts.Process; p != nil {
		whose := p.Agent
		if d := first.current; d != nil { // Options.Agent says it
			whose = d.Agent
		}
		m.sessions.first = m.newRun(whose, "", 1, m.now)
		m.sessions.first.ids = newIDs(p.Key)
	}
	return m, nil
}

// Stats returns the counts so far.
func (m *Mapper) Stats() Stats { return m.stats }

// tick records the time.
func (m *Mapper) tick() { m.now = quantize(instant(m.opts.Now().UnixNano())) }

// Map maps the next bytes of the stream, and returns the spans and runs that ended in them.
// It maps at once, and encodes spans as the caller takes them.
// Outputs that the caller does not take are returned first by the next call.
func (m *Mapper) Map(p []byte) iter.Seq[Output] { return m.inputs[0].Map(p) }

// EndLine says that nothing has come for a while. It maps a line whose newline is missing if
// the line is a whole object.
func (m *Mapper) EndLine() iter.Seq[Output] {
	if !m.closed {
		m.tick()
		m.inputs[0].lines.endEarly()
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
	}
	for _, in := range m.inputs {
		in.end(interrupted)
	}
	m.sessions.abandonAll(why)
	m.closed = true
	if m.opts.Process != nil {
		m.emitRoots(m.exit.errorType())
	}
}

// Busy reports whether a run is open, or has left something running in the background.
func (m *Mapper) Busy() bool { return m.sessions.open.Len() > 0 }

// EndRuns ends the open runs as incomplete. Others may follow.
func (m *Mapper) EndRuns() iter.Seq[Output] {
	if !m.closed {
		m.tick()
		m.sessions.abandonAll(errIncomplete)
	}
	return m.outputs()
}

// SetUntraced sets how much of the stream the Mapper will not see, which is recorded
// on the roots that are still open.
func (m *Mapper) SetUntraced(bytes, lines int64) {
	m.untraced.bytes, m.untraced.lines = bytes, lines
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
			m.position = max(m.position, ev.Arrival)
		}
		switch ev.Kind {
		case agent.Malformed:
			m.badLine(m.number)
		case agent.Unknown, agent.Ignored:
			var r *run
			if s := m.sessions.byID[string(ev.Session)]; s != nil && s.id != "" { // not another program's line
				r = s.run
			} else if last := m.sessions.lastOf[a]; len(ev.Session) == 0 && last != nil && ev.Kind == agent.Unknown {
				r = last.run
			}
			if ev.Kind == agent.Unknown {
				m.unknown(a, r, ev.Type)
			}
			if r != nil && ev.Time != 0 {
				r.place(ev)
			}
		case agent.SessionNamed:
			m.sessions.rename(a, ev)
		default:
			s := m.sessions.find(a, ev.Session)
			m.complete(s, ev)
			m.sessions.dispatch(s, ev)
		}
	}
}

// Read surveys a recording, maps it, and then closes the Mapper. If r fails, the last Output
// comes with its error, and the Mapper stays open.
func (m *Mapper) Read(r io.ReadSeeker) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		m.Survey(r)
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			yield(Output{}, err)
			return
		}
		m.read(r, yield)
	}
}

func (m *Mapper) read(r io.Reader, yield func(Output, error) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		m.Map(buf[:n])
		atEnd := errors.Is(err, io.EOF)
		if atEnd {
			m.Close(false)
		}
		switch {
		case !m.yieldAll(yield), atEnd:
			return
		case err != nil:
			yield(Output{}, err)
			return
		}
	}
}

// SetExit records how the Process ended: its code, or a signal such as SIGKILL, and
// the end of its stderr.
func (m *Mapper) SetExit(code int, signal, stderr string) {
	m.exit = &exit{code: code, signal: signal, stderr: stderr}
}

// Root returns the span context of the first root of the Process. The process gets
// it in its environment, so Root is called before the process starts. The result is
// not valid without a Process, or once its first run has begun.
func (m *Mapper) Root() trace.SpanContext {
	if m.sessions.first == nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    m.sessions.first.traceID(),
		SpanID:     m.sessions.first.ids.root,
		TraceFlags: trace.FlagsSampled,
		TraceState: m.opts.Parent.TraceState(),
	})
}

// emitRoots emits the roots of the Process, with how it ended. There is a root even
// if the process printed nothing, because processes that it started may have joined
// its trace. silent is the error type of that root.
func (m *Mapper) emitRoots(silent string) {
	p := m.opts.Process
	if r := m.sessions.first; r != nil {
		m.sessions.first = nil
		r.endRoot(r.clock.now(m.now), silent, 0)
	}
	for i, root := range m.roots {
		a := &root.span.attributes
		a.int(semconv.ProcessPID, int64(p.PID))
		a.strIfSet(semconv.ProcessExecutable, p.Executable)
		if i == len(m.roots)-1 {
			m.endProcess(root)
		}
		root.run.emitRoot(root.span)
	}
	m.roots = nil
}

// NoteStall records that the stream was silent for idle. Every open run without a running
// tool gets an event on its root. NoteStall returns the agents of those runs.
func (m *Mapper) NoteStall(idle time.Duration) (agents []string) {
	m.tick()
	for _, r := range m.openRuns() {
		if len(r.tools) == 0 {
			r.note(semconv.EventStall, agent.Fact{Key: semconv.IdleMillis, Int: idle.Milliseconds()})
			agents = append(agents, r.main.name)
		}
	}
	return agents
}

// NoteLimit records on the root of every open run that a limit was reached. If none is open,
// the last run of the Process has reached it.
func (m *Mapper) NoteLimit(limit string) {
	m.tick()
	fact := agent.Fact{Key: semconv.Limit, Kind: agent.FactText, Text: []byte(limit)}
	open := m.openRuns()
	for _, r := range open {
		r.note(semconv.EventLimit, fact)
	}
	if len(open) == 0 && len(m.roots) > 0 {
		last := m.roots[len(m.roots)-1]
		last.span.addNotices([]event{last.run.newNotice(&agent.Event{Notice: semconv.EventLimit, Facts: []agent.Fact{fact}}, last.span.end.at)})
	}
}

// Finished reports whether the Process has nothing more to do: its last run has ended with a
// result, no other is open, and nothing works in the background. errorType is that result's.
// A sub-agent that worked on alone has no result.
func (m *Mapper) Finished() (errorType string, ok bool) {
	if m.sessions.first != nil || m.Busy() {
		return "", false
	}
	for _, root := range slices.Backward(m.roots) {
		if !root.run.apart {
			return root.span.errorType, true
		}
	}
	return "", false
}

// openRuns returns the runs that have not ended, including that of a silent
// Process.
func (m *Mapper) openRuns() (runs []*run) {
	if m.sessions.first != nil {
		runs = append(runs, m.sessions.first)
	}
	for e := m.sessions.open.Back(); e != nil; e = e.Prev() {
		if r := e.Value.(*session).run; r != nil {
			runs = append(runs, r)
		}
	}
	return runs
}

// SetEndedAfterResult says that the Process was ended because it stayed after its result, so
// that how it ended says nothing about its last run.
func (m *Mapper) SetEndedAfterResult() { m.exit.afterResult = true }

// endProcess ends the last run together with the process.
func (m *Mapper) endProcess(root root) {
	s := root.span
	s.end = later(s.end, root.run.clock.now(m.now))
	if m.exit == nil {
		return
	}
	if m.exit.signal == "" {
		s.attributes.int(semconv.ProcessExitCode, int64(m.exit.code))
	}
	if m.exit.afterResult {
		s.attributes.bool(semconv.EndedAfterResult, true)
	}
	m.capture.Tail(&s.content, semconv.Stderr, m.exit.stderr)
	if e := m.exit.errorType(); e != "" && (s.errorType == "" || s.errorType == errIncomplete || s.errorType == e) {
		s.errorType = e // more specific than the lack of a result
		if s.status == "" {
			s.status = m.exit.status()
		}
	}
}
