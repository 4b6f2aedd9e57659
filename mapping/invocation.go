package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// An invocation is the work of one agent: the run's main agent or a sub-agent.
type invocation struct {
	ref   spanRef
	tool  spanRef // the call that started it
	name  string
	model string
	start instant

	turn        *turn   // the current one
	callingTurn *turn   // ended by a tool call, but the stream may still add to it
	lastTurn    *turn   // the one that ended last
	wait        instant // when the agent began to wait for the model
	idle        bool    // the model has answered, so the agent is not waiting for it
	woken       bool    // a notification, a prompt or a retry made it wait for the model
	task        *tool   // the call that runs it in the background, or nil
	notices     []notice

	running    int        // tools in flight
	busy       []interval // the latest intervals in which tools ran
	firstChunk instant
	estimated  bool // firstChunk came at an unknown time after the start
	untimed    bool // the time of the first chunk is unknown

	repeats             repeats
	counts              invocationCounts
	modelTime, toolTime instant
	asked               []content.Value // the messages that the next turn answers: the prompt, or what tools returned
	prompted            bool            // the prompt is on the span
	prompts             content.Endings // of the prompts so far
	answer              string          // the last text that was said
	content             content.Attributes
	ended               bool
	encoded             [approval + 1]encodedCommon
}

// An interval is the time from one instant to another.
type interval struct{ from, to instant }

// maxBusy is how many intervals are kept for merging with a later one.
const maxBusy = 64

// ranTool adds the time of a call to the time in tools. Calls end in order, but a
// call that is reported only at its end may have begun before calls that ended
// earlier.
func (inv *invocation) ranTool(from, to instant) {
	n := len(inv.busy)
	for ; n > 0 && inv.busy[n-1].to >= from; n-- {
		last := inv.busy[n-1]
		inv.toolTime -= last.to - last.from
		from, to = min(from, last.from), max(to, last.to)
	}
	inv.toolTime += to - from
	if n == maxBusy {
		n = copy(inv.busy, inv.busy[1:])
	}
	inv.busy = append(inv.busy[:n], interval{from, to})
}

type invocationCounts struct{ turns, tools, toolErrors, deltas int }

// answered reports whether the model has given its answer.
func (inv *invocation) answered() bool {
	return inv.idle || inv.turn != nil && inv.turn.answered != 0
}

// lastBusy returns when a tool last ended, 0 if none has.
func (inv *invocation) lastBusy() instant {
	if n := len(inv.busy); n > 0 {
		return inv.busy[n-1].to
	}
	return 0
}

// addTimes adds how long the model and the tools took.
func (inv *invocation) addTimes(a *attributes) {
	model, tools := inv.modelTime/agent.Milliseconds, inv.toolTime/agent.Milliseconds
	a.float(semconv.ModelSeconds, float64(model)/1000)
	a.int(semconv.ModelMillis, int64(model))
	a.float(semconv.ToolSeconds, float64(tools)/1000)
	a.int(semconv.ToolMillis, int64(tools))
}

// endInvocation finishes a sub-agent's span, and returns when it ended: not
// before its last turn.
func (r *run) endInvocation(inv *invocation, at instant, errorType string) instant {
	if inv.ended {
		return at
	}
	inv.ended = true
	for _, t := range slices.Backward(sortedTools(r.tools)) { // end what is open within it
		if t.inv == inv && r.tools[t.id] == t {
			at = max(at, r.endTool(t, r.clock.after(t.start, at), errIncomplete, ""))
		}
	}
	if t := inv.turn; t != nil {
		r.closeTurn(inv, t.lastWord(at), errorType)
	}
	r.settleCalled(inv)
	if inv.lastTurn != nil {
		at = max(at, inv.lastTurn.end)
	}
	s := r.newSpan(inv.ref, inv.tool, inv, spanName{operation: semconv.OperationInvokeAgent, subject: inv.name})
	s.start, s.end = inv.start, max(at, r.clock.last, inv.start+quantum)
	a := &s.attributes
	if inv.model != "" {
		a.str(semconv.RequestModel, inv.model)
	}
	a.int(semconv.Turns, int64(inv.counts.turns))
	a.int(semconv.Tools, int64(inv.counts.tools))
	a.int(semconv.ToolErrors, int64(inv.counts.toolErrors))
	a.int(semconv.Deltas, int64(inv.counts.deltas))
	s.times = inv
	for _, n := range inv.notices {
		s.events.add(n.name, min(max(n.at, s.start), s.end-microsecond), n.attributes)
	}
	s.addFirstChunk(inv.start, inv.firstChunk, inv.estimated)
	inv.captureAnswer(r.m.capture)
	s.errorType, s.content = errorType, inv.content
	r.emit(s)
	return s.end
}

// captureAnswer adds the answer of an agent to its span.
func (inv *invocation) captureAnswer(c *content.Capture) {
	if c.Full() && inv.answer != "" {
		m := content.Messages(content.Message("assistant", []content.Value{content.TextPart("text", inv.answer)}, "stop"))
		c.JSON(&inv.content, semconv.OutputMessages, &m, 0)
	}
}

// common returns the attributes shared by all spans of an invocation and an
// operation; of chats, by those with the same model.
func (inv *invocation) common(r *run, op operation, of chatModel) []byte {
	c := &inv.encoded[op]
	if len(c.wire) > 0 && c.session == r.session && c.name == inv.name && c.model == of {
		return c.wire
	}
	a := attributes{field: fieldAttributes, max: r.m.opts.MaxAttributeBytes}
	a.str(semconv.AgentName, inv.name)
	if name := operationNames[op]; name != "" {
		a.str(semconv.OperationName, name)
	} else {
		a.str(semconv.OpenInferenceKind, semconv.KindChain)
	}
	if r.session != "" {
		id := r.m.names.id(r.session)
		a.str(semconv.ConversationID, id)
		a.str(semconv.SessionID, id)
	}
	for _, m := range [...]struct{ key, value string }{
		{semconv.ProviderName, of.provider}, {semconv.RequestModel, of.request}, {semconv.ResponseModel, of.response},
	} {
		if m.value != "" {
			a.str(m.key, m.value)
		}
	}
	*c = encodedCommon{wire: a.wire, session: r.session, name: inv.name, model: of}
	return c.wire
}

// encodedCommon caches the attributes of an invocation's spans, while what they say
// stays the same.
type encodedCommon struct {
	wire          []byte
	session, name string
	model         chatModel
}

// A chatModel is who was asked and who answered, as shown. Other spans than chats have
// none.
type chatModel struct{ provider, request, response string }
