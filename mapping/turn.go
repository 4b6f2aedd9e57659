package mapping

import (
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A turn is one model call, from when the agent began to wait for the model to the
// first tool call or the end of the answer. Its span is a chat.
type turn struct {
	n     int // in the run, from 1
	start instant

	firstChunk   instant // 0 before one came
	untimed      bool    // the time of the first chunk is unknown
	retriedAt    instant // when the request was last retried, 0 if it was not
	lastOutputAt instant // the last event of the model
	answered     instant // the end of the answer, 0 before it came
	hasOutput    bool    // the model has produced something
	thinks       bool    // a block of thinking has not ended
	estimated    bool    // its start was inferred
	guessed      bool    // its first chunk or its end was inferred

	end       instant // set when the turn has called a tool
	errorType string
	toolCall  bool // it ended by calling a tool
	mayGoOn   bool // the model call may continue after its tool call
	wentOn    bool // it has continued
	waitsFor  *tool

	call     string // the response's id
	model    string // that answered
	provider string
	reason   string // why the model stopped, in its words
	usage    agent.Usage

	text, thinking tally
	log            *eventLog       // nil once the turn has its span
	asked          []content.Value // the messages it answers
	callPart       []content.Value // the tool call that ends it
}

type tally struct{ deltas, bytes int }

func (t *tally) add(a *attributes, deltas, bytes string) {
	a.int(deltas, int64(t.deltas))
	a.int(bytes, int64(t.bytes))
}

// resumeCalled makes a turn that went on after its tool call the current one again,
// because the run breaks off.
func (inv *invocation) resumeCalled() {
	if t := inv.callingTurn; inv.turn == nil && t != nil && t.wentOn && inv.running == 0 && inv.task == nil && inv.lastBusy() <= t.lastOutputAt {
		inv.turn, inv.callingTurn = t, nil
		t.toolCall = false
	}
}

// openTurn returns the current turn, or a new one if the last one is over. ev may
// be nil.
func (r *run) openTurn(inv *invocation, at instant, ev *agent.Event) *turn {
	// In builds of 2025, each text looks like the last of its turn.
	answered := func(t *turn) bool { return t.answered != 0 && (ev == nil || ev.Kind != agent.TextMessage) }
	if t := inv.turn; t != nil && (answered(t) || ev != nil && t.otherCall(ev.ModelCallID)) {
		r.closeTurn(inv, t.lastWord(at), "")
	}
	if t := inv.callingTurn; inv.turn == nil && t != nil && ev != nil && len(ev.ModelCallID) > 0 && t.call == string(ev.ModelCallID) {
		t.wentOn = true
		t.learn(ev)
		return t
	}
	if inv.turn == nil {
		r.settleCalled(inv)
		if inv.running > 0 {
			inv.wait = inv.waitBeside(at)
		}
		if r.counts.turns++; r.counts.turns == 1 {
			r.ownFirst = inv == r.main
		}
		inv.counts.turns++
		t := &turn{n: r.counts.turns, start: inv.wait, lastOutputAt: inv.wait, asked: inv.asked, log: r.m.takeLog()}
		t.estimated = r.estimated && r.ownFirst && t.n == 1
		inv.asked, inv.idle, inv.woken = nil, false, false
		inv.turn = t
	}
	if len(inv.notices) > 0 {
		inv.turn.takeNotices(r, inv)
	}
	if ev != nil {
		inv.turn.learn(ev)
	}
	return inv.turn
}

// waitBeside returns since when the agent has waited for a model that produces text
// while a tool is running: since another tool ended, or not at all.
func (inv *invocation) waitBeside(at instant) instant {
	if n := len(inv.busy); n > 0 && inv.lastTurn != nil && inv.busy[n-1].to > inv.lastTurn.end {
		return inv.busy[n-1].to
	}
	return at
}

// otherCall reports whether an event belongs to another model call.
func (t *turn) otherCall(call []byte) bool {
	return t.hasOutput && len(call) > 0 && t.call != "" && t.call != string(call)
}

// learn records what an event states about the model call.
func (t *turn) learn(ev *agent.Event) {
	if len(ev.ModelCallID) > 0 && string(ev.ModelCallID) != t.call {
		t.call = string(ev.ModelCallID)
	}
	if len(ev.Model) > 0 {
		t.model = string(ev.Model)
	}
	if len(ev.Provider) > 0 {
		t.provider = string(ev.Provider)
	}
	if ev.FinishReason != "" {
		t.reason = ev.FinishReason
	}
	if ev.Usage != nil {
		t.usage = *ev.Usage
	}
}

// lastWord returns when a turn without a tool call ended: with the last output of
// the model.
func (t *turn) lastWord(at instant) instant {
	switch {
	case t.answered != 0:
		return t.answered
	case t.hasOutput:
		return t.lastOutputAt
	}
	return at
}

// noteOutput records output of the model.
func (t *turn) noteOutput(at instant) {
	t.hasOutput = true
	t.lastOutputAt = max(t.lastOutputAt, at)
}

// chunk records a piece of text. A whole text is not a chunk, because it is printed
// after the model has finished it. timed says whether the time of the piece is
// known.
func (t *turn) chunk(inv *invocation, at instant, timed bool) {
	if t.firstChunk != 0 || t.untimed {
		return
	}
	if !timed {
		t.untimed = true
		inv.untimed = inv.untimed || inv.firstChunk == 0
		return
	}
	t.firstChunk = at
	if inv.firstChunk == 0 && !inv.untimed {
		inv.firstChunk = at
		inv.estimated = t.guessed || t.estimated && t.retriedAt == 0
	}
}

// textEnd handles the end of a text that came as deltas. It may come after a tool
// call has ended the turn.
func (r *run) textEnd(inv *invocation, at instant, ev *agent.Event) {
	t := inv.turn
	if t == nil {
		if inv.callingTurn != nil && r.agent.TurnEnds {
			inv.callingTurn.learn(ev)
		}
		return
	}
	t.learn(ev)
	t.endText(r, answerText, at)
	if ev.Final {
		t.answered = at
	}
}

// turnEnd handles the end of a model call. The turn may have called a tool before.
func (r *run) turnEnd(inv *invocation, at instant, ev *agent.Event) {
	t := inv.turn
	switch {
	case t == nil && ev.Failed: // failed before the model produced anything
		t = r.openTurn(inv, at, nil)
	case t == nil:
		t = inv.callingTurn
	}
	if t == nil || ev.ModelCallID != nil && t.call != "" && t.call != string(ev.ModelCallID) && !ev.Failed {
		return
	}
	t.learn(ev)
	if t == inv.callingTurn {
		if t.wentOn { // it ended with text, not with a tool call
			t.toolCall = false
		}
		r.settleCalled(inv)
		inv.idle = ev.Final && inv.running == 0
		return
	}
	t.takeNotices(r, inv)
	if ev.Failed {
		r.closeTurn(inv, at, ev.Status)
		return
	}
	t.guessed = t.guessed || r.guessed
	r.closeTurn(inv, t.lastWord(at), "")
	inv.idle = inv.idle && ev.Final
}

// endTurn ends the current turn because another begins.
func (r *run) endTurn(inv *invocation, at instant) {
	if t := inv.turn; t != nil {
		r.closeTurn(inv, t.lastWord(at), "")
	}
	r.settleCalled(inv)
}

// closeIdle ends the current turn, after which the agent was idle: what happened since
// is on the root.
func (r *run) closeIdle(inv *invocation, at instant) {
	r.notices = append(r.notices, inv.notices...)
	inv.notices = nil
	r.closeTurn(inv, inv.turn.lastWord(at), "")
}

// closeTurn ends the current turn, which called no tool.
func (r *run) closeTurn(inv *invocation, at instant, errorType string) {
	t := inv.turn
	inv.turn, inv.lastTurn = nil, t
	t.errorType = errorType
	t.end = r.endOf(t, at)
	inv.wait, inv.idle = t.end, true
	r.finishTurn(inv, t)
}

// callTool ends the current turn with a tool call, and returns when it ended.
func (r *run) callTool(inv *invocation, at instant, waitsFor *tool) instant {
	t := inv.turn
	t.takeNotices(r, inv)
	inv.turn, inv.lastTurn, inv.callingTurn = nil, t, t
	t.toolCall, t.waitsFor = true, waitsFor
	t.guessed = t.guessed || r.guessed
	t.end = r.endOf(t, at)
	inv.wait = t.end
	if waitsFor == nil && !t.mayGoOn {
		r.settleCalled(inv)
	}
	return t.end
}

// endOf returns when a turn ends, which is after its last event and after its
// start.
func (r *run) endOf(t *turn, at instant) instant {
	if t.log.last != 0 {
		at = max(at, t.log.last+quantum)
	}
	return r.clock.after(t.start, at)
}

// settleCalled finishes the turn that ended with a tool call: the stream will not
// add to it.
func (r *run) settleCalled(inv *invocation) {
	if t := inv.callingTurn; t != nil {
		inv.callingTurn = nil
		if t.wentOn {
			t.end = r.endOf(t, t.lastOutputAt)
			inv.wait = max(inv.wait, t.end)
		}
		r.finishTurn(inv, t)
	}
}

// finishTurn makes the span of a turn that has ended.
func (r *run) finishTurn(inv *invocation, t *turn) {
	inv.modelTime += t.end - t.start
	t.log.finish(r, inv, t)
	of := chatModel{provider: t.provider, request: inv.model}
	if of.provider == "" {
		of.provider = r.agent.Provider
	}
	of.provider = r.m.names.pass(of.provider)
	if t.model != "" {
		of.response = r.m.names.pass(t.model)
	}
	if of.request == "" {
		of.request = of.response
	}
	name := spanName{operation: semconv.OperationChat, subject: label(of.request)}
	span := r.newSpanWith(spanRef{chat, t.n}, inv.ref, name, inv.common(r, chat, of))
	span.client, span.estimated = true, t.guessed
	span.start, span.end = t.start, t.end
	span.turn = t
	a := &span.attributes
	if t.call != "" {
		a.str(semconv.ResponseID, r.m.names.id(t.call))
	}
	a.words(semconv.FinishReasons, t.finishReason())
	if t.text.deltas+t.thinking.deltas > 0 {
		a.bool(semconv.RequestStream, true)
	}
	a.int(semconv.TurnNumber, int64(t.n))
	if t.text == (tally{}) && t.thinking == (tally{}) {
		a.wire = append(a.wire, saidNothing...)
	} else {
		t.addTallies(a)
	}
	r.counts.text.deltas += t.text.deltas
	r.counts.text.bytes += t.text.bytes
	r.counts.thinking.deltas += t.thinking.deltas
	r.counts.thinking.bytes += t.thinking.bytes
	if t.usage.Known || t.usage.CostKnown {
		a.usage(&t.usage)
		r.addUsage(&t.usage)
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
			inv.answer = s
		}
	}
	r.m.reuseLog(t.log)
	t.log = nil
	r.emit(span)
}

func (t *turn) addTallies(a *attributes) {
	t.text.add(a, semconv.TextDeltas, semconv.TextBytes)
	t.thinking.add(a, semconv.ThinkingDeltas, semconv.ThinkingBytes)
}

// saidNothing are the tallies, in wire format, of a turn without text and thinking, as
// most turns that call a tool are.
var saidNothing = func() []byte {
	a := attributes{field: fieldAttributes}
	new(turn).addTallies(&a)
	return a.wire
}()

// finishReason returns why the model stopped, in the conventions' terms if the
// agent does not state a reason.
func (t *turn) finishReason() string {
	switch {
	case t.errorType != "":
		return "error"
	case t.reason != "":
		return t.reason
	case t.toolCall:
		return "tool_call"
	}
	return "stop"
}

// addFirstChunk adds the time to the first chunk, unless that would be a guess.
func (s *span) addFirstChunk(since, chunk instant, guess bool) {
	if guess || chunk <= since {
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
	move(&t.start, &t.firstChunk, &t.retriedAt, &t.lastOutputAt, &t.answered, &t.end)
	t.log.shift(f, move)
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
