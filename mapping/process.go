package mapping

import (
	"strconv"

	"go.opentelemetry.io/otel/trace"
)

// A Process is the agent, where it is spantee's own child.
type Process struct {
	Key        [32]byte // random: the ids of its first run are derived from it
	Executable string   // its name, without the path
	PID        int      // may be set after New, as Root is needed to start it
}

// An exit is how a Process ended.
type exit struct {
	code   int
	signal string
	stderr string
}

// Exited tells how the Process ended: with a code, or by a signal such as
// SIGKILL; and what it said last on stderr.
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

// Root returns what the first root of the Process will be. It is asked for before
// the process starts, which is to know it.
func (m *Mapper) Root() trace.SpanContext {
	span := m.first.newSpan(opInvokeAgent, 0, Cursor, m.first.start, m.first.start)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    trace.TraceID(span.TraceId),
		SpanID:     trace.SpanID(span.SpanId),
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
		root.span.Attributes = append(root.span.Attributes, num(keyPID, p.PID))
		if p.Executable != "" {
			root.span.Attributes = append(root.span.Attributes, str(keyExecutable, p.Executable))
		}
		if i == len(m.roots)-1 {
			m.endProcess(&root)
		}
		m.emitRoot(root)
	}
	m.roots = nil
}

// endProcess makes the end of the process that of its last run.
func (m *Mapper) endProcess(root *root) {
	span := root.span
	span.EndTimeUnixNano = max(span.EndTimeUnixNano, uint64(root.run.clock.at(0, m.now)))
	if m.exit != nil && m.exit.signal == "" {
		span.Attributes = append(span.Attributes, num(keyExitCode, m.exit.code))
	}
	if m.exit != nil {
		m.capture.tail(&root.run.content, keyStderr, m.exit.stderr)
	}
	if e := m.exit.errorType(); e != "" && (root.errorType == "" || root.errorType == errIncomplete) {
		root.errorType = e // it says more than that there was no result
	}
}
