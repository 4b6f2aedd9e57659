package mapping

import (
	"hash/maphash"
	"math"
	"slices"
	"strconv"

	"github.com/spantee/spantee/mapping/agent"
)

const (
	// maxEvicted is how many evicted runs are remembered. Beyond that, the one that
	// was evicted first is forgotten, and a later line of its session begins a run.
	maxEvicted = 1 << 17

	// maxEvictedName is the longest name that is remembered with an evicted run.
	maxEvictedName = 128
)

// An evictedRun is what is remembered of a run that ended early because too many
// sessions were open, so that a later line of its session continues the trace. It is
// small and has no pointers: there may be many, and the garbage collector would
// follow them.
type evictedRun struct {
	traceID      [16]byte
	rootID       [8]byte
	last, offset instant // of its clock
	call         uint32  // hash of the id of the call in flight, 0 if there is none
	callAge      uint32  // quanta from the call's start to last
	turns, tools uint32
	place        uint32 // in evictedRuns.order
	runs, parts  uint16 // of the session, of the run
	model, tool  uint8  // numbers of names, see evictedRuns.name
	agent        uint8  // in agent.Agents
	flags        evictedFlags
}

type evictedFlags uint8

const (
	evictedBegan evictedFlags = 1 << iota
	evictedStamped
	evictedSkewed
	evictedIdle
)

func (e *evictedRun) set(flag evictedFlags, value bool) {
	if value {
		e.flags |= flag
	}
}

func (e *evictedRun) callStart() instant { return e.last - instant(e.callAge)*quantum }

// evictedRuns are the evicted runs that are remembered.
type evictedRuns struct {
	seed  maphash.Seed
	runs  map[uint64]evictedRun // by the hash of the session's id
	order []uint64              // a ring of these hashes, as they were added
	next  uint32                // place in the ring
	names []string              // name n is names[n-1]; 0 means no name
}

func newEvictedRuns() evictedRuns {
	return evictedRuns{seed: maphash.MakeSeed(), runs: map[uint64]evictedRun{}}
}

// hash returns the hash of an id. It is never zero.
func (es *evictedRuns) hash(id []byte) uint64 { return maphash.Bytes(es.seed, id) | 1 }

// find returns the evicted run of a session, if there is one.
func (es *evictedRuns) find(session []byte) (e evictedRun, ok bool) {
	if len(es.runs) == 0 {
		return e, false
	}
	e, ok = es.runs[es.hash(session)]
	return e, ok
}

// take is like find, and removes the run.
func (es *evictedRuns) take(session []byte) (e evictedRun, ok bool) {
	if e, ok = es.find(session); ok {
		delete(es.runs, es.hash(session))
	}
	return e, ok
}

// add adds an evicted run, and returns the run that is forgotten for it, if any.
func (es *evictedRuns) add(session []byte, e evictedRun) (forgotten evictedRun) {
	if len(es.order) < maxEvicted {
		es.order = append(es.order, 0)
	} else if old, ok := es.at(es.next); ok {
		forgotten = old
		delete(es.runs, es.order[es.next])
	}
	e.place = es.next
	es.order[es.next] = es.hash(session)
	es.runs[es.hash(session)] = e
	es.next = (es.next + 1) % maxEvicted
	return forgotten
}

// at returns the run at a place in the ring, if it is there still.
func (es *evictedRuns) at(place uint32) (e evictedRun, ok bool) {
	e, ok = es.runs[es.order[place]]
	return e, ok && e.place == place
}

// number returns the number of a name, 0 if the name is not remembered.
func (es *evictedRuns) number(name string) uint8 {
	i := slices.Index(es.names, name) + 1
	if i == 0 && name != "" && len(name) <= maxEvictedName && len(es.names) < math.MaxUint8 {
		es.names = append(es.names, name)
		i = len(es.names)
	}
	return uint8(i)
}

func (es *evictedRuns) name(number uint8) string {
	if number == 0 {
		return ""
	}
	return es.names[number-1]
}

// evict ends the session that has been silent for longest.
func (m *Mapper) evict(s *session) {
	if s.run == nil || s.run.part == 0 {
		m.stats.Evicted++
	}
	if s.run == nil || s.id == "" || s.idCameLast { // nothing to continue, or lines that do not say whose they are
		m.abandon(s, errIncomplete)
		m.sessions.touch(s, true)
		return
	}
	arrival := m.arrival()
	for _, r := range s.ended {
		r.endTasks(r.clock.at(0, arrival))
	}
	e := s.run.evict()
	m.sessions.remove(s)
	m.endEvictedCall(m.sessions.evicted.add([]byte(s.id), e), errIncomplete)
}

// evict ends a run at its last line, and returns what it takes to continue the run.
// The newest call stays in flight.
func (r *run) evict() evictedRun {
	r.settleKey()
	es := &r.m.sessions.evicted
	e := evictedRun{
		traceID: r.ownTraceID, rootID: r.rootID, offset: r.clock.offset,
		runs: uint16(min(r.number, math.MaxUint16)), parts: uint16(min(r.part, math.MaxUint16)),
		model: es.number(r.main.model), agent: uint8(slices.Index(agent.Agents, r.agent)),
	}
	e.set(evictedBegan, r.began)
	e.set(evictedStamped, r.clock.stamped)
	e.set(evictedSkewed, r.clock.skew != 0)
	e.set(evictedIdle, r.main.answered())
	call := r.waitsFor
	if t := r.newestCall(); t == nil || r.clock.replay && !r.clock.stamped {
		r.waitsFor = waitingCall{}
	} else { // an older call that waits ends with this part of the run
		call = waitingCall{id: uint32(es.hash([]byte(t.id))), name: t.name, start: t.start}
		if called := r.main.callingTurn; called != nil && called.waitsFor == t {
			called.waitsFor = nil
		}
		delete(r.tools, t.id)
		r.main.running--
	}
	at := r.clock.last
	errorType := errIncomplete
	if r.agent.EndsAtEOF && !r.reportedError && r.main.answered() && call.id == 0 && len(r.tools) == 0 {
		errorType = ""
	}
	for _, inv := range slices.Backward(r.order) {
		switch t := inv.turn; {
		case t == nil, inv.task != nil:
		case t.answered != 0:
			r.closeIdle(inv, at)
		default:
			r.closeTurn(inv, at, errIncomplete)
		}
	}
	r.close(at, errIncomplete, errorType, 0)
	r.endTasks(at)
	e.last, e.turns, e.tools = r.clock.last, uint32(r.counts.turns), uint32(r.counts.tools)
	if call.id != 0 {
		e.call, e.tool = call.id, es.number(call.name)
		e.callAge = uint32(min(max(e.last-call.start, 0)/quantum, math.MaxUint32))
	}
	return e
}

// newestCall returns the main agent's newest call in flight, nil if there is none.
func (r *run) newestCall() (newest *tool) {
	for _, t := range r.tools {
		if t.inv == r.main && (newest == nil || t.n > newest.n) {
			newest = t
		}
	}
	if newest == nil || r.nested[newest.id] != nil {
		return nil
	}
	return newest
}

// A waitingCall is the call that was in flight when its run was evicted.
type waitingCall struct {
	id    uint32 // its hash, 0 without a call
	n     int    // the number of its span
	name  string
	start instant
}

// continueRun continues the run of a session that was evicted, if there is one.
func (m *Mapper) continueRun(s *session, arrival instant) {
	if e, ok := m.sessions.evicted.take([]byte(s.id)); ok {
		s.runs = int(e.runs)
		s.run = m.continued(&e, s.id, arrival)
	}
}

// continued returns a run that continues an evicted one. Its spans are below the
// same root, but their ids are derived from another key: nothing is known of the ids
// that were used.
func (m *Mapper) continued(e *evictedRun, session string, arrival instant) *run {
	r := m.newRun(agent.Agents[e.agent], session, int(e.runs), arrival)
	r.part = int(e.parts) + 1
	r.setKey(digest("part", string(e.traceID[:]), string(e.rootID[:]), strconv.Itoa(r.part), strconv.FormatInt(int64(e.last), 10)))
	r.ownTraceID, r.rootID = e.traceID, e.rootID
	r.events, r.began = 1, e.flags&evictedBegan != 0
	r.before.turns, r.before.tools = int(e.turns), int(e.tools)
	r.counts.spans, r.counts.turns, r.counts.tools = 1, r.before.turns, r.before.tools
	if c := &r.clock; e.flags&evictedStamped != 0 || !c.replay {
		c.last, c.lastStamp, c.offset = e.last, e.last, e.offset
		c.stamped = e.flags&(evictedStamped|evictedSkewed) == evictedStamped // the next stamp gives the skew again
		r.start = e.last
	}
	inv := r.main
	inv.start, inv.wait, inv.idle, inv.model = r.start, r.start, e.flags&evictedIdle != 0, m.sessions.evicted.name(e.model)
	if e.call != 0 {
		r.waitsFor = waitingCall{e.call, int(e.tools), m.sessions.evicted.name(e.tool), e.callStart()}
		inv.running = 1
	}
	return r
}

// recall makes the call that was in flight when the run was evicted a call in flight
// again, if id is its id.
func (r *run) recall(id []byte) {
	w := r.waitsFor
	if w.id != uint32(r.m.sessions.evicted.hash(id)) {
		return
	}
	r.waitsFor = waitingCall{}
	t := &tool{id: string(id), n: w.n, inv: r.main, name: w.name, start: w.start, floor: w.start}
	t.arguments = attributes{field: fieldAttributes, max: r.m.opts.MaxAttributeBytes}
	r.tools[t.id] = t
}

// endWaiting ends the call that was in flight when the run was evicted. Its id is not
// known any more.
func (r *run) endWaiting(at instant, errorType string) {
	w := r.waitsFor
	if w.id == 0 {
		return
	}
	r.waitsFor = waitingCall{}
	t := &tool{n: w.n, inv: r.main, name: w.name, start: w.start}
	r.endTool(t, r.clock.after(w.start, at), errorType, "")
}

// endEvictedCalls ends the calls in flight of evicted runs, in order of eviction.
func (m *Mapper) endEvictedCalls(why string) {
	es := &m.sessions.evicted
	n := uint32(len(es.order))
	for i := range n {
		if e, ok := es.at((es.next + i) % n); ok {
			m.endEvictedCall(e, why)
		}
	}
}

func (m *Mapper) endEvictedCall(e evictedRun, why string) {
	if e.call != 0 {
		r := m.continued(&e, "", m.arrival())
		r.endWaiting(r.clock.last, why)
	}
}
