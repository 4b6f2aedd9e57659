// Package mapping turns the output of a coding agent into OpenTelemetry spans.
//
// A [Mapper] is an io.Writer: it takes the agent's stream in any chunks and
// hands every span on as it ends. The way of a line is
//
//	lines -> dialect (cursor.go) -> event -> run (session.go, turn.go) -> span
//
// Nothing in here reads a clock, opens a connection or prints.
package mapping

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/redact"
)

// Deltas says what becomes of the pieces a model's answer arrives in.
type Deltas string

// The values of [Options.Deltas].
const (
	DeltasEach    Deltas = "each"    // one event a delta, merged where a trace grows too big
	DeltasMessage Deltas = "message" // one event a message or block of thinking
	DeltasOff     Deltas = "off"     // counts only
)

// Options say how a stream is read. Emit and Now must be set.
type Options struct {
	// Agent names the agent whose stream it is; "" finds out.
	Agent string

	Deltas        Deltas // "" means DeltasEach
	MaxSpanEvents int    // events in a span before its turn goes on in another; 0 means 512

	Content           Content          // "" means ContentNone
	Redactor          *redact.Redactor // takes the secrets out of content; nil means one of all rules
	MaxAttributeBytes int              // of a string in a span; 0 means 2048, and [MaxAttribute] is the most

	// Replay, if set, makes arrival times meaningless: the stream is a
	// recording that was last written then.
	Replay time.Time

	// Parent, if valid, is what the roots are children of.
	Parent trace.SpanContext

	// Now returns when the bytes of the current Write came.
	Now func() time.Time

	// Emit takes a finished span, which is the caller's from then on. Its
	// events may be encoded in its unknown fields.
	Emit func(*tracepb.Span)

	// RunEnded, if set, is told of every root that was emitted.
	RunEnded func(Run)

	// Process, if set, is the agent itself: its first run begins now, and its
	// roots are emitted by Close.
	Process *Process
}

// A Run tells what became of one run of an agent, from its first line to its
// result.
type Run struct {
	Agent, Model, Session    string
	TraceID                  trace.TraceID
	Spans, Tools, ToolErrors int // so far: what runs in the background may end later
	Duration                 time.Duration
	ErrorType                string // "" if it went well
}

// Stats count what a [Mapper] saw.
type Stats struct {
	Lines    int
	BadLines int // not JSON, or without a type
	FirstBad int // the first such line, from 1
	Unknown  int // JSON of a type nobody knows
	Unpaired int // the end of something that had not begun
	Oversize int // lines past the parse limit, of which only ids and times were read
	Runs     int
	Edges    int    // a run began, got the ids it will keep, or ended: Open is another
	Spans    int    // emitted
	Foreign  string // the agent whose stream it is, if it is one spantee cannot read
}

// A Mapper turns one agent's stream into spans.
type Mapper struct {
	opts     Options
	capture  *capture
	replayed instant // when the recording was last written
	now      instant // when the bytes at hand came
	lines    lines
	reader   reader
	line     cursorLine
	shape    shape
	sessions map[string]*session
	current  *session // of the line before
	first    *run     // of the Process, until a line of it comes
	roots    []root   // of the Process
	exit     *exit    // of the Process, once it is known
	locked   bool     // the agent is known
	stats    Stats
	closed   bool
}

// A session is what an agent resumes by its id: one run or several.
type session struct {
	id     string
	nth    int // on the pipe
	runs   int
	lone   bool   // the last run was a result and nothing else
	run    *run   // nil between runs
	behind []*run // ended, with something of theirs still in the background
}

// Agents are the values of [Options.Agent].
var Agents = []string{"cursor"}

// New returns a Mapper.
func New(opts Options) (*Mapper, error) {
	switch opts.Deltas {
	case "":
		opts.Deltas = DeltasEach
	case DeltasEach, DeltasMessage, DeltasOff:
	default:
		return nil, fmt.Errorf("deltas %q is not known: it is each, message or off", opts.Deltas)
	}
	if opts.Agent != "" && !slices.Contains(Agents, opts.Agent) {
		return nil, fmt.Errorf("agent %q is not known: it is %s", opts.Agent, strings.Join(Agents, " or "))
	}
	if opts.MaxSpanEvents <= 0 {
		opts.MaxSpanEvents = 512
	}
	if opts.MaxAttributeBytes <= 0 {
		opts.MaxAttributeBytes = 2048
	}
	opts.MaxAttributeBytes = min(opts.MaxAttributeBytes, MaxAttribute)
	if opts.RunEnded == nil {
		opts.RunEnded = func(Run) {}
	}
	capture, err := newCapture(&opts)
	if err != nil {
		return nil, err
	}
	m := &Mapper{opts: opts, capture: capture, locked: opts.Agent != "", sessions: map[string]*session{}}
	if m.replay() {
		m.replayed = instant(opts.Replay.UnixNano())
	}
	m.lines = lines{max: maxLine, line: m.takeLine}
	if p := opts.Process; p != nil {
		m.now = instant(opts.Now().UnixNano())
		m.first = newRun(m, "", 1, m.now)
		m.first.key, m.first.keyed = p.Key, true
	}
	return m, nil
}

func (m *Mapper) replay() bool { return !m.opts.Replay.IsZero() }

// Stats returns the counts so far.
func (m *Mapper) Stats() Stats { return m.stats }

// Write takes the next bytes of the stream. It never fails.
func (m *Mapper) Write(p []byte) (int, error) {
	if m.closed {
		return len(p), nil
	}
	m.now = instant(m.opts.Now().UnixNano())
	return m.lines.Write(p)
}

// Close ends the stream and every span that is still open. interrupted tells
// that the stream went on: what there is of its last line is then no bad line.
func (m *Mapper) Close(interrupted bool) {
	if m.closed {
		return
	}
	m.now = instant(m.opts.Now().UnixNano())
	why := errInterrupted
	if !interrupted {
		why = errIncomplete
		m.lines.end()
	}
	arrival := m.arrival()
	for _, s := range m.byAge() {
		for _, r := range s.behind {
			r.endTasks(r.clock.at(0, arrival))
		}
		if s.run != nil {
			s.run.abandon(s.run.clock.at(0, arrival), why)
		}
	}
	m.closed = true
	if m.opts.Process != nil {
		m.emitRoots(m.exit.errorType())
	}
}

func (m *Mapper) byAge() []*session {
	sessions := slices.SortedFunc(maps.Values(m.sessions), func(a, b *session) int { return a.nth - b.nth })
	return slices.Compact(sessions) // one may have two ids
}

// arrival is when the line at hand came. In a replay it is the line's number.
func (m *Mapper) arrival() instant {
	if m.replay() {
		return instant(m.stats.Lines)
	}
	return m.now
}

// takeLine takes one line, or the head and tail of one past the parse limit.
func (m *Mapper) takeLine(line, tail []byte) {
	m.stats.Lines++
	if m.stats.Foreign != "" {
		return
	}
	if tail == nil && m.shape.read(line, &m.line.event) {
		m.dispatch()
		return
	}
	if len(line) > 0 && line[0] != '{' {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		line = bytes.TrimSpace(line)
		// Old wrappers name the stream a line came from.
		line = bytes.TrimPrefix(line, []byte("stdout:"))
	}
	r := &m.reader
	*r = reader{b: line}
	if r.end() {
		return // a blank line
	}
	for {
		whole := r.i == 0
		ok := decodeCursor(r, &m.line)
		if tail != nil {
			m.stats.Oversize++
			m.line.salvage(tail)
			ok, tail = true, nil
		}
		if !ok || len(m.line.typ) == 0 {
			m.badLine()
			return
		}
		if whole && r.end() { // and not one object of several
			m.shape.learn(line, &m.line)
			if !m.locked { // sniff reads it again after a line that shape reads
				m.line.typ = bytes.Clone(m.line.typ)
			}
		}
		m.dispatch()
		if r.end() {
			return
		}
	}
}

func (m *Mapper) badLine() {
	if m.stats.BadLines++; m.stats.BadLines == 1 {
		m.stats.FirstBad = m.stats.Lines
	}
}

// dispatch brings the event at hand to its run.
func (m *Mapper) dispatch() {
	if !m.locked {
		var other string
		if m.locked, other = m.line.sniff(); other != "" {
			m.stats.Foreign = other
			return
		}
	}
	ev := &m.line.event
	switch ev.kind {
	case unknown:
		m.stats.Unknown++
		return
	case control:
		return
	}
	arrival := m.arrival()
	s := m.session(ev)
	if ev.kind == taskEnd {
		m.taskEnd(s, ev, arrival)
		return
	}
	if s.run != nil && s.run.began && ev.kind == runStart { // killed, and resumed
		s.run.abandon(s.run.clock.at(0, arrival), errIncomplete)
		s.run = nil
	}
	if s.run == nil {
		if !s.beginsWith(ev.kind) {
			m.stats.Unpaired++
			return
		}
		s.runs++
		m.stats.Runs++
		m.stats.Edges++
		s.run = m.newRun(s, arrival)
	}
	s.run.apply(ev, arrival)
	if s.run.ended {
		s.lone = s.run.lines == 1
		if len(s.run.background) > 0 {
			s.behind = append(s.behind, s.run)
		}
		s.run = nil
	}
}

// beginsWith tells whether a run of the session may begin with such an event.
// After a result, a worker that lingers may repeat it or end a tool.
func (s *session) beginsWith(k kind) bool {
	switch k {
	case runError, approvalEnd, thinkingEnd:
		return false
	case toolEnd:
		return s.runs == 0
	case runEnd:
		return s.runs == 0 || s.lone
	}
	return true
}

// session finds the session of an event. A line without a session id belongs
// to the session of the line before.
func (m *Mapper) session(ev *event) *session {
	before := m.current
	if before != nil && (len(ev.session) == 0 || string(ev.session) == before.id) {
		return before
	}
	s := m.sessions[string(ev.session)]
	switch {
	case s != nil:
	case before.justBegun() && ev.kind != runStart:
		// Versions of 2025 had another id in the init line than in all others. It
		// stays an id of this session: another would have its runs' ids.
		s = before
		s.id = string(ev.session)
		s.run.session = s.id
	default:
		s = &session{id: string(ev.session), nth: len(m.sessions)}
	}
	m.sessions[s.id] = s
	m.current = s
	return s
}

// justBegun tells whether nothing is known of the session but its init line.
func (s *session) justBegun() bool {
	return s != nil && s.runs == 1 && s.run != nil && s.run.began && s.run.lines == 1
}

// taskEnd finds the run that left the task running. It may have ended.
func (m *Mapper) taskEnd(s *session, ev *event, arrival instant) {
	runs := s.behind
	if s.run != nil {
		runs = append(slices.Clone(runs), s.run)
	}
	for _, r := range runs {
		if r.taskEnd(ev, arrival) {
			s.behind = slices.DeleteFunc(s.behind, func(r *run) bool { return len(r.background) == 0 })
			return
		}
	}
	m.stats.Unpaired++
}
