package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// An invocation is the work of one agent: the run's main agent or a sub-agent.
type invocation struct {
	ref   spanRef
	tool  spanRef // the call that started it
	task  *tool   // the call that runs it in the background, or nil
	name  string
	model string
	start instant

	turn     *turn // the current one
	caller   *turn // ended by a tool call, but the stream may still add to it
	lastTurn *turn // the one that ended last
	forNextTurn
	state    agentState
	wait     instant // when the agent began to wait for the model
	lastStep instant // the last delta, end of thinking or end of a call: a call that starts later began after it
	busy     busy

	firstOutput
	modelTime instant // how long it has waited for the model
	repeats   repeats
	counts    struct{ turns, tools, toolErrors, deltas int }
	dialog    dialog
	ended     bool
}

// forNextTurn is what waits for output of the model, or for the turn after it.
type forNextTurn struct {
	notices   []notice
	compacted bool // the agent has shortened its context since its last turn
}

// firstOutput says when an agent's model first produced something.
type firstOutput struct {
	hasOutput  bool
	firstChunk instant // 0 if its time is unknown
}

// An agentState says whether an agent without a current turn waits for the model.
type agentState uint8

const (
	working agentState = iota // it waits for the model, or for tools
	woken                     // a notification, a prompt or a retry made it wait for the model
	idle                      // the model has answered
)

// busy is the time in which tools run.
type busy struct {
	running   int                          // calls in flight
	intervals []struct{ from, to instant } // the latest ones, without overlaps
	total     instant
}

// maxIntervals is how many intervals are kept for merging with a later one.
const maxIntervals = 64

// add adds a call that has ended. Calls end in order, but a call that is reported only
// at its end may have begun before calls that ended earlier.
func (b *busy) add(from, to instant) {
	n := len(b.intervals)
	for ; n > 0 && b.intervals[n-1].to >= from; n-- {
		last := b.intervals[n-1]
		b.total -= last.to - last.from
		from, to = min(from, last.from), max(to, last.to)
	}
	b.total += to - from
	if n == maxIntervals {
		n = copy(b.intervals, b.intervals[1:])
	}
	b.intervals = append(b.intervals[:n], struct{ from, to instant }{from, to})
}

// last returns when a call last ended, 0 if none has.
func (b *busy) last() instant {
	if n := len(b.intervals); n > 0 {
		return b.intervals[n-1].to
	}
	return 0
}

// answered reports whether the model has given its answer.
func (inv *invocation) answered() bool {
	return inv.state == idle || inv.turn != nil && inv.turn.state == answered
}

// addTimes adds how long the model and the tools took.
func (inv *invocation) addTimes(a *attributes) {
	model, tools := inv.modelTime/agent.Milliseconds, inv.busy.total/agent.Milliseconds
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
	r.finishCaller(inv)
	if inv.lastTurn != nil {
		at = max(at, inv.lastTurn.end)
	}
	s := r.newSpan(inv.ref, inv.tool, inv, spanName{operation: semconv.OperationInvokeAgent, subject: inv.name})
	s.start, s.end = inv.start, max(at, r.clock.last, inv.start+quantum)
	a := &s.attributes
	a.strIfSet(semconv.RequestModel, inv.model)
	a.int(semconv.Turns, int64(inv.counts.turns))
	a.int(semconv.Tools, int64(inv.counts.tools))
	a.int(semconv.ToolErrors, int64(inv.counts.toolErrors))
	a.int(semconv.Deltas, int64(inv.counts.deltas))
	s.times = inv
	for _, n := range inv.notices {
		s.events.add(n.name, min(max(n.at, s.start), s.end-microsecond), n.attributes)
	}
	s.addFirstChunk(inv.start, inv.firstChunk)
	s.errorType, s.content = errorType, inv.dialog.attributes(r.m.capture)
	r.emit(s)
	return s.end
}

// common returns the attributes shared by all spans of an invocation and an
// operation.
func (inv *invocation) common(r *run, op operation) attributes {
	a := attributes{field: fieldAttributes, max: r.m.opts.MaxAttributeBytes, wire: make([]byte, 0, 1024)}
	a.str(semconv.AgentName, inv.name)
	if name := operationNames[op]; name != "" {
		a.str(semconv.OperationName, name)
	} else {
		a.str(semconv.OpenInferenceKind, semconv.KindChain)
	}
	if r.session != "" {
		a.conversation(r.m.names.idAgain(r.session))
	}
	return a
}

// conversation adds the id of the session.
func (a *attributes) conversation(id string) {
	a.str(semconv.ConversationID, id)
	a.str(semconv.SessionID, id)
}
