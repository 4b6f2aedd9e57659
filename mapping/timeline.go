package mapping

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/doubts"
	"github.com/spantee/spantee/mapping/repeats"
	"github.com/spantee/spantee/mapping/semconv"
)

// A timeline is what went on in a run, and when: the agents with their turns, the calls,
// pauses and background work that are open.
type timeline struct {
	clock       clock
	start       moment
	firstAnswer instant // when the main agent first answered, if it was woken later
	lastEnd     instant // of the spans emitted
	firstChat   *span   // of a capture that is fed: it waits until the start of the run is known
	ownFirst    bool    // the first turn is the main agent's, so it began with the run

	main    *invocation
	nested  map[string]*invocation // of sub-agents, by the id of the tool call that started them
	order   []*invocation          // all of them
	tools   map[string]*tool       // in flight, by their ids
	tasks   map[string]*tool       // still running in the background, by their own ids
	early   map[string]earlyEnd    // ends of work that may belong to a call in flight, by task id
	pauses  []*pause               // that have not ended, the oldest first
	notices []event                // of the root: stalls, limits, and what no chat covers
}

// leftRunning returns a call that is still working in the background, or nil.
func (l *timeline) leftRunning(call []byte) *tool {
	for _, t := range l.tasks {
		if t.id == string(call) {
			return t
		}
	}
	return nil
}

// worksInBackground reports whether an event belongs to a sub-agent that the run
// left working in the background.
func (l *timeline) worksInBackground(ev *agent.Event) bool {
	if len(ev.Parent) == 0 {
		return false
	}
	inv, call := l.nested[subagentKey(ev)], l.tools[string(ev.Parent)]
	return inv != nil && inv.task != nil || call != nil && call.inv.task != nil || l.leftRunning(ev.Parent) != nil
}

// rootNotices returns the events of the root: stalls, limits, and those that no chat
// covers.
func (l *timeline) rootNotices() []event {
	all := slices.Concat(l.main.notices, l.notices)
	for _, id := range slices.Sorted(maps.Keys(l.early)) {
		all = append(all, l.early[id].notice)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

// maxRepeats returns the longest repetition by the agent or a sub-agent.
func (l *timeline) maxRepeats() (most int) {
	for _, inv := range l.order {
		most = max(most, inv.repeats.Max)
	}
	return most
}

// A run is one trace: what an agent does from its first line to its result. A
// session consists of one or more runs, because an agent can resume it. It has a field for each
// thing that the lines of any agent may say of a whole run.
type run struct {
	stream       *stream
	agent        *agent.Agent
	session      string
	conversation string    // the session, as it may be shown
	line         int       // that began it
	foreseen     *foreseen // nil without a first reading
	startup      instant   // from the start of the process to the first line, if that is known
	seed         string    // identifies the run while its session has no id
	number       int       // of the run in its session, from 1
	ids          ids
	timeline
	account
	doubts doubts.Doubts

	events     int
	began      bool // there was a RunStart
	ended      bool // the root span is finished
	resultOnly bool // it was a result and nothing else
	requests   bool // the agent says when it asks its model

	evicted bool // too many were open
	apart   bool // it is the work of a sub-agent, while its parent was idle
	caller  *caller
	failure failure

	facts   agent.Facts        // of the root
	content content.Attributes // of the root
	endings content.Endings    // of the texts before
}

// A caller is the call that started a sub-agent.
type caller struct {
	ids  *ids // of its run
	call spanRef
}

// A failure is an error that the agent reported.
type failure struct {
	reported   bool
	kind, text string
	httpStatus int64
}

// Short names for values of error.type.
const (
	errIncomplete  = semconv.ErrorIncomplete
	errInterrupted = semconv.ErrorInterrupted
	errKilled      = semconv.ErrorKilled
	errOther       = semconv.ErrorOther
)

// An invocation is the work of one agent: the run's main agent or a sub-agent. It has many
// fields, because what a line means depends on turns, calls, questions and waits together.
type invocation struct {
	ref   spanRef
	tool  spanRef // the call that started it
	task  *tool   // the call that runs it in the background, or nil
	name  string
	model string
	start moment

	turn     *turn // the latest one
	state    agentState
	wait     moment // when the agent began to wait for the model
	steps    steps
	question question
	busy     busy

	notices    []event // that wait for output of the model
	compacted  bool    // the agent has shortened its context since its last turn
	hasOutput  bool    // the model has produced something
	firstChunk moment  // when it first did, none if that is unknown
	modelTime  instant // how long the agent has waited for the model
	repeats    repeats.Repeats
	counts     struct{ turns, tools, toolErrors, deltas int }
	dialog     dialog
	ended      bool
	errorType  string // how it failed, "" if it did not or only with its call
}

// An agentState says whether an agent without a current turn waits for the model.
type agentState uint8

const (
	working agentState = iota // it waits for the model, or for tools
	woken                     // a notification, a prompt or a retry made it wait for the model
	idle                      // the model has answered
)

// steps are the deltas, ends of thinking and ends of calls that a later call cannot have
// started before. Cursor holds back the line of a call's start, and prints it in one burst
// with thoughts of the same model call: what is in a burst says nothing about the order in
// which it happened.
type steps struct {
	lastStep instant // the latest step
	lastLine instant // the latest step or start of a call
	floor    instant // the latest step before the burst that lastLine is in
}

// withinBurst is the longest time between two lines of one burst.
const withinBurst = 10 * agent.Milliseconds

// add adds a step.
func (s *steps) add(at instant) {
	s.noteStart(at)
	s.lastStep = max(s.lastStep, at)
}

// noteStart adds the start of a call, which may overlap with others, or a step.
func (s *steps) noteStart(at instant) {
	if at > s.lastLine+withinBurst {
		s.floor = s.lastStep
	}
	s.lastLine = max(s.lastLine, at)
}

// A question is what an agent asked its user instead of saying more, or calling a tool.
// That ends its turn: while it waits for an answer, no model works.
type question struct {
	asked    moment // none if it asked nothing
	answered moment // none while it waits
}

// busy is the time in which tools run.
type busy struct {
	running   int        // calls in flight
	intervals []interval // the latest ones, without overlaps
	total     instant
	ended     moment // when a call last ended, none if none has
}

type interval struct{ from, to instant }

// maxIntervals is how many intervals are kept for merging with a later one.
const maxIntervals = 64

// add adds a call that has ended. Calls end in order, but a call that is reported only
// at its end may have begun before calls that ended earlier.
func (b *busy) add(start, end moment) {
	b.ended = later(b.ended, end)
	from, to := start.at, end.at
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
	b.intervals = append(b.intervals[:n], interval{from, to})
}

// current returns the turn in which the model works or has answered, nil if there is none.
func (inv *invocation) current() *turn {
	if t := inv.turn; t != nil && t.state < calledTool {
		return t
	}
	return nil
}

// callingTurn returns the turn that has ended with a tool call, nil if there is none, or the
// stream cannot add to it any more.
func (inv *invocation) callingTurn() *turn {
	if t := inv.turn; t != nil && calledTool <= t.state && t.state < closed {
		return t
	}
	return nil
}

// answered reports whether the model has given its answer.
func (inv *invocation) answered() bool {
	return inv.state == idle || inv.turn != nil && inv.turn.state == answered
}

// A turn is one model call, from when the agent began to wait for the model to the
// first tool call or the end of the answer. Its span is a chat.
type turn struct {
	inv        *invocation
	n          int // in the run, from 1
	state      turnState
	start, end moment // the end is set with the first tool call, or with the span

	firstChunk moment // none if its time is unknown
	lastOutput moment // the last event of the model
	thinks     bool   // a block of thinking has not ended
	timedOut   bool   // shells in the background have timed out since the last output

	compacted  bool // the agent shortened its context before
	errorType  string
	status     string // the agent's words for that
	httpStatus int64
	response   response
	said       [2]textCount    // by textKind
	events     *turnEvents     // nil once the turn has its span
	asked      []content.Value // the messages it answers
	callPart   []content.Value // the tool call that ends it
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
	closed                      // the turn has its span
)

// hasOutput reports whether the model has produced something.
func (t *turn) hasOutput() bool { return t.state != waiting }

// A response is what a stream states about a model's response.
type response struct {
	id, model, provider string
	reason              string // why the model stopped, in its words
	usage               agent.Usage
}

// A tool is a call in flight, or one that left something running. It has many fields, because
// what its span says comes in several lines.
type tool struct {
	id         string
	n          int
	inv        *invocation
	turn       *turn // the turn that called it
	name       string
	executable string
	subagent   string
	skill      string
	mcp        bool
	command    bool // it is a shell command
	start      moment
	floor      instant // the call cannot have started earlier
	endsSooner bool    // it may have ended before its end was printed
	awaited    spanRef // the background work that it waited for
	script     spanRef // the call that made it, if that is a script
	calls      int     // how many it made, as a script
	repeat     int     // how often in a row this call was made; zero until its arguments are known

	arguments attributes // in wire format
	asked     content.Attributes
	callPart  content.Value
	work
}

func (t *tool) ref() spanRef { return spanRef{executeTool, t.n} }

// callingTurn returns the turn that made the call, nil if the stream cannot add to that any more.
func (t *tool) callingTurn() *turn {
	if calling := t.inv.callingTurn(); calling == t.turn {
		return calling
	}
	return nil
}

// maxOpen is how many calls, tasks or pauses a run may have open at once. Beyond that,
// the oldest tenth of the calls or tasks is ended at once, because finding them means sorting
// all of them.
const maxOpen = 2_000

// work is what a call left running in the background.
type work struct {
	task       string
	background int    // the number of its span
	from       moment // when the call ended
	over       moment // when the work ended, if an await said so
	exit       agent.Exit
	status     string // "running" until an end is reported
	failed     bool
}

func (w *work) backgroundRef() spanRef { return spanRef{background, w.background} }

// taskKey is the id of what a call left running. For work without an id, no end will be
// reported.
func (t *tool) taskKey() string {
	if t.task == "" {
		return "\x00" + t.id
	}
	return t.task
}

// sortedTools returns calls in the order in which they started.
func sortedTools(tools map[string]*tool) []*tool {
	return slices.SortedFunc(maps.Values(tools), func(a, b *tool) int { return a.n - b.n })
}

// An earlyEnd is the end of background work that may belong to a call in flight.
type earlyEnd struct {
	status string
	failed bool
	said   content.Attributes
	notice event // the root's event if no call claims the work
}

// A dialog is what an agent was asked and what it answered, if content is captured.
type dialog struct {
	asked   []content.Value    // the messages that the next turn answers: the prompt, or what tools returned
	prompts content.Endings    // of the prompts so far
	answer  string             // the last text that was said
	content content.Attributes // the first prompt
}
