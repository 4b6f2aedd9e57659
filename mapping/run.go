package mapping

import (
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// Short names for values of error.type.
const (
	errIncomplete  = semconv.ErrorIncomplete
	errInterrupted = semconv.ErrorInterrupted
	errKilled      = semconv.ErrorKilled
	errOther       = semconv.ErrorOther
)

// A run is one trace: what an agent does from its first line to its result. A
// session consists of one or more runs, because an agent can resume it.
type run struct {
	m       *Mapper
	agent   *agent.Agent
	session string
	seed    string // identifies the run while its session has no id
	number  int    // of the run in its session, from 1
	part    int    // 0, and one more after each eviction; only part 0 emits the root
	clock   clock
	key     runKey
	keyed   bool // the run has a key, and with it ids

	ownTraceID [16]byte // used if there is no parent
	rootID     [8]byte
	ids        [approval + 1]spanIDs // the latest of each operation

	start         instant
	lastNewAt     instant // the last event with new information
	estimated     bool    // start was inferred
	guessed       bool    // the current event has no time of its own in the recording
	ownFirst      bool    // the first turn is the main agent's, so it began with the run
	events        int
	began         bool            // there was a RunStart
	ended         bool            // the root span is finished
	hasResult     bool            // the agent reported one
	endings       content.Endings // of the texts before
	badLines      int             // bad lines before the run
	hidden        int             // hidden names before the run
	reportedError bool            // the agent reported an error

	main     *invocation
	nested   map[string]*invocation // of sub-agents, by the id of the tool call that started them
	order    []*invocation          // all of them
	tools    map[string]*tool       // in flight, by their ids
	tasks    map[string]*tool       // still running in the background, by their own ids
	early    map[string]earlyEnd    // ends of work that may belong to a call in flight, by task id
	waitsFor waitingCall

	approvals  map[approvalKey][]*pendingApproval
	pending    int // approvals
	counts     counts
	before     struct{ turns, tools int } // counted in earlier parts
	notices    []notice                   // of the root: stalls, limits, and what no chat covers
	eventBytes int                        // of the events so far
	usage      agent.Usage                // of all model calls
	reported   *agent.Usage
	facts      facts // of the root
	held       []*span
	lastEnd    instant // of the spans emitted

	content   content.Attributes // of the root
	errorText string             // the agent's error message
	errorName string             // the agent's type of that error
}

// counts are the counts of a whole run, including its sub-agents.
type counts struct {
	spans, turns, deltaSpans, tools, toolErrors, approvals, invocations, tasks int
	deltas, retries, reconnects, compactions                                   int
	text, thinking                                                             tally
}

// nextRun begins the next run of a session.
func (m *Mapper) nextRun(s *session, arrival instant) *run {
	if r := m.first; r != nil {
		m.first = nil
		r.session, r.badLines = s.id, 0
		r.agent = s.agent
		r.main.name = s.agent.Name
		return r
	}
	return m.newRun(s.agent, s.id, s.runs, arrival)
}

func (m *Mapper) newRun(a *agent.Agent, session string, number int, arrival instant) *run {
	r := &run{
		m: m, agent: a, session: session, number: number, badLines: m.stats.BadLines, hidden: m.names.hidden,
		tools: map[string]*tool{}, tasks: map[string]*tool{}, approvals: map[approvalKey][]*pendingApproval{},
	}
	r.clock.replay, r.clock.shift = m.opts.replay(), quantize(instant(m.opts.Shift))
	r.start = r.clock.at(0, arrival)
	r.main = &invocation{ref: rootRef, name: a.Name, start: r.start, wait: r.start}
	r.order = []*invocation{r.main}
	return r
}

// apply processes the next event of the run.
func (r *run) apply(ev *agent.Event) {
	r.events++
	if ev.Kind == agent.RunStart {
		r.seed = string(ev.ID)
	}
	printed := r.lastNewAt
	at := r.at(ev)
	if ev.Kind != agent.TextEnd { // a TextEnd repeats what was printed
		r.lastNewAt = at
	}
	inv := r.invocation(ev, at)

	switch ev.Kind {
	case agent.RunStart:
		r.began = true
		r.main.model = cmp.Or(r.m.names.pass(string(ev.Model)), r.main.model)
		r.takeFacts(ev.Facts)
	case agent.Prompt:
		r.wake(inv, at)
		r.takePrompt(inv, ev)
	case agent.TurnStart:
		if inv.idle {
			r.wake(inv, at)
		}
		if t := inv.turn; t == nil || t.hasOutput || t.answered != 0 { // a retry may have begun the turn
			r.endTurn(inv, at)
		}
		r.openTurn(inv, at, ev)
	case agent.ThinkingDelta:
		r.openTurn(inv, at, ev).delta(r, inv, thinkingText, at, ev)
	case agent.TextDelta:
		r.openTurn(inv, at, ev).delta(r, inv, answerText, at, ev)
	case agent.ThinkingMessage:
		r.openTurn(inv, at, ev).message(r, inv, thinkingText, at, ev)
	case agent.TextMessage:
		r.openTurn(inv, at, ev).message(r, inv, answerText, at, ev)
	case agent.ThinkingEnd:
		if last := inv.lastTurn; last != nil && last.thinks && inv.turn == nil {
			last.thinks = false // the end of the block was printed after the turn
		} else if inv.turn == nil && !inv.idle && inv.running == 0 && !r.agent.TurnEnds {
			r.openTurn(inv, at, nil).noteOutput(at) // thinking without deltas
		}
		if t := inv.turn; t != nil {
			t.endText(r, thinkingText, at)
		}
	case agent.TextEnd:
		r.textEnd(inv, at, ev)
	case agent.TurnEnd:
		r.turnEnd(inv, at, ev)
	case agent.ToolStart:
		r.toolStart(inv, ev, at, printed)
	case agent.ToolEnd:
		r.toolEnd(inv, ev, at)
	case agent.ToolCall:
		r.toolCall(inv, ev, at)
	case agent.ApprovalStart:
		r.approvalStart(inv, ev, at)
	case agent.ApprovalEnd:
		r.approvalEnd(ev, at)
	case agent.TaskEnd:
		r.taskEnd(inv, ev, at)
	case agent.Notice:
		if ev.Wakes {
			r.wake(inv, at)
		}
		r.notice(inv, ev, at)
	case agent.RunError:
		r.reportedError = true
		r.errorName = ev.Status
		r.takeErrorText(ev.Text)
	case agent.RunEnd:
		r.finish(at, ev)
	}
}

// at returns the instant of an event.
func (r *run) at(ev *agent.Event) instant {
	stamp := r.clock.believed(ev.Time)
	if r.ended && r.clock.replay && !r.clock.stamped {
		stamp = 0 // it was put where no stamp could tell
	}
	if (ev.Estimated || r.agent.CoarseStamps) && !r.clock.replay && r.clock.stamped {
		stamp = 0 // its arrival is more precise
	}
	if stamp != 0 {
		stamp += r.clock.shift
		if !r.clock.stamped {
			r.stamped(stamp, ev.Arrival)
		}
	} else if r.events == 1 && r.clock.replay {
		r.estimated = true // the run's first line has no stamp
	}
	r.guessed = r.clock.replay && (stamp == 0 || r.agent.CoarseStamps)
	return r.clock.at(stamp, ev.Arrival)
}

// instantOf returns the instant of an additional timestamp of an event.
func (r *run) instantOf(stamp instant) instant {
	return quantize(stamp + r.clock.skew + instant(r.m.opts.Shift))
}

// ownTime returns the event's own time if it states one, and at otherwise: some
// events are printed late.
func (r *run) ownTime(ev *agent.Event, at instant) instant {
	if stamp := r.clock.believed(ev.Time); stamp != 0 && !ev.Estimated && !r.agent.CoarseStamps {
		return min(r.instantOf(stamp), at)
	}
	return at
}

// stamped is called at the first timestamp: everything before it was placed without
// knowing the agent's clock.
func (r *run) stamped(stamp, arrival instant) {
	r.settleKeyTo(stamp)
	switch {
	case r.clock.replay:
		last := r.clock.last
		if r.counts.tools+r.counts.turns == 0 {
			r.shift(func(instant) instant { return stamp })
		} else { // lines before it, one after the other just before it
			r.shift(func(t instant) instant { return t - last + stamp - quantum })
		}
		r.clock.stamped = true
		held := r.held
		r.held = nil
		for _, s := range held {
			r.emit(s)
		}
	case r.counts.spans == 0:
		r.shift(func(t instant) instant { return max(t+stamp-arrival, quantum) }) // not before 1970
	default: // sent spans cannot move, so shift the timestamps
		r.clock.skew = arrival - stamp
	}
}

// settleKey makes sure that the run has ids.
func (r *run) settleKey() {
	if r.keyed {
		return
	}
	first := r.start
	if r.clock.replay && !r.clock.stamped {
		first = r.m.replayed
	}
	r.settleKeyTo(first)
}

func (r *run) settleKeyTo(first instant) {
	if r.keyed {
		return
	}
	r.setKey(newRunKey(r.agent.Name, cmp.Or(r.session, r.seed), r.number, first, &r.m.opts))
	r.m.stats.Generation++
	r.m.opts.RunStarted(r.describe())
}

func (r *run) setKey(key runKey) {
	r.key, r.keyed, r.ids = key, true, [approval + 1]spanIDs{}
	r.ownTraceID, r.rootID = key.traceID(), r.spanID(rootRef)
}

// leastWait is the shortest wait after a tool that counts as a failed model call. A
// run that fails sooner failed for another reason, such as a limit on turns.
const leastWait = 100 * agent.Milliseconds

// finish closes what is open and then the root. end is the result that ended
// the run.
func (r *run) finish(at instant, end *agent.Event) {
	r.hasResult = true
	errorType := ""
	if end.Failed {
		errorType = r.m.names.pass(end.Status)
		for _, inv := range r.order {
			inv.resumeCalled()
		}
		if inv := r.main; r.began && inv.running == 0 && (inv.counts.turns == 0 || !r.agent.TurnEnds && !inv.answered() && (inv.woken || at-inv.wait >= leastWait)) {
			r.openTurn(inv, at, nil) // the run broke off while the model was working
		}
	}
	for _, inv := range slices.Backward(r.order) {
		switch t := inv.turn; {
		case t == nil, inv.task != nil:
		case errorType != "" && t.answered == 0: // an error broke it off
			t.takeNotices(r, inv)
			r.closeTurn(inv, at, errorType)
		default:
			r.closeIdle(inv, at)
		}
	}
	r.takeFacts(end.Facts)
	if end.Usage != nil {
		r.reported = end.Usage
	}
	r.takeAnswer(end)
	r.close(at, errIncomplete, errorType, end.Length)
}

// abandon closes a run that got no result.
func (r *run) abandon(at instant, why string) {
	ended := r.agent.EndsAtEOF && why == errIncomplete && !r.reportedError && r.main.answered() && len(r.tools) == 0
	broke := why
	if r.reportedError && why == errIncomplete {
		broke = cmp.Or(r.errorName, why)
	}
	for _, inv := range slices.Backward(r.order) {
		inv.resumeCalled()
		switch t := inv.turn; {
		case inv.task != nil:
		case t != nil && (t.answered != 0 || ended):
			r.closeIdle(inv, at)
		case inv != r.main && t == nil:
		case t != nil, inv.running == 0 && !inv.idle: // the run broke off while the model was working
			r.openTurn(inv, at, nil)
			r.closeTurn(inv, at, broke)
		}
	}
	errorType := broke
	switch {
	case ended:
		errorType = ""
	case r.reportedError && broke == errIncomplete: // it did not say why
		errorType = errOther
	}
	r.close(at, why, errorType, 0)
	r.endTasks(at)
}

// close finishes all spans but those of the background, the root last.
func (r *run) close(at instant, children, root string, took instant) {
	for _, t := range slices.Backward(sortedTools(r.tools)) { // those of sub-agents first
		if t.inv.task == nil && r.tools[t.id] == t { // and not a sub-agent's that has ended with it
			at = r.endTool(t, r.clock.after(t.start, at), children, "")
		}
	}
	r.endWaiting(at, children)
	for _, a := range r.openApprovals() {
		r.endApproval(a, r.clock.after(a.start, at), "", children)
	}
	clear(r.approvals)
	r.pending = 0
	for _, inv := range slices.Backward(r.order) {
		if inv.task != nil {
			continue // it goes on in the background
		}
		r.settleCalled(inv)
		if inv != r.main {
			r.endInvocation(inv, max(at, r.clock.last), children)
		}
	}
	r.endRoot(max(at, r.clock.last), root, took)
}

// shift puts all times that are not sent yet through f.
func (r *run) shift(f func(instant) instant) {
	move := func(times ...*instant) {
		for _, t := range times {
			if *t != 0 {
				*t = f(*t)
			}
		}
	}
	move(&r.start, &r.clock.last, &r.lastNewAt)
	r.moveNotices(move)
	for _, inv := range r.order {
		move(&inv.start, &inv.wait, &inv.firstChunk)
		for i := range inv.busy {
			move(&inv.busy[i].from, &inv.busy[i].to)
		}
		for _, t := range []*turn{inv.turn, inv.callingTurn} {
			if t != nil {
				t.shift(f, move)
			}
		}
		for i := range inv.notices {
			move(&inv.notices[i].at)
		}
	}
	for _, t := range r.tools {
		move(&t.start, &t.floor)
	}
	for _, t := range r.tasks {
		move(&t.start, &t.from, &t.over)
	}
	for _, a := range r.openApprovals() {
		move(&a.start)
	}
	for _, s := range r.held {
		s.shift(f)
		if s.turn != nil {
			move(&s.turn.start, &s.turn.firstChunk)
		}
	}
}
