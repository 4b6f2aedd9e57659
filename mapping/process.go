package mapping

import (
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Process is the agent, where it is spantee's own child.
type Process struct {
	Key        [32]byte // random: the ids of its first run are derived from it
	Executable string   // its name, without the path
	PID        int      // may be set after New: Root is needed to start the process
}

// An exit is how a Process ended.
type exit struct {
	code   int
	signal string
	stderr string
}

// Exited tells how the Process ended: with a code, or by a signal such as
// SIGKILL; and what it wrote last to stderr.
func (m *Mapper) Exited(code int, signal, stderr string) { m.exit = &exit{code, signal, stderr} }

// errorType is "" if the process ended well, or is not known to have ended.
func (e *exit) errorType() string {
	switch {
	case e == nil || e.signal == "" && e.code == 0:
		return ""
	case e.signal != "":
		return e.signal
	}
	return strconv.Itoa(e.code)
}

// status says how the process ended.
func (e *exit) status() string {
	switch {
	case e == nil:
		return ""
	case e.signal != "":
		return "ended by " + e.signal
	}
	return "exit status " + strconv.Itoa(e.code)
}

// Root returns what the first root of the Process will be. It is asked for before
// the process starts, which is to know it. Without a Process, or once its first
// run has begun, it is not valid.
func (m *Mapper) Root() trace.SpanContext {
	if m.first == nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    m.first.traceID(),
		SpanID:     m.first.key.spanID(rootRef),
		TraceFlags: trace.FlagsSampled,
		TraceState: m.opts.Parent.TraceState(),
	})
}

// emitRoots emits the roots of the Process, with how it ended. It has one in
// any case, even if it printed nothing: what it started may have joined its
// trace. silent is the error of that one.
func (m *Mapper) emitRoots(silent string) {
	p := m.opts.Process
	if r := m.first; r != nil {
		m.first = nil
		r.endRoot(r.clock.at(0, m.now), silent, 0)
	}
	for i, root := range m.roots {
		a := &root.span.attributes
		a.int(semconv.ProcessPID, int64(p.PID))
		if p.Executable != "" {
			a.str(semconv.ProcessExecutable, p.Executable)
		}
		if i == len(m.roots)-1 {
			m.endProcess(root)
		}
		m.emitRoot(root)
	}
	m.roots = nil
}

// endProcess makes the end of the process that of its last run.
func (m *Mapper) endProcess(root root) {
	s := root.span
	s.end = max(s.end, root.run.clock.at(0, m.now))
	if m.exit == nil {
		return
	}
	if m.exit.signal == "" {
		s.attributes.int(semconv.ProcessExitCode, int64(m.exit.code))
	}
	m.capture.Tail(&s.content, semconv.Stderr, m.exit.stderr)
	if e := m.exit.errorType(); e != "" && (s.errorType == "" || s.errorType == errIncomplete || s.errorType == e) {
		s.errorType = e // it says more than that there was no result
		if s.status == "" {
			s.status = m.exit.status()
		}
	}
}
