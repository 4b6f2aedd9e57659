package mapping

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

func (s *stream) newRun(a *agent.Agent, session string, number int, arrival instant) *run {
	r := &run{
		stream: s, agent: a, number: number, line: s.number,
		timeline: timeline{nested: map[string]*invocation{}, tools: map[string]*tool{}, tasks: map[string]*tool{}, early: map[string]earlyEnd{}},
	}
	r.before.badLines, r.before.hidden = s.stats.BadLines, s.names.hidden
	r.clock = newClock(s, a, arrival)
	if r.foreseen = s.foreseen[s.number]; r.foreseen != nil {
		delete(s.foreseen, s.number) // there may be many
		session = cmp.Or(session, r.foreseen.session)
		r.clock.foresee(r.foreseen)
	}
	r.name(session)
	r.start = r.clock.now(arrival)
	r.main = &invocation{ref: rootRef, name: a.Name, start: r.start, wait: r.start}
	r.order = []*invocation{r.main}
	return r
}

// name sets the id of the run's session, which may come late.
func (r *run) name(session string) {
	r.session, r.conversation = session, r.stream.names.idAgain(session)
}

// apply processes the next event of the run.
func (r *run) apply(ev *agent.Event) {
	r.events++
	if ev.Kind == agent.RunStart {
		r.seed = string(ev.ID)
	}
	last := r.clock.reached
	line := r.place(ev)
	at := line
	if ev.Kind != agent.ToolEnd && ev.Kind != agent.TaskEnd { // else what it ends may have ended before, but not what goes on
		at = line.atBest(ev.Known)
	}
	inv := r.invocation(ev, at)
	if said := inv.saidBefore(ev, at); !said.isZero() {
		at = said.inferred()
	}

	if inv == r.main {
		r.doubts.Said(ev)
	}
	switch ev.Kind {
	case agent.RunStart:
		r.began = true
		r.takeStart(ev)
		r.notAskedYet(inv, at)
		inv.wait = inv.wait.inferred() // some agents take long from here
	case agent.Prompt:
		r.wake(inv, at)
		r.notAskedYet(inv, at)
		r.takePrompt(inv, ev)
	case agent.TurnStart:
		r.requests = r.requests || ev.Asks
		if inv.state == idle {
			r.wake(inv, at)
		}
		// A retry, or a line of the same call that has no words, may have begun the turn.
		if t := inv.current(); !inv.turn.isOf(ev.ModelCallID) && (t == nil || t.hasOutput() || t.response.usage.Known) {
			r.endTurn(inv, at, "")
		}
		if ev.Asks {
			r.asks(inv, ev, at)
		}
		r.openTurn(inv, at, ev)
	case agent.ThinkingDelta:
		r.openTurn(inv, at, ev).delta(r, thinkingText, at, ev)
	case agent.TextDelta:
		r.openTurn(inv, at, ev).delta(r, answerText, at, ev)
	case agent.OtherOutput:
		r.noteOutput(r.openTurn(inv, at, ev), at, at)
	case agent.ThinkingMessage:
		r.openTurn(inv, at, ev).message(r, thinkingText, at, ev)
	case agent.TextMessage:
		r.openTurn(inv, at, ev).message(r, answerText, at, ev)
	case agent.ThinkingEnd:
		if last := inv.turn; last != nil && last.thinks && inv.current() == nil {
			last.thinks = false // the end of the block was printed after the turn
		} else if inv.current() == nil && inv.state != idle && inv.busy.running == 0 && !r.agent.TurnEnds {
			r.noteOutput(r.openTurn(inv, at, ev), at, moment{}) // thinking without deltas
		}
		if t := inv.current(); t != nil {
			t.endText(r, thinkingText, at)
		}
	case agent.TextEnd:
		r.textEnd(inv, at, ev)
	case agent.TurnEnd:
		r.turnEnd(inv, at, ev)
	case agent.ToolStart:
		r.toolStart(inv, ev, at, at)
	case agent.ToolRuns:
		r.toolRuns(ev)
	case agent.ToolEnd:
		r.toolEnd(inv, ev, at, last)
	case agent.ToolCall:
		r.toolCall(inv, ev, at)
	case agent.ApprovalStart:
		r.approvalStart(inv, ev, at)
	case agent.ApprovalEnd:
		r.approvalEnd(ev, at)
	case agent.HookStart:
		r.hookStart(inv, ev, at)
	case agent.HookEnd:
		r.hookEnd(inv, ev, at)
	case agent.TaskEnd:
		r.taskEnd(inv, ev, at)
	case agent.Notice:
		if ev.Wakes {
			r.wake(inv, at)
		}
		r.notice(inv, ev, at)
	case agent.RunError:
		r.failure.reported, r.failure.kind = true, ev.Status
		r.takeError(ev)
		r.notice(inv, ev, at)
	case agent.RunUsage:
		r.takeUsage(at, ev)
	case agent.RunEnd:
		r.finish(at, ev)
	}
	switch ev.Kind {
	case agent.ThinkingDelta, agent.TextDelta, agent.ThinkingEnd:
		inv.steps.add(line.at)
	}
}

// saidBefore returns when the model had said a text at the latest, if that was before the
// text was printed; none if it was not. Texts are held back until an approval's answer is
// printed, and the last text of a turn until the shells in the background have timed out.
func (inv *invocation) saidBefore(ev *agent.Event, at moment) moment {
	switch ev.Kind {
	case agent.ThinkingDelta, agent.ThinkingMessage, agent.ThinkingEnd, agent.TextDelta, agent.TextMessage, agent.TextEnd:
	default:
		return moment{}
	}
	switch q, t := inv.question, inv.current(); {
	case ev.Time != 0 && !q.answered.isZero() && at.at <= q.answered.at+withinBurst:
		return q.asked
	case ev.Time == 0 && t != nil && t.timedOut:
		return t.lastOutput
	}
	return moment{}
}

// takeStart takes the model and the settings from a RunStart.
func (r *run) takeStart(start *agent.Event) {
	r.main.model = cmp.Or(r.stream.names.pass(string(start.Model)), r.main.model)
	r.takeFacts(start.Facts)
}

// takeLogged takes from the session's log how the run began.
func (r *run) takeLogged(start *agent.Event) {
	r.takeStart(start)
	r.takeFacts([]agent.Fact{{Key: semconv.SessionLog, Kind: agent.FactBool, Int: 1}})
}

// finish closes what is open and then the root. end is the result that ended
// the run.
func (r *run) finish(at moment, end *agent.Event) {
	r.resultOnly = r.events == 1
	if !end.Early {
		r.firstAnswer = 0
	}
	errorType := ""
	if end.Failed {
		errorType = cmp.Or(r.stream.names.pass(end.Status), errOther)
		r.takeError(end)
		for _, inv := range r.order {
			inv.reopenCallingTurn()
		}
		if inv := r.main; r.began && (inv.counts.turns == 0 || !r.agent.TurnEnds && !inv.answered()) && r.asking(inv, at, leastWait) {
			r.openTurn(inv, at, nil)
		}
	}
	latest := at
	if r.clock.guesses(at) && r.firstAnswer == 0 && end.Length < maxJump { // and the result came later than any timestamp
		from := r.start.at
		if f := r.foreseen; f != nil {
			from = f.from + r.clock.shift
		}
		latest = at.notBefore(from + quantize(end.Length))
	}
	for _, inv := range slices.Backward(r.order) {
		switch t := inv.current(); {
		case t == nil, inv.task != nil:
		case errorType != "" && t.state != answered: // an error broke it off
			broke := at
			if latest.at > at.at {
				broke = at.between(latest)
			}
			r.breakOff(t, broke, errorType)
		default:
			r.closeIdle(inv, at, latest)
		}
	}
	if first := end.FirstToken; first > 0 && first < end.Length && r.main.firstChunk.isZero() {
		r.main.firstChunk = at.minus(end.Length - first)
	}
	r.takeUsage(at, end)
	r.takeAnswer(end)
	r.close(at, errIncomplete, errorType, end.Length)
}

// takeUsage records what the agent says that the run, or its session, has used.
func (r *run) takeUsage(at moment, ev *agent.Event) {
	r.takeFacts(ev.Facts)
	if ev.Usage != nil {
		r.reported = new(*ev.Usage)
	}
	if ev.SessionUsage != nil {
		r.sessionUsage = new(*ev.SessionUsage)
	}
	r.noteModels(ev.Models, at)
}

// abandon closes a run that got no result.
func (r *run) abandon(at moment, why string) {
	said := r.apart && r.agent.Log && (r.main.answered() || r.doubts.Answered())
	ended := said && why == errIncomplete && !r.failure.reported && len(r.tools) == 0
	broke, least := why, shortestTurn
	if !r.clock.recording() {
		least = 0
	}
	if r.failure.reported && why == errIncomplete {
		broke = cmp.Or(r.failure.kind, why)
	}
	for _, inv := range slices.Backward(r.order) {
		inv.reopenCallingTurn()
		switch t := inv.current(); {
		case inv.task != nil:
		case t != nil && (t.state == answered || t.response.reason == "stop" || ended):
			r.closeIdle(inv, at, at)
		case t == nil && inv != r.main:
		case t != nil, r.asking(inv, at, least):
			r.breakOff(r.openTurn(inv, at, nil), at, broke)
		}
	}
	errorType := broke
	switch {
	case ended:
		errorType = ""
	case r.failure.reported && broke == errIncomplete: // it did not say why
		errorType = errOther
	}
	if r.failure.text == "" && errorType != "" {
		quoted, _ := json.Marshal(string(bytes.TrimSpace(r.stream.lastWords))) // of a string, which never fails
		r.takeError(&agent.Event{Text: quoted[1 : len(quoted)-1]})
	}
	r.endTasks(at) // before the root, which counts what their agents did
	r.close(at, why, errorType, 0)
}

// breakOff ends a current turn that failed as its run did.
func (r *run) breakOff(t *turn, at moment, errorType string) {
	t.takeNotices(r)
	t.status, t.httpStatus = r.failure.text, r.failure.httpStatus
	r.closeTurn(t.inv, at, errorType)
}

// close finishes all spans except those of background work, the root last.
func (r *run) close(at moment, children, root string, took instant) {
	at = r.endTools(at, children, func(t *tool) bool { return t.inv.task == nil })
	r.endPauses(at, children)
	for _, inv := range slices.Backward(r.order) {
		if inv.task != nil {
			continue // it goes on in the background
		}
		r.finishCallingTurn(inv)
		if inv != r.main {
			r.endInvocation(inv, at.notBefore(r.clock.reached), children)
		}
	}
	r.endRoot(at.notBefore(r.clock.reached), root, took)
}
