package mapping

import (
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// When a run began, and since when an agent has waited for its model, is told by no line of its
// own: it follows from the lines around it, here.

// beginAt says that the first event of the run has come. A first reading may know that the run
// began earlier.
func (r *run) beginAt(at moment) {
	r.start.known, r.main.start.known, r.main.wait.known = at.known, at.known, at.known
	if f := r.foreseen; f != nil && f.start < f.from {
		r.start = moment{f.start + r.clock.shift, agent.Inferred}
		if at.known == agent.Inferred {
			r.main.wait = r.start
		}
	}
}

// takeFirstStamp is called at the first timestamp, unless a first reading has found it: what
// was before it was placed without knowing the agent's clock.
func (r *run) takeFirstStamp(stamp, arrival instant) {
	r.clock.stamped, r.clock.first = true, stamp
	r.settleKey()
	before := []*instant{&r.start.at, &r.main.start.at, &r.main.wait.at, &r.clock.reached}
	for _, notices := range [][]event{r.main.notices, r.notices} {
		for i := range notices {
			before = append(before, &notices[i].at)
		}
	}
	if !r.clock.live() {
		for _, t := range before {
			*t = stamp
		}
		return
	}
	late := isLate(stamp, arrival)
	to := arrival // where the stamp belongs by the clock of the arrivals
	switch {
	case late && arrival <= r.clock.began+withinBurst: // and so are the lines before it
		to = max(stamp, r.clock.reached)
	case late:
		to = stamp
	}
	if n := &r.counts; n.turns+n.tools+n.approvals+n.hooks > 0 { // their times cannot move, so the timestamps do
		r.clock.skew = to - stamp
		return
	}
	for _, t := range before {
		*t = max(*t+stamp-to, quantum) // not before 1970
	}
	if !late {
		r.clock.ahead = stamp - arrival
	}
}

// settle finalizes the start of a run. Time that the run took beyond its timestamps is mostly
// the wait for the first chunk, so it is added at the beginning.
func (r *run) settle(at moment, took instant) {
	worked, from := at.at, r.start.at
	if r.firstAnswer != 0 {
		worked = r.firstAnswer
	}
	stretched := !r.clock.live() && !r.clock.stamped && !r.agent.Lengths
	if spent := worked - from; took > spent && took < spent+maxJump && (r.events == 1 || r.clock.recording() && !stretched && r.foreseen == nil) {
		r.start = moment{max(worked-took, quantum), agent.Inferred}
	}
	r.surveyed(from, at.at, took)
}

// beganWith reports whether nobody knows when the run and its first turn began. They began
// together, as far as the stream shows.
func (r *run) beganWith(t *turn) bool {
	return r.ownFirst && t.n == 1 && r.clock.guesses(r.start) && r.clock.guesses(t.start)
}

// beganBefore corrects the start of a turn, and of the run, if the agent states that a call of
// theirs started before the line that said when they began.
func (r *run) beganBefore(inv *invocation, call moment) {
	t := inv.current()
	if call.known != agent.Stated || t == nil || t.hasOutput() || call.at > t.start.at || call.at <= inv.busy.ended.at+quantum {
		return
	}
	t.start = moment{call.at - quantum, agent.Inferred}
	if t.lastOutput = t.start; t.start.at < r.start.at {
		r.start, inv.start = t.start, t.start
	}
}

// notAskedYet records that an agent without a turn has not asked its model until now.
func (r *run) notAskedYet(inv *invocation, at moment) {
	if inv.current() == nil && inv.busy.running == 0 && inv.state != idle && !r.clock.guesses(at) {
		inv.wait = later(at, inv.wait)
	}
}

// asks records when the agent asks its model: what was before is the agent's own time. A turn
// that has begun, but has no output, is what it asks for, or asks for again.
func (r *run) asks(inv *invocation, ev *agent.Event, at moment) {
	if ev.Start != 0 {
		at = earlier(at, r.stated(ev.Start))
	}
	if r.clock.guesses(at) {
		return // what is known without this line is better
	}
	again := slices.ContainsFunc(inv.notices, func(n event) bool { return ofRequest[n.name] })
	if inv.wait = later(at, inv.wait); inv.current() != nil && !again {
		inv.turn.start, inv.turn.lastOutput = inv.wait, inv.wait
	}
}

// waitBeside returns since when the agent has waited for a model that produces text
// while a tool is running, which nobody knows: perhaps since another tool ended.
func (inv *invocation) waitBeside(at moment) moment {
	if inv.turn != nil && inv.busy.ended.at > inv.turn.end.at {
		at = inv.busy.ended
	}
	return at.inferred()
}

// leastWait is the shortest wait after a tool that counts as a failed model call. A run that
// fails sooner failed for another reason, such as a limit on turns.
const leastWait = 100 * agent.Milliseconds

// asking reports whether an agent without a turn was waiting for its model when the run broke
// off. After a turn, it was if it had waited for at least so long.
func (r *run) asking(inv *invocation, at moment, least instant) bool {
	switch {
	case r.requests, inv.busy.running > 0, inv.state == idle: // it says when it asks, a tool ran, or the model had answered
		return false
	case inv.counts.turns == 0, inv.state == woken:
		return true
	}
	return at.at-inv.wait.at >= least
}

// longestStartup is how long after the beginning of a pipe an agent may print its first line
// and still be taken for one that began with it.
const longestStartup = instant(time.Minute)
