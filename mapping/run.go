package mapping

import (
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// Values of error.type, short.
const (
	errIncomplete  = semconv.ErrorIncomplete
	errInterrupted = semconv.ErrorInterrupted
	errKilled      = semconv.ErrorKilled
	errOther       = semconv.ErrorOther
)

// A run is one trace: what an agent does from its first line to its result. A
// session, which an agent can resume, is one run or several.
type run struct {
	m       *Mapper
	agent   *agent.Agent
	session string
	number  int // of the run in its session, from 1
	clock   clock
	key     runKey
	keyed   bool // by a stamp: the ids are those that the run will keep

	start     instant
	printed   instant // the last event that told something new
	estimated bool    // start was inferred
	events    int
	began     bool // there was a RunStart
	ended     bool // the root span is finished
	badLines  int  // on the pipe before it
	broken    bool // the agent spoke of an error

	main   *invocation
	nested map[string]*invocation // of sub-agents, by the id of the tool call that started them
	order  []*invocation          // all of them
	tools  map[string]*tool       // in flight, by their ids
	tasks  map[string]*tool       // still running in the background, by their own ids

	approvals map[approvalKey][]*pendingApproval
	pending   int // approvals

	counts     counts
	notices    []notice    // what spantee noticed
	eventBytes int         // of the events so far
	usage      agent.Usage // of all model calls
	reported   *agent.Usage
	facts      facts // of the root

	held    []*span
	lastEnd instant // of the spans emitted

	content content.Attributes // of the root
	fault   string             // what the agent said of an error
}

// counts are those of a whole run; sub-agents are a part of it.
type counts struct {
	spans, turns, deltaSpans, tools, toolErrors, approvals, invocations, tasks int
	deltas, retries, reconnects, compactions                                   int
	text, thinking                                                             tally
}

// An invocation is the work of one agent: the run's own, or a sub-agent's.
type invocation struct {
	ref   spanRef
	tool  spanRef // that started it
	name  string
	model string
	start instant

	turn    *turn   // the one at hand
	called  *turn   // it ended by calling a tool, but more may become known of it
	last    *turn   // the one that ended last
	wait    instant // when the agent began to wait for the model
	idle    bool    // the model gave its answer, so nobody waits for it
	notices []notice

	running    int     // tools in flight
	toolsFrom  instant // since when there has been one
	toolsTo    instant // until when there was one
	firstChunk instant
	estimated  bool // firstChunk came at an unknown time after the start

	repeats             repeats
	counts              invocationCounts
	modelTime, toolTime instant
	asked               []content.Value // the messages that the next turn answers: the prompt, or what tools returned
	prompted            bool            // and the prompt is on the span
	answer              string          // the last text that was said
	content             content.Attributes
	ended               bool
}

type invocationCounts struct{ turns, tools, toolErrors, deltas int }

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
		m: m, agent: a, session: session, number: number, badLines: m.stats.BadLines,
		tools: map[string]*tool{}, tasks: map[string]*tool{}, approvals: map[approvalKey][]*pendingApproval{},
	}
	r.clock.replay = m.opts.replay()
	r.start = r.clock.at(0, arrival)
	r.main = &invocation{ref: rootRef, name: a.Name, start: r.start, wait: r.start}
	r.order = []*invocation{r.main}
	return r
}

// apply takes the next event of the run.
func (r *run) apply(ev *agent.Event) {
	r.events++
	printed := r.printed
	at := r.at(ev)
	if ev.Kind != agent.TextEnd { // it repeats what was printed
		r.printed = at
	}
	inv := r.invocation(ev, at)

	switch ev.Kind {
	case agent.RunStart:
		r.began = true
		r.main.setModel(ev.Model)
		r.takeFacts(ev.Facts)
	case agent.Prompt:
		r.wake(inv, at)
		r.takePrompt(inv, ev)
	case agent.TurnStart:
		r.endTurn(inv, at)
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
		r.notice(inv, ev, at)
	case agent.RunError:
		r.broken = true
		r.takeFault(ev.Text)
	case agent.RunEnd:
		r.finish(at, ev)
	}
}

// at returns the instant of an event.
func (r *run) at(ev *agent.Event) instant {
	stamp := r.clock.believed(ev.Time)
	if stamp != 0 {
		stamp += quantize(instant(r.m.opts.Shift))
		if !r.clock.stamped {
			r.stamped(stamp, ev.Arrival)
		}
	} else if r.events == 1 && r.clock.replay {
		r.estimated = true // the run's first line has no stamp
	}
	return r.clock.at(stamp, ev.Arrival)
}

// stamped is called at the first stamp: what came before it was put on the
// timeline without knowing where the agent's clock stands.
func (r *run) stamped(stamp, arrival instant) {
	r.settleKeyTo(stamp)
	switch {
	case r.clock.replay:
		last := r.clock.last
		if r.counts.tools+r.counts.turns == 0 {
			r.shift(func(instant) instant { return stamp })
		} else { // one after the other, just before
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
	default: // what was sent stays where it is, so the stamps have to move
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
	r.key, r.keyed = newRunKey(r.agent.Name, r.session, r.number, first, &r.m.opts), true
	r.m.stats.Generation++
	r.m.opts.RunStarted(r.describe())
}

// invocation returns the work that an event is about: that of a sub-agent if a
// tool call started one.
func (r *run) invocation(ev *agent.Event, at instant) *invocation {
	if len(ev.Parent) == 0 {
		return r.main
	}
	if inv := r.nested[string(ev.Parent)]; inv != nil {
		return inv
	}
	r.counts.invocations++
	inv := &invocation{
		ref: spanRef{invokeAgent, r.counts.invocations}, tool: rootRef, name: "subagent", start: at, wait: at,
	}
	if t := r.tools[string(ev.Parent)]; t != nil {
		inv.tool, inv.start, inv.wait = t.ref(), t.start, t.start
		if t.subagent != "" {
			inv.name = t.subagent
		}
	}
	if r.nested == nil {
		r.nested = map[string]*invocation{}
	}
	r.nested[string(ev.Parent)] = inv
	r.order = append(r.order, inv)
	return inv
}

func (inv *invocation) setModel(model []byte) {
	if len(model) > 0 {
		inv.model = string(model)
	}
}

// wake notes that something makes the agent call its model: the end of
// background work, or a prompt. If it was idle until then, nobody waited.
func (r *run) wake(inv *invocation, at instant) {
	if t := inv.turn; t != nil && t.spoke && inv.running == 0 {
		r.closeTurn(inv, t.lastWord(at), "")
	}
	if inv.turn == nil && inv.idle {
		inv.wait, inv.idle = at, false
	}
}

// finish closes what is open and then the root. end is the result that ended
// the run.
func (r *run) finish(at instant, end *agent.Event) {
	errorType := ""
	if end.Failed {
		errorType = end.Status
	}
	for _, inv := range slices.Backward(r.order) {
		switch t := inv.turn; {
		case t == nil:
		case errorType != "" && t.answered == 0: // an error broke it off
			r.closeTurn(inv, at, errorType)
		default:
			r.closeTurn(inv, t.lastWord(at), "")
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
	ended := r.agent.EndsAtEOF && why == errIncomplete && !r.broken && r.main.answered() && len(r.tools) == 0
	for _, inv := range slices.Backward(r.order) {
		switch t := inv.turn; {
		case t != nil && (t.answered != 0 || ended):
			r.closeTurn(inv, t.lastWord(at), "")
		case inv != r.main && t == nil:
		case t != nil, inv.running == 0 && !inv.idle: // it broke off while the model was at work
			r.openTurn(inv, at, nil)
			r.closeTurn(inv, at, why)
		}
	}
	errorType := why
	switch {
	case ended:
		errorType = ""
	case r.broken && why == errIncomplete:
		errorType = errOther
	}
	r.close(at, why, errorType, 0)
	r.endTasks(at)
}

// answered tells whether the model has given its answer.
func (inv *invocation) answered() bool {
	return inv.idle || inv.turn != nil && inv.turn.answered != 0
}

// close finishes all spans but those of the background, the root last.
func (r *run) close(at instant, children, root string, took instant) {
	byStart := func(a, b *tool) int { return a.n - b.n }
	for _, t := range slices.SortedFunc(maps.Values(r.tools), byStart) {
		r.endTool(t, r.clock.after(t.start, at), children, "")
	}
	for _, a := range r.openApprovals() {
		r.endApproval(a, r.clock.after(a.start, at), "", children)
	}
	clear(r.approvals)
	r.pending = 0
	for _, inv := range slices.Backward(r.order) {
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
	move(&r.start, &r.clock.last, &r.printed)
	r.moveNotices(move)
	for _, inv := range r.order {
		move(&inv.start, &inv.wait, &inv.toolsFrom, &inv.firstChunk)
		for _, t := range []*turn{inv.turn, inv.called} {
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
