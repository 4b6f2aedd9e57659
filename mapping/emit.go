package mapping

import (
	"cmp"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// newSpan returns a span without times, with the attributes that all spans share.
func (r *run) newSpan(ref, parent spanRef, inv *invocation, subject string) *span {
	s := &span{ref: ref, parent: parent, subject: subject, attributes: r.stream.attributes(fieldAttributes, make([]byte, 0, commonSize))}
	a := &s.attributes
	a.str(semconv.AgentName, inv.name)
	switch ref.operation {
	case invokeAgent, chat, executeTool:
		a.str(semconv.OperationName, operationNames[ref.operation])
	default:
		a.str(semconv.OpenInferenceKind, semconv.KindChain)
	}
	a.strIfSet(semconv.ConversationID, r.conversation)
	a.strIfSet(semconv.SessionID, r.conversation)
	return s
}

// commonSize is how many bytes the attributes of most spans take at most.
const commonSize = 640

// emit emits a span.
func (r *run) emit(s *span) {
	s.status = cmp.Or(s.status, s.reason())
	if since := r.stream.opts.Since; !since.IsZero() && r.start.at < instant(since.UnixNano()) {
		return
	}
	s.start, s.end = r.clock.judged(s.start), r.clock.judged(s.end)
	r.counts.spans++
	r.stream.stats.Spans++
	r.lastEnd = max(r.lastEnd, s.end.at)
	if r.stream.found != nil { // it is the first reading
		return
	}
	r.settleKey()
	r.stream.results = append(r.stream.results, Output{Agent: r.agent.Name, span: s, ids: &r.ids})
}

// reason says in harmless words why a span failed.
func (s *span) reason() string {
	switch {
	case s.errorType == errIncomplete && s.ref == rootRef:
		return "the stream ended without a result"
	case s.errorType == semconv.ErrorOutcomeUnknown:
		return "the result does not say whether the run succeeded"
	case s.errorType == errIncomplete:
		return "the stream does not show its end"
	case s.errorType == "" || s.errorType == errInterrupted || s.errorType == errKilled:
		return ""
	case s.ref.operation == chat || s.ref.operation == invokeAgent:
		return "the agent reported an error"
	case s.ref.operation == background:
		return "the task failed"
	}
	return ""
}

// addFirstChunk adds the time to the first chunk, if both of its moments are known.
func (s *span) addFirstChunk(r *run, chunk moment) {
	if chunk.at <= s.start.at || r.clock.guesses(chunk) || r.clock.guesses(s.start) {
		return
	}
	a := &s.attributes
	if s.ref.operation == chat {
		a.str(semconv.LangfuseCompletionStarted, formatTime(chunk.at))
	}
	a.float(semconv.TimeToFirstChunk, chunk.at.Seconds(s.start.at))
	a.int(semconv.FirstChunkMillis, int64((chunk.at-s.start.at+agent.Milliseconds/2)/agent.Milliseconds))
}

// addNotices adds events that no chat covers. They lie within the span.
func (s *span) addNotices(notices []event) {
	for _, n := range notices {
		n.at = min(max(n.at, s.start.at), s.end.at-microsecond)
		s.events = append(s.events, n)
	}
}

// settleKey makes sure that the run has ids, which are those of its first timestamp.
func (r *run) settleKey() {
	if r.ids.known || r.stream.found != nil {
		return
	}
	first := r.start.at
	switch {
	case r.clock.stamped:
		first = r.clock.first
	case r.clock.source == Recording:
		first = r.stream.written()
	}
	r.stream.names.id(r.session) // which all spans repeat, is counted once if it is hidden
	number := r.number
	if r.agent.Log { // which may be read from any run on
		number = 0
	}
	r.ids = newIDs(r.stream.distinct(newRunKey(r.agent.Name, cmp.Or(r.session, r.seed), number, first, &r.stream.opts)))
	r.stream.stats.Generation++
	if !r.stream.copy {
		started := r.describe()
		started.Start = time.Unix(0, int64(first))
		r.stream.results = append(r.stream.results, Output{Started: &started})
	}
}

func (r *run) traceID() [16]byte { return r.ids.traceID(r.stream.opts.Parent) }

// addTimes adds how long the model and the tools took.
func (inv *invocation) addTimes(a *attributes) {
	model, tools := inv.modelTime/agent.Milliseconds, inv.busy.total/agent.Milliseconds
	a.float(semconv.ModelSeconds, float64(model)/1000)
	a.int(semconv.ModelMillis, int64(model))
	a.float(semconv.ToolSeconds, float64(tools)/1000)
	a.int(semconv.ToolMillis, int64(tools))
}

// describe returns a description of a run.
func (r *run) describe() Run {
	return Run{
		Agent: r.agent.Name, Model: r.main.model, Session: r.session, TraceID: trace.TraceID(r.traceID()),
		Spans: r.counts.spans, Tools: r.counts.tools - r.counts.scripts, ToolErrors: r.counts.toolErrors,
	}
}

func (r *run) emitRoot(s *span) {
	r.addDoubts(s)
	emitted := r.counts.spans
	r.emit(s)
	if r.counts.spans == emitted || r.stream.found != nil {
		return
	}
	described := r.describe()
	described.Start, described.Duration = time.Unix(0, int64(s.start.at)), time.Duration(s.end.at-s.start.at)
	described.ErrorType, described.Status = s.errorType, s.status
	r.stream.results[len(r.stream.results)-1].Ended = &described
}

func exitStatus(code int64) string { return "exit code " + strconv.FormatInt(code, 10) }

// note adds an event with the current time to the root. The event is not part of
// the stream, so it does not move the run's clock.
func (r *run) note(name string, fact agent.Fact) {
	at := r.clock.reached
	if r.clock.live() {
		at = max(at, quantize(r.stream.now+r.clock.ahead))
	}
	r.notices = append(r.notices, r.newNotice(&agent.Event{Notice: name, Facts: []agent.Fact{fact}}, at))
}

// A root is a run's finished root span.
type root struct {
	run  *run
	span *span
}
