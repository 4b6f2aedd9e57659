package mapping

import (
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Process is the process of an agent that spantee started.
type Process struct {
	Key        [32]byte // random: the ids of its first run are derived from it
	Executable string   // its name, without the path
	PID        int      // may be set after New: Root is needed to start the process
}

// process is what a Mapper keeps of its Process.
type process struct {
	first *run   // until its first line comes
	roots []root // which wait for its end
	exit  *exit  // nil as long as it is not known
}

// An exit is how a Process ended.
type exit struct {
	code   int
	signal string
	stderr string
}

// SetExit records how the Process ended: its code, or a signal such as SIGKILL, and
// the end of its stderr.
func (m *Mapper) SetExit(code int, signal, stderr string) { m.exit = &exit{code, signal, stderr} }

// errorType returns "" if the process ended well, or is not known to have ended.
func (e *exit) errorType() string {
	switch {
	case e == nil || e.signal == "" && e.code == 0:
		return ""
	case e.signal != "":
		return e.signal
	}
	return strconv.Itoa(e.code)
}

// status returns a description of how the process ended.
func (e *exit) status() string {
	switch {
	case e == nil:
		return ""
	case e.signal != "":
		return "ended by " + e.signal
	}
	return "exit status " + strconv.Itoa(e.code)
}

// Root returns the span context of the first root of the Process. The process gets
// it in its environment, so Root is called before the process starts. The result is
// not valid without a Process, or once its first run has begun.
func (m *Mapper) Root() trace.SpanContext {
	if m.first == nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    m.first.traceID(),
		SpanID:     m.first.ids.root,
		TraceFlags: trace.FlagsSampled,
		TraceState: m.opts.Parent.TraceState(),
	})
}

// emitRoots emits the roots of the Process, with how it ended. There is a root even
// if the process printed nothing, because processes that it started may have joined
// its trace. silent is the error type of that root.
func (m *Mapper) emitRoots(silent string) {
	p := m.opts.Process
	if r := m.first; r != nil {
		m.first = nil
		r.endRoot(r.clock.at(0, m.now), silent, 0)
	}
	for i, root := range m.roots {
		a := &root.span.attributes
		a.int(semconv.ProcessPID, int64(p.PID))
		a.strIfSet(semconv.ProcessExecutable, p.Executable)
		if i == len(m.roots)-1 {
			m.endProcess(root)
		}
		m.emitRoot(root)
	}
	m.roots = nil
}

// endProcess ends the last run together with the process.
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
		s.errorType = e // more specific than the lack of a result
		if s.status == "" {
			s.status = m.exit.status()
		}
	}
}
