package mapping

import (
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A turn is one model call, from when the agent began to wait for the model to the
// first tool call or the end of the answer. Its span is a chat.
type turn struct {
	n          int // in the run, from 1
	state      turnState
	start, end instant // the end is set with the first tool call, or with the span
	guessed    bool    // its end was inferred

	firstChunk   instant // 0 if its time is unknown
	lastOutputAt instant // the last event of the model
	askedAt      instant // when the agent asked its user something, 0 if the model has said more since
	thinks       bool    // a block of thinking has not ended
	open         turnOpen

	compacted      bool // the agent shortened its context before
	errorType      string
	response       response
	text, thinking tally
	log            *eventLog       // nil once the turn has its span
	asked          []content.Value // the messages it answers
	callPart       []content.Value // the tool call that ends it
}

// A turnState is how far a turn has come. The states are in order, except that a turn
// may call a tool before it says anything.
type turnState uint8

const (
	waiting    turnState = iota // for the model to produce something
	speaking                    // the model has produced something
	answered                    // the answer is complete
	calledTool                  // the turn has ended with a tool call
	resumed                     // the model has said more after its tool call
)

// hasOutput reports whether the model has produced something.
func (t *turn) hasOutput() bool { return t.state != waiting }

// A turnOpen says how long a turn that has called a tool waits for its span.
type turnOpen uint8

const (
	notOpen       turnOpen = iota // its end is known
	untilCallsEnd                 // the ends of its calls tell when they began
	untilNextTurn                 // the model may say more
)

// A response is what a stream states about a model's response.
type response struct {
	id, model, provider string
	reason              string // why the model stopped, in its words
	usage               agent.Usage
}

// reopenCaller makes a turn that was resumed after its tool call the current one again,
// because the run breaks off.
func (inv *invocation) reopenCaller() {
	if t := inv.caller; inv.turn == nil && t != nil && t.state == resumed && inv.busy.running == 0 && inv.task == nil && inv.busy.last() <= t.lastOutputAt {
		inv.turn, inv.caller = t, nil
		t.state = speaking
	}
}

// openTurn returns the current turn, or a new one if the last one is over. ev may
// be nil.
func (r *run) openTurn(inv *invocation, at instant, ev *agent.Event) *turn {
	// In builds of 2025, each text looks like the last of its turn.
	over := func(t *turn) bool { return t.state == answered && (ev == nil || ev.Kind != agent.TextMessage) }
	if t := inv.turn; t != nil && (over(t) || ev != nil && t.otherCall(ev.ModelCallID)) {
		r.closeTurn(inv, t.lastWord(at), "")
	}
	if t := inv.caller; inv.turn == nil && t != nil && ev != nil && len(ev.ModelCallID) > 0 && t.response.id == string(ev.ModelCallID) {
		t.state = resumed
		t.response.learn(ev)
		return t
	}
	if inv.turn == nil {
		r.finishCaller(inv)
		if inv.busy.running > 0 {
			inv.wait = inv.waitBeside(at)
		}
		if r.counts.turns++; r.counts.turns == 1 {
			r.ownFirst = inv == r.main
		}
		inv.counts.turns++
		t := &turn{n: r.counts.turns, start: inv.wait, lastOutputAt: inv.wait, asked: inv.dialog.asked, log: new(eventLog)}
		t.compacted = inv.compacted
		inv.dialog.asked, inv.state, inv.compacted = nil, working, false
		inv.turn = t
	}
	if ev != nil {
		inv.turn.response.learn(ev)
	}
	return inv.turn
}

// waitBeside returns since when the agent has waited for a model that produces text
// while a tool is running: since another tool ended, or not at all.
func (inv *invocation) waitBeside(at instant) instant {
	if last := inv.busy.last(); inv.lastTurn != nil && last > inv.lastTurn.end {
		return last
	}
	return at
}

// otherCall reports whether an event belongs to another model call.
func (t *turn) otherCall(call []byte) bool {
	return t.hasOutput() && len(call) > 0 && t.response.id != "" && t.response.id != string(call)
}

// learn records what an event states about the response.
func (p *response) learn(ev *agent.Event) {
	if len(ev.ModelCallID) > 0 && string(ev.ModelCallID) != p.id {
		p.id = string(ev.ModelCallID)
	}
	if len(ev.Model) > 0 {
		p.model = string(ev.Model)
	}
	if len(ev.Provider) > 0 {
		p.provider = string(ev.Provider)
	}
	if ev.FinishReason != "" {
		p.reason = ev.FinishReason
	}
	if ev.Usage != nil {
		p.usage = *ev.Usage
	}
}

// lastWord returns when a turn without a tool call ended: with the last output of
// the model.
func (t *turn) lastWord(at instant) instant {
	if t.hasOutput() {
		return t.lastOutputAt
	}
	return at
}

// noteOutput records output of the model. delta says that it is a piece of text, which
// came when the model produced it. A whole text is printed after the model has finished
// it, so that nobody knows when its first chunk came.
func (r *run) noteOutput(inv *invocation, t *turn, at instant, delta bool) {
	if !t.hasOutput() && delta && !r.guessed {
		t.firstChunk = at
		if !inv.hasOutput {
			inv.firstChunk = at
		}
	}
	if len(inv.notices) > 0 {
		t.takeNotices(r, inv)
	}
	t.state, inv.hasOutput, t.askedAt = max(t.state, speaking), true, 0
	t.lastOutputAt, t.guessed = max(t.lastOutputAt, at), r.guessed
}

// textEnd handles the end of a text that came as deltas. It may come after a tool
// call has ended the turn.
func (r *run) textEnd(inv *invocation, at instant, ev *agent.Event) {
	t := inv.turn
	if t == nil {
		if inv.caller != nil && r.agent.TurnEnds {
			inv.caller.response.learn(ev)
		}
		return
	}
	t.response.learn(ev)
	t.endText(r, answerText, at)
	if ev.Final {
		t.state, t.lastOutputAt = answered, max(t.lastOutputAt, at)
		t.guessed = t.guessed || ev.Estimated
	}
}

// turnEnd handles the end of a model call. The turn may have called a tool before.
func (r *run) turnEnd(inv *invocation, at instant, ev *agent.Event) {
	t := inv.turn
	switch {
	case t == nil && ev.Failed: // failed before the model produced anything
		t = r.openTurn(inv, at, nil)
	case t == nil:
		t = inv.caller
	}
	if t == nil || ev.ModelCallID != nil && t.response.id != "" && t.response.id != string(ev.ModelCallID) && !ev.Failed {
		return
	}
	t.response.learn(ev)
	if t == inv.caller {
		if t.state == resumed { // it ended with text, not with a tool call
			t.response.reason = cmp.Or(t.response.reason, "stop")
		}
		r.finishCaller(inv)
		if inv.state = working; ev.Final && inv.busy.running == 0 {
			inv.state = idle
		}
		return
	}
	t.takeNotices(r, inv)
	if ev.Failed {
		r.closeTurn(inv, at, ev.Status)
		return
	}
	t.guessed = t.guessed || r.guessed
	r.closeTurn(inv, t.lastWord(at), "")
	if !ev.Final {
		inv.state = working
	}
}

// endTurn ends the current turn because another begins.
func (r *run) endTurn(inv *invocation, at instant) {
	if t := inv.turn; t != nil {
		r.closeTurn(inv, t.lastWord(at), "")
	}
	r.finishCaller(inv)
}

// closeIdle ends the current turn, after which the agent was idle: what happened since
// is on the root. If the last word has no timestamp, it is put halfway between the
// timestamp before it and at.
func (r *run) closeIdle(inv *invocation, at instant) {
	t := inv.turn
	if t.hasOutput() {
		r.notices = append(r.notices, inv.notices...)
		inv.notices = nil
	}
	end := t.lastWord(at)
	if t.guessed && r.clock.stamped && !r.agent.CoarseStamps {
		end += quantize((at - end) / 2)
	}
	r.closeTurn(inv, end, "")
}

// closeTurn ends the current turn, which called no tool.
func (r *run) closeTurn(inv *invocation, at instant, errorType string) {
	t := inv.turn
	if !t.hasOutput() {
		t.takeNotices(r, inv)
	}
	inv.turn, inv.lastTurn = nil, t
	t.errorType = errorType
	t.end = r.endOf(t, at)
	inv.wait, inv.state = t.end, idle
	r.finishTurn(inv, t)
}

// endWithCall ends the current turn with a tool call, and returns when it ended.
func (r *run) endWithCall(inv *invocation, at instant, open turnOpen) instant {
	t := inv.turn
	t.takeNotices(r, inv)
	inv.turn, inv.lastTurn, inv.caller = nil, t, t
	t.state, t.open = calledTool, open
	t.guessed = r.guessed
	t.end = r.endOf(t, at)
	inv.wait = t.end
	if open == notOpen {
		r.finishCaller(inv)
	}
	return t.end
}

// endOf returns when a turn ends, which is after its last event and after its
// start. While the agent waits for its user, it does not wait for the model.
func (r *run) endOf(t *turn, at instant) instant {
	if t.askedAt != 0 {
		at = min(at, t.askedAt)
	}
	if t.log.last != 0 {
		at = max(at, t.log.last+quantum)
	}
	return r.clock.after(t.start, at)
}

// finishCaller finishes the turn that ended with a tool call: the stream will not
// add to it.
func (r *run) finishCaller(inv *invocation) {
	if t := inv.caller; t != nil {
		inv.caller = nil
		if t.state == resumed {
			t.end = r.endOf(t, t.lastOutputAt)
			inv.wait = max(inv.wait, t.end)
		}
		r.finishTurn(inv, t)
	}
}

// finishTurn makes the span of a turn that has ended.
func (r *run) finishTurn(inv *invocation, t *turn) {
	inv.modelTime += t.end - t.start
	if end := t.end - quantum; t.log.last > end { // the call began before a text of its turn was printed
		t.log.shift(func(at instant) instant { return min(at, end) })
	}
	t.log.finish(r, inv, t)
	answers := r.m.names.pass(t.response.model)
	request := cmp.Or(inv.model, answers)
	span := r.newSpan(spanRef{chat, t.n}, inv.ref, inv, spanName{operation: semconv.OperationChat, subject: label(request)})
	span.client, span.estimated = true, t.guessed
	span.start, span.end = t.start, t.end
	span.turn = t
	a := &span.attributes
	a.strIfSet(semconv.ProviderName, r.m.names.pass(cmp.Or(t.response.provider, r.agent.Provider)))
	a.strIfSet(semconv.RequestModel, request)
	a.strIfSet(semconv.ResponseModel, answers)
	a.strIfSet(semconv.ResponseID, r.m.names.id(t.response.id))
	a.words(semconv.FinishReasons, t.finishReason())
	if t.text.deltas+t.thinking.deltas > 0 {
		a.bool(semconv.RequestStream, true)
	}
	if i := slices.IndexFunc(r.facts, func(f agent.Fact) bool { return f.Key == semconv.ReasoningLevel }); i >= 0 && inv == r.main {
		r.m.fact(a, &r.facts[i], nil)
	}
	if t.compacted {
		a.bool(semconv.Compacted, true)
	}
	a.int(semconv.TurnNumber, int64(t.n))
	t.text.addTo(a, semconv.TextDeltas, semconv.TextBytes)
	t.thinking.addTo(a, semconv.ThinkingDeltas, semconv.ThinkingBytes)
	r.counts.text.plus(t.text)
	r.counts.thinking.plus(t.thinking)
	if u := &t.response.usage; u.Known || u.CostKnown {
		a.usage(u)
		r.addUsage(u)
	}
	span.errorType = t.errorType
	span.events = t.log.own
	if c := r.m.capture; c.Full() {
		if len(t.asked) > 0 {
			m := content.Messages(t.asked...).Clone()
			c.JSON(&span.content, semconv.InputMessages, &m, 0)
		}
		t.log.capture(c, span, t)
		if s := t.log.speech.Last(c); s != "" {
			inv.dialog.answer = s
		}
	}
	t.log = nil
	r.emit(span)
}

// finishReason returns why the model stopped, in the conventions' terms if the
// agent does not state a reason.
func (t *turn) finishReason() string {
	switch {
	case t.errorType != "":
		return "error"
	case t.response.reason != "":
		return t.response.reason
	case t.state >= calledTool:
		return "tool_call"
	}
	return "stop"
}

// addFirstChunk adds the time to the first chunk, if that is known.
func (s *span) addFirstChunk(since, chunk instant) {
	if chunk <= since {
		return
	}
	a := &s.attributes
	if s.client {
		a.str(semconv.LangfuseCompletionStarted, formatTime(chunk))
	}
	a.float(semconv.TimeToFirstChunk, chunk.Seconds(since))
	a.int(semconv.FirstChunkMillis, int64((chunk-since+agent.Milliseconds/2)/agent.Milliseconds))
}

// shift puts the times of a turn through f.
func (t *turn) shift(f func(instant) instant, move func(...*instant)) {
	move(&t.start, &t.firstChunk, &t.lastOutputAt, &t.askedAt, &t.end)
	t.log.shift(f)
}

// label returns a model's name for use in a span's name, or "" if it may be
// something else.
func label(s string) string {
	if len(s) > 64 {
		return ""
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return s
}
