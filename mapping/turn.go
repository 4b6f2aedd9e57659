package mapping

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// reopenCallingTurn makes a turn that was resumed after its tool call the current one again,
// because the run breaks off.
func (inv *invocation) reopenCallingTurn() {
	if t := inv.turn; t != nil && t.state == resumed && inv.busy.running == 0 && inv.task == nil && inv.busy.ended.at <= t.lastOutput.at {
		t.state = speaking
	}
}

// openTurn returns the current turn, or a new one if the last one is over. ev may
// be nil.
func (r *run) openTurn(inv *invocation, at moment, ev *agent.Event) *turn {
	// In builds of 2025, each text looks like the last of its turn.
	over := func(t *turn) bool { return t.state == answered && (ev == nil || ev.Kind != agent.TextMessage) }
	if t := inv.current(); t != nil && (over(t) || ev != nil && t.otherCall(ev.ModelCallID)) {
		r.closeTurn(inv, t.lastWord(at), "")
	}
	if t := inv.callingTurn(); ev != nil && t.isOf(ev.ModelCallID) {
		t.state = resumed
		t.response.merge(ev)
		return t
	}
	if q := inv.question; ev != nil && !q.asked.isZero() && at.at > q.asked.at {
		if !q.answered.isZero() { // the model speaks again
			r.openTurn(inv, at, nil)
			r.endWithCall(inv, q.asked)
			inv.wait = q.answered
		}
		inv.question = question{}
	}
	if inv.current() == nil {
		r.finishCallingTurn(inv)
		if inv.busy.running > 0 {
			inv.wait = inv.waitBeside(at)
		}
		if r.counts.turns++; r.counts.turns == 1 {
			r.ownFirst = inv == r.main
		}
		inv.counts.turns++
		t := &turn{inv: inv, n: r.counts.turns, start: inv.wait, lastOutput: inv.wait, asked: inv.dialog.asked, events: new(turnEvents)}
		t.compacted = inv.compacted
		inv.dialog.asked, inv.state, inv.compacted = nil, working, false
		inv.turn = t
	}
	if ev != nil {
		inv.turn.response.merge(ev)
	}
	return inv.turn
}

// otherCall reports whether an event belongs to another model call.
func (t *turn) otherCall(call []byte) bool {
	return t.hasOutput() && len(call) > 0 && t.response.id != "" && t.response.id != string(call)
}

// isOf reports whether a turn, which may be nil, is known to belong to a model call.
func (t *turn) isOf(call []byte) bool {
	return t != nil && len(call) > 0 && t.response.id == string(call)
}

// merge records what an event states about the response.
func (p *response) merge(ev *agent.Event) {
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
func (t *turn) lastWord(at moment) moment {
	if t.hasOutput() {
		return t.lastOutput
	}
	return at
}

// noteOutput records output of the model, and when it began. A piece of text comes when the
// model produces it. A whole text is printed after the model has finished it, so that nobody
// knows when its first chunk came, unless the agent states it.
func (r *run) noteOutput(t *turn, at, began moment) {
	inv := t.inv
	if !t.hasOutput() {
		t.firstChunk = began
		if !inv.hasOutput {
			inv.firstChunk = began
		}
	}
	t.timedOut = t.timedOut && at.at <= t.lastOutput.at
	if len(inv.notices) > 0 && !t.timedOut {
		t.takeNotices(r)
	}
	t.state, inv.hasOutput = max(t.state, speaking), true
	t.lastOutput = later(at, t.lastOutput)
}

// textEnd handles the end of a text that came as deltas. It may come after a tool
// call has ended the turn.
func (r *run) textEnd(inv *invocation, at moment, ev *agent.Event) {
	t := inv.current()
	if t == nil {
		if calling := inv.callingTurn(); calling != nil && r.agent.TurnEnds {
			calling.response.merge(ev)
		}
		return
	}
	t.response.merge(ev)
	if ev.Known == agent.Stated { // the end of all that the model says, which may be calls only
		r.noteOutput(t, at, moment{})
	}
	if ev.FirstToken > 0 && t.firstChunk.isZero() {
		t.firstChunk = t.start.plus(ev.FirstToken)
	}
	t.endText(r, answerText, at)
	if ev.Final {
		t.state, t.lastOutput = answered, later(t.lastOutput, at)
	}
}

// turnEnd handles the end of a model call. The turn may have called a tool before.
func (r *run) turnEnd(inv *invocation, at moment, ev *agent.Event) {
	t := inv.current()
	switch {
	case t == nil && ev.Failed: // failed before the model produced anything
		t = r.openTurn(inv, at, nil)
	case t == nil:
		t = inv.callingTurn()
	}
	if t == nil || ev.ModelCallID != nil && t.response.id != "" && t.response.id != string(ev.ModelCallID) && !ev.Failed {
		return
	}
	t.response.merge(ev)
	if t == inv.callingTurn() {
		if t.state == resumed { // it ended with text, not with a tool call
			t.response.reason = cmp.Or(t.response.reason, "stop")
		}
		r.finishCallingTurn(inv)
		if inv.state = working; ev.Final && inv.busy.running == 0 {
			inv.state = idle
		}
		return
	}
	t.takeNotices(r)
	if ev.Failed {
		t.status, _ = r.stream.capture.String(ev.Text)
		t.httpStatus = httpStatus(ev)
		r.closeTurn(inv, at, ev.Status)
		return
	}
	r.closeTurn(inv, t.lastWord(at), "")
	if !ev.Final {
		inv.state = working
	}
}

// endTurn ends the current turn because another begins, or because the agent ends.
func (r *run) endTurn(inv *invocation, at moment, errorType string) {
	if t := inv.current(); t != nil {
		r.closeTurn(inv, t.lastWord(at), errorType)
	}
	r.finishCallingTurn(inv)
}

// closeIdle ends the current turn, after which the agent was idle: what happened since
// is on the root. If the last word, or the line at which there was none, has no timestamp, it
// is put halfway between the timestamp before it and the latest moment that it may have had.
func (r *run) closeIdle(inv *invocation, at, latest moment) {
	t := inv.current()
	if t.hasOutput() {
		r.notices = append(r.notices, inv.notices...)
		inv.notices = nil
	}
	end := t.lastWord(at)
	if r.clock.guesses(end) && r.clock.stamped && !r.agent.CoarseStamps && !t.timedOut {
		end = end.between(latest)
	}
	r.closeTurn(inv, end, "")
}

// closeTurn ends the current turn, which called no tool.
func (r *run) closeTurn(inv *invocation, at moment, errorType string) {
	t := inv.current()
	if !t.hasOutput() {
		t.takeNotices(r)
	}
	t.errorType = errorType
	t.end = r.endOf(t, at)
	inv.question = question{}
	inv.wait, inv.state = t.end, idle
	r.finishTurn(t)
}

// endWithCall ends the current turn with a tool call, and returns when it ended. Until the
// next turn begins, the stream may add to it: the ends of its calls tell when they began, and
// the model may say more.
func (r *run) endWithCall(inv *invocation, at moment) moment {
	t := inv.current()
	t.takeNotices(r)
	t.state = calledTool
	if at.at == t.lastOutput.at {
		at.known = t.lastOutput.known
	}
	t.end = r.endOf(t, at)
	inv.question = question{}
	inv.wait = t.end
	return t.end
}

// endOf returns when a turn ends, which is after its last event and after its
// start. While the agent waits for its user, it does not wait for the model.
func (r *run) endOf(t *turn, at moment) moment {
	if asked := t.inv.question.asked; !asked.isZero() {
		at = earlier(at, asked)
	}
	if t.events.lastEvent != 0 {
		at = at.notBefore(t.events.lastEvent + quantum)
	}
	return r.clock.after(t.start, at)
}

// finishCallingTurn finishes the turn that ended with a tool call: the stream will not
// add to it.
func (r *run) finishCallingTurn(inv *invocation) {
	if t := inv.callingTurn(); t != nil {
		if t.state == resumed {
			t.end = r.endOf(t, t.lastOutput)
			inv.wait = later(inv.wait, t.end)
		}
		if inv.busy.running > 0 && !r.agent.TurnEnds { // the end of its call might tell when that began
			t.end = t.end.inferred()
		}
		r.finishTurn(t)
	}
}

// finishTurn makes the span of a turn that has ended.
func (r *run) finishTurn(t *turn) {
	inv := t.inv
	inv.modelTime += t.end.at - t.start.at
	t.events.endBy(t.end.at - quantum) // the call may have begun before a text of its turn was printed
	if t.firstChunk.at > t.end.at {    // it was printed after the model had said it
		if inv.firstChunk == t.firstChunk {
			inv.firstChunk = moment{}
		}
		t.firstChunk = moment{}
	}
	t.firstChunk = t.firstChunk.notAfter(t.end.at - quantum)
	t.events.finish(r, t)
	answers := r.stream.names.pass(t.response.model)
	request := cmp.Or(inv.model, answers)
	span := r.newSpan(spanRef{chat, t.n}, inv.ref, inv, request)
	span.start, span.end = t.start, t.end
	if t.end.at-t.start.at < shortestTurn {
		span.start = span.start.inferred()
	}
	a := &span.attributes
	a.strIfSet(semconv.ProviderName, r.stream.names.pass(cmp.Or(t.response.provider, r.agent.Provider)))
	a.strIfSet(semconv.RequestModel, request)
	a.strIfSet(semconv.ResponseModel, answers)
	a.strIfSet(semconv.ResponseID, r.stream.names.id(t.response.id))
	a.words(semconv.FinishReasons, t.finishReason())
	if t.said[answerText].deltas+t.said[thinkingText].deltas > 0 {
		a.bool(semconv.RequestStream, true)
	}
	if level := r.facts.Find(semconv.ReasoningLevel); level != nil && inv == r.main {
		r.stream.facts(a, agent.Facts{*level}, nil)
	}
	if t.compacted {
		a.bool(semconv.Compacted, true)
	}
	a.int(semconv.TurnNumber, int64(t.n))
	a.texts(&t.said)
	for kind, said := range t.said {
		r.counts.said[kind].deltas += said.deltas
		r.counts.said[kind].bytes += said.bytes
	}
	if u := &t.response.usage; u.Known || u.CostKnown {
		a.usage(u, &usageKeys)
		r.addUsage(u)
	}
	span.errorType = t.errorType
	if t.errorType != "" {
		span.status = t.status
		if t.httpStatus != 0 {
			a.int(semconv.HTTPResponseStatus, t.httpStatus)
		}
	}
	span.events = t.events.own.events
	if c := r.stream.capture; c.Full() {
		if len(t.asked) > 0 {
			m := content.Messages(t.asked...)
			c.JSON(&span.content, semconv.InputMessages, &m, 0)
		}
		inv.dialog.answer = cmp.Or(t.events.capture(c, span, t), inv.dialog.answer)
	}
	span.addFirstChunk(r, t.firstChunk)
	t.events, t.state = nil, closed
	if r.clock.fed && r.beganWith(t) {
		r.firstChat = span
		return
	}
	r.emit(span)
}

// shortestTurn is less than any model takes. The stream does not show when a shorter
// turn began or ended.
const shortestTurn = agent.Milliseconds

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

// delta handles a piece of text.
func (t *turn) delta(r *run, kind textKind, at moment, ev *agent.Event) {
	at = at.notBefore(t.start.at)
	r.noteOutput(t, at, at)
	t.thinks = kind == thinkingText
	r.counts.deltas++
	t.inv.counts.deltas++
	size := jsonscan.UnquotedLen(ev.Text)
	t.said[kind].deltas++
	t.said[kind].bytes += size

	l := t.events
	at = l.makeRoom(r, t, at)
	p := &l.pending
	mode := r.stream.opts.Deltas
	merge := mode == DeltasMessage || mode == DeltasOff || r.eventBytes > maxTraceBytes && at.at-p.at < mergeWithin
	if p.count > 0 && (p.kind != kind || !merge) {
		l.endPending(r)
	}
	if p.count == 0 {
		p.kind, p.at = kind, at.at
	}
	p.bytes += size
	p.count++
	l.lastEvent = max(l.lastEvent, at.at)
	if r.stream.capture.Full() {
		l.segments[kind].Add(ev.Text)
	}
}

// message handles a whole text that came without deltas.
func (t *turn) message(r *run, kind textKind, at moment, ev *agent.Event) {
	at = at.notBefore(t.start.at)
	began := moment{}
	if ev.Start != 0 {
		began = r.stated(ev.Start).notBefore(t.start.at)
	}
	r.noteOutput(t, at, began)
	t.thinks = false
	size := jsonscan.UnquotedLen(ev.Text)
	t.said[kind].bytes += size
	t.endText(r, kind, at) // another one
	l := t.events
	shown := l.makeRoom(r, t, at).at
	if r.stream.capture.Full() {
		l.segments[kind].Add(ev.Text)
	}
	l.addText(r, kind, kind.event(DeltasMessage), shown, size, 1)
	l.lastEvent = max(l.lastEvent, shown)
	t.endText(r, kind, at)
	if ev.Final {
		t.state = answered
	}
}

// endText ends a text, of which the turn may have none.
func (t *turn) endText(r *run, kind textKind, at moment) {
	t.thinks = t.thinks && kind != thinkingText
	if t.hasOutput() {
		t.lastOutput = later(t.lastOutput, at)
	}
	t.events.endPending(r)
	t.events.resolve(r, t, kind)
	t.events.speech.EndText()
}

// takeNotices adds the events that wait for a turn to the turn's own span. The last
// retry before the first chunk gets how long it took.
func (t *turn) takeNotices(r *run) {
	l, inv := t.events, t.inv
	l.endPending(r)
	retry := -1
	if !t.hasOutput() && !t.firstChunk.isZero() && !r.clock.guesses(t.firstChunk) {
		for i, n := range inv.notices {
			if n.name == semconv.EventRetry {
				retry = i
			}
		}
	}
	for i, n := range inv.notices {
		if i == retry {
			a := r.stream.attributes(fieldEventAttributes, n.attributes)
			a.int(semconv.AttemptMillis, int64((t.firstChunk.at-n.at)/agent.Milliseconds))
			n.attributes = a.wire
		}
		n.at = max(n.at, t.start.at)
		l.own.add(r, n)
		l.lastEvent = max(l.lastEvent, n.at)
	}
	inv.notices = nil
}

// notice puts an event on the current or the next turn, or on the root if the agent is
// not waiting for the model: no turn covers that instant. The event of a turn waits for
// output: until then the agent may be idle.
func (r *run) notice(inv *invocation, ev *agent.Event, at moment) {
	switch ev.Notice {
	case "":
		return
	case semconv.EventRetry:
		r.counts.retries++
		if inv.answered() {
			r.wake(inv, at) // the answer was an error
		}
	case semconv.EventBackgroundTimeout:
		if t := inv.current(); t != nil && t.hasOutput() && inv.busy.running == 0 {
			t.timedOut = true
		}
		r.timeOutShells(at)
	case semconv.EventConnectionLost:
		r.counts.reconnects++
	case semconv.EventCompaction:
		r.counts.compactions++
		if t := inv.current(); t != nil && !t.hasOutput() {
			t.compacted = true
		} else {
			inv.compacted = true
		}
	}
	list := &inv.notices
	if !r.ended && (inv.answered() || inv.current() == nil && inv.busy.running > 0) {
		list = &r.notices
	} else if inv.current() == nil && ofRequest[ev.Notice] && inv.busy.running == 0 {
		r.openTurn(inv, at, nil)
	}
	if len(*list) < maxNotices {
		*list = append(*list, r.newNotice(ev, at.at))
	}
}

func (r *run) newNotice(ev *agent.Event, at instant) event {
	a := r.stream.attributes(fieldEventAttributes, nil)
	var said content.Attributes
	r.stream.facts(&a, ev.Facts, &said)
	for _, c := range said.List {
		a.str(c.Key, c.Text)
	}
	return event{name: ev.Notice, at: at, attributes: a.wire}
}

// noteModels adds what each model used to the root.
func (r *run) noteModels(models []agent.ModelUsage, at moment) {
	slices.SortFunc(models, func(a, b agent.ModelUsage) int { return bytes.Compare(a.Model, b.Model) })
	for _, m := range models[:min(len(models), maxNotices)] {
		a := r.stream.attributes(fieldEventAttributes, nil)
		a.strIfSet(semconv.ResponseModel, r.stream.names.pass(string(m.Model)))
		a.usage(&m.Usage, &usageKeys)
		r.notices = append(r.notices, event{name: semconv.EventModelUsage, at: at.at, attributes: a.wire})
	}
}

// maxNotices is how many lines of notices may wait for a turn, or be on the root.
const maxNotices = 10_000

// ofRequest are the notices that imply a request to the model.
var ofRequest = map[string]bool{
	semconv.EventRetry: true, semconv.EventConnectionLost: true, semconv.EventConnectionRestored: true,
}

// wake records that the end of background work, or a prompt, makes the agent call
// its model. If the agent was idle until then, it was not waiting.
func (r *run) wake(inv *invocation, at moment) {
	if t := inv.current(); t != nil && t.hasOutput() && inv.busy.running == 0 && (!t.thinks || at.at-t.lastOutput.at >= maxThought) {
		r.closeIdle(inv, at, at)
	}
	if inv.current() == nil && inv.state == idle {
		if inv == r.main && r.firstAnswer == 0 {
			r.firstAnswer = inv.wait.at
		}
		inv.wait, inv.state = at, woken
	}
}

// taskWakes records that the end of background work makes the agent call its model.
// A stream without deltas does not show whether the agent was idle.
func (r *run) taskWakes(inv *invocation, at moment) {
	r.wake(inv, at)
	if inv.current() == nil && inv.busy.running == 0 && inv.state != woken && r.counts.deltas == 0 && !r.agent.TurnEnds {
		inv.wait, inv.state = at, woken
	}
}

// maxThought is how long a block of thinking may be silent: some blocks
// never end in the stream.
const maxThought = 10 * instant(time.Second)

// capture adds the text of a turn as a message, and returns the last text in it.
func (l *turnEvents) capture(c *content.Capture, s *span, t *turn) (last string) {
	s.content.Lost += l.own.lost
	parts, last, lost := l.speech.Parts(c)
	parts = append(parts, t.callPart...)
	if len(parts) > 0 {
		m := content.Messages(content.Message("assistant", parts, t.finishReason()))
		c.JSON(&s.content, semconv.OutputMessages, &m, lost)
	}
	return last
}
