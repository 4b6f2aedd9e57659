package mapping

import (
	"bytes"
	"cmp"
	"container/list"
	"hash/maphash"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// A session is a conversation that an agent can resume by its id: one or more runs.
type session struct {
	id         string
	quoted     []byte // the id as a JSON string
	alias      string // the id in its first line, if different
	apart      bool   // it is a sub-agent's, of another session with the same id; alias is its call
	idCameLast bool   // its id came last, so lines without an id belong to another session
	agent      *agent.Agent
	runs       int
	logged     *agent.Event // the beginning of a run, by the session's log, nil if that was not read
	resultOnly bool         // the last run was a result and nothing else
	evicted    bool         // the last run was evicted: what is left of it is not traced
	run        *run         // nil between runs
	ended      []*run       // runs that left something running in the background
	size       int          // of the open runs, see run.size
	list       *list.List   // one of the lists of sessions
	element    *list.Element
}

// name sets the session's id.
func (s *session) name(id string) {
	s.id, s.quoted = id, nil
	if len(id) >= leastID {
		s.quoted = []byte(`"` + id + `"`)
	}
}

// leastID is the length of the shortest id that no other text in a line equals.
const leastID = 16

// isNamedBy reports whether a line has the session's id as a value, which most have near the end.
func (s *session) isNamedBy(line agent.Line) bool {
	if s == nil || s.quoted == nil {
		return false
	}
	end := line.Text[max(0, len(line.Text)-128):]
	return bytes.Contains(end, s.quoted) || bytes.Contains(line.Text, s.quoted) || bytes.Contains(line.Tail, s.quoted)
}

// open reports whether a run of the session is open or has left work running.
func (s *session) open() bool { return s.run != nil || len(s.ended) > 0 }

const (
	// maxOpenSize is how many bytes the open runs of a stream may take. Beyond that, the
	// session that has been silent for longest ends.
	maxOpenSize = 16 << 20

	// maxKnownSessions is how many ended sessions are remembered, so that a
	// repeated result does not begin a run.
	maxKnownSessions = 10_000

	// maxForgotten is of how many others it is remembered that they had a run.
	maxForgotten = 200_000
)

// A forgotten session is what is remembered of one.
type forgotten struct {
	agent   *agent.Agent
	evicted bool
}

// sessions are the sessions of a stream, the most recently active first.
type sessions struct {
	stream *stream
	first  *run // of the Process, until its first line comes
	byID   map[string]*session
	open   *list.List
	known  *list.List                // the others
	size   int                       // of the open ones
	lastOf map[*agent.Agent]*session // of each agent's last line

	forgotten map[uint64]forgotten // sessions that had a run, by their hashed ids
	seed      maphash.Seed
}

func newSessions(s *stream) sessions {
	return sessions{
		stream: s,
		byID:   map[string]*session{}, lastOf: map[*agent.Agent]*session{}, open: list.New(), known: list.New(),
		forgotten: map[uint64]forgotten{}, seed: maphash.MakeSeed(),
	}
}

// agentOf returns the agent of a session, nil if it is not known.
func (ss *sessions) agentOf(id []byte) *agent.Agent {
	if s := ss.byID[string(id)]; s != nil {
		return s.agent
	}
	return ss.forgotten[maphash.Bytes(ss.seed, id)].agent
}

// find returns the session of an event, a new one if it is not known. A line
// without an id belongs to the session of its agent's line before.
func (ss *sessions) find(a *agent.Agent, id []byte) *session {
	if last := ss.lastOf[a]; last != nil && (len(id) == 0 && (!last.idCameLast || last.run != nil) || string(id) == last.id) {
		return last
	}
	s := ss.byID[string(id)]
	if len(id) == 0 {
		s = ss.byID[nameless(a)]
	}
	if s == nil {
		s = &session{agent: a}
		s.name(string(id))
		if before, ok := ss.forgotten[maphash.Bytes(ss.seed, id)]; ok && len(id) > 0 {
			s.runs, s.evicted = 1, before.evicted
		}
		ss.byID[cmp.Or(s.id, nameless(a))] = s
		s.list, s.element = ss.known, ss.known.PushFront(s)
	}
	ss.lastOf[a] = s
	return s
}

// nameless returns the key of an agent's session without an id.
func nameless(a *agent.Agent) string { return "\x00" + a.Flag }

// touch records activity in a session, which may have opened or ended it. If the open
// sessions take too much memory, the one that has been silent for longest is evicted.
func (ss *sessions) touch(s *session) {
	to := ss.known
	if s.open() {
		to = ss.open
	}
	if s.list == to {
		to.MoveToFront(s.element)
	} else {
		s.list.Remove(s.element)
		s.list, s.element = to, to.PushFront(s)
	}
	if ss.known.Len() > maxKnownSessions {
		ss.forget(ss.known.Back().Value.(*session))
	}
	ss.size -= s.size
	s.updateSize()
	ss.size += s.size
	if ss.size > maxOpenSize && ss.open.Len() > 1 {
		ss.evict(ss.open.Back().Value.(*session))
	}
}

// updateSize measures the open runs, less often if that takes long.
func (s *session) updateSize() {
	if r := s.run; r != nil && len(s.ended) == 0 && r.events%(1+(len(r.tools)+len(r.order))/16) > 0 {
		return
	}
	s.size = 0
	for _, r := range s.ended {
		s.size += r.size()
	}
	if s.run != nil {
		s.size += s.run.size()
	}
}

func (ss *sessions) forget(s *session) {
	s.list.Remove(s.element)
	if s.runs > 0 && s.id != "" && len(ss.forgotten) < maxForgotten {
		ss.forgotten[maphash.String(ss.seed, s.id)] = forgotten{s.agent, s.evicted}
	}
	for _, id := range []string{s.id, s.alias, nameless(s.agent)} {
		if ss.byID[id] == s {
			delete(ss.byID, id)
		}
	}
}

// unfinished reports whether a session has a run that is open or was evicted, or work in
// the background.
func (ss *sessions) unfinished(id []byte) bool {
	if s := ss.byID[string(id)]; s != nil {
		return s.open() || s.evicted
	}
	return ss.forgotten[maphash.Bytes(ss.seed, id)].evicted
}

// rename sets the final id of a session whose first line had another. One that is unfinished keeps
// its id.
func (ss *sessions) rename(a *agent.Agent, ev *agent.Event) {
	if ss.unfinished(ev.ID) {
		return
	}
	s, id := ss.find(a, ev.Session), string(ev.ID)
	if s.id == "" {
		s.idCameLast = true
		delete(ss.byID, nameless(s.agent))
	}
	s.alias = s.id
	s.name(id)
	ss.stream.stats.Session = id
	ss.byID[id] = s
	if r := s.run; r != nil {
		r.name(id)
	}
}

// dispatch passes an event of a session to the run that it belongs to.
func (ss *sessions) dispatch(s *session, ev *agent.Event) {
	defer ss.touch(s)
	if ev.Kind == agent.TaskEnd && ss.taskEnd(s, ev) {
		if s.run != nil && ev.Wakes {
			s.run.taskWakes(s.run.main, s.run.place(ev))
		}
		return
	}
	for _, r := range s.ended {
		if ev.Notice == semconv.EventBackgroundTimeout {
			r.timeOutShells(r.place(ev))
		}
		if r.worksInBackground(ev) {
			if ev.Kind != agent.RunStart {
				r.apply(ev)
			}
			return
		}
	}
	if ev.Kind == agent.TaskEnd {
		ev.Parent = nil
	} else if len(ev.Parent) > 0 && ss.dispatchApart(s, ev) {
		return
	}
	if s.run != nil && s.run.began && ev.Kind == agent.RunStart { // the agent was killed and has resumed the session
		s.run.abandon(s.run.clock.now(ev.Arrival), errIncomplete)
		ss.endedRun(s)
	}
	if s.run == nil {
		if s.evicted && ev.Kind != agent.RunStart {
			return
		}
		if !s.beginsWith(ev) {
			if ev.Kind != agent.Notice && ev.Kind != agent.HookStart && ev.Kind != agent.HookEnd {
				ss.stream.stats.EndsWithoutStart++
			}
			return
		}
		s.runs++
		ss.stream.stats.Runs++
		ss.stream.stats.Generation++
		ss.stream.stats.Agent, ss.stream.stats.Session = s.agent.Name, s.id
		s.run = ss.nextRun(s, ev.Arrival)
		s.run.counts.unknown = ss.stream.between[s.agent]
		delete(ss.stream.between, s.agent)
		s.evicted = false
	}
	s.run.apply(ev)
	if s.run.ended {
		s.resultOnly = s.run.resultOnly
		ss.endedRun(s)
	}
}

// dispatchApart passes an event of a sub-agent that works while its session has no run to a run
// of its own. It returns false if the event belongs to the session's run.
func (ss *sessions) dispatchApart(s *session, ev *agent.Event) bool {
	key := callKey(s.id, string(ev.Parent))
	own := ss.byID[key]
	if own == nil || own.run == nil {
		switch {
		case s.run != nil && ev.Kind == agent.RunStart: // its call began it
			return true
		case s.run != nil, s.runs == 0:
			return false
		case own == nil:
			own = &session{agent: s.agent, id: s.id, alias: key, apart: true, runs: 1}
			own.list, own.element = ss.known, ss.known.PushFront(own)
			ss.byID[key] = own
		}
	}
	step := *ev
	step.Parent = nil
	ss.dispatch(own, &step)
	return true
}

func (ss *sessions) endedRun(s *session) {
	if len(s.run.tasks) > 0 {
		s.ended = append(s.ended, s.run)
	}
	s.run = nil
}

// beginsWith reports whether a run of the session may begin with an event. After a result, a
// lingering worker may repeat the result or end a tool.
func (s *session) beginsWith(ev *agent.Event) bool {
	switch ev.Kind {
	case agent.ApprovalEnd, agent.ThinkingEnd, agent.TextEnd, agent.TaskEnd, agent.RunUsage:
		return false
	case agent.TurnEnd:
		return s.apart && ev.Failed
	case agent.RunError:
		return s.runs == 0 && s.id != ""
	case agent.ToolEnd, agent.Notice, agent.HookStart, agent.HookEnd: // hooks run after the result
		return s.runs == 0 || s.apart && (ev.Wakes || ofRequest[ev.Notice])
	case agent.RunEnd:
		return s.runs == 0 || s.resultOnly
	}
	return true
}

// taskEnd looks for the run that left a task running and has ended since, or for the run
// that is the task's own, and reports whether there is one. A run that has not ended takes
// the event itself.
func (ss *sessions) taskEnd(s *session, ev *agent.Event) bool {
	for i, r := range s.ended {
		if r.tasks[string(ev.ID)] == nil {
			continue
		}
		r.endTask(ev, r.place(ev))
		if len(r.tasks) == 0 {
			s.ended = append(s.ended[:i], s.ended[i+1:]...)
		}
		return true
	}
	own := ss.byID[callKey(s.id, string(ev.Parent))]
	if len(ev.Parent) == 0 || own == nil || own.run == nil {
		return false
	}
	end := *ev
	end.Kind, end.Parent = agent.RunEnd, nil
	ss.dispatch(own, &end)
	return true
}

// abandon ends what is open in a session.
func (ss *sessions) abandon(s *session, why string) {
	s.abandon(ss.stream.arrival(), why)
	ss.touch(s)
}

func (s *session) abandon(arrival instant, why string) {
	for _, r := range s.ended {
		r.endTasks(r.clock.now(arrival))
	}
	s.ended = nil
	if s.run != nil {
		s.run.abandon(s.run.clock.now(arrival), why)
		s.run = nil
	}
}

// abandonAll ends all open sessions, the one that has been silent for longest
// first.
func (ss *sessions) abandonAll(why string) {
	for ss.open.Len() > 0 {
		ss.abandon(ss.open.Back().Value.(*session), why)
	}
}

// evict ends a session because the open ones take too much memory.
func (ss *sessions) evict(s *session) {
	ss.stream.stats.Evicted++
	if s.evicted = s.run != nil; s.evicted {
		s.run.evicted = true
		ss.stream.stats.EvictedRuns++
	}
	ss.abandon(s, errIncomplete)
}

// nextRun begins the next run of a session.
func (ss *sessions) nextRun(s *session, arrival instant) *run {
	startup := arrival - ss.stream.began
	if r := ss.first; r != nil {
		ss.first, r.startup = nil, startup
		r.name(s.id)
		r.before.badLines = 0
		r.agent = s.agent
		r.main.name = s.agent.Name
		return r
	}
	r := ss.stream.newRun(s.agent, s.id, s.runs, arrival)
	if ss.stream.stats.Runs == 1 && startup < longestStartup {
		r.startup = startup
	}
	if s.logged != nil {
		r.takeLogged(s.logged)
	}
	if s.apart {
		r.apart, r.caller = true, ss.stream.callers[s.alias]
	}
	return r
}
