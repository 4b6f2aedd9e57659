package mapping

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
)

// A timeline is what went on in a run, and when: the agents with their turns, the calls,
// approvals and background work that are open, and the spans that wait for the run's
// start to be known.
type timeline struct {
	clock     clock
	start     instant
	answered  instant // when the main agent first answered, if it was woken later
	lastEnd   instant // of the spans emitted
	unstamped bool    // the first line has no timestamp
	estimated bool    // start was inferred
	guessed   bool    // the current event has no time of its own in the recording
	ownFirst  bool    // the first turn is the main agent's, so it began with the run

	main      *invocation
	nested    map[string]*invocation // of sub-agents, by the id of the tool call that started them
	order     []*invocation          // all of them
	tools     map[string]*tool       // in flight, by their ids
	tasks     map[string]*tool       // still running in the background, by their own ids
	early     map[string]earlyEnd    // ends of work that may belong to a call in flight, by task id
	approvals approvals
	notices   []notice // of the root: stalls, limits, and what no chat covers
	held      []*span
}

// startGuessed reports whether the start of the run is not when its first line came.
func (l *timeline) startGuessed() bool {
	return l.estimated || l.unstamped && l.clock.recording()
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
	inv := l.nested[string(ev.Parent)]
	return inv != nil && inv.task != nil || l.leftRunning(ev.Parent) != nil
}

// newestCall returns the main agent's newest call in flight, nil if there is none.
func (l *timeline) newestCall() (newest *tool) {
	for _, t := range l.tools {
		if t.inv == l.main && (newest == nil || t.n > newest.n) {
			newest = t
		}
	}
	if newest == nil || l.nested[newest.id] != nil {
		return nil
	}
	return newest
}

// rootNotices returns the events of the root: stalls, limits, and those that no chat
// covers.
func (l *timeline) rootNotices() []notice {
	all := slices.Concat(l.main.notices, l.notices)
	for _, id := range slices.Sorted(maps.Keys(l.early)) {
		all = append(all, l.early[id].notice)
	}
	slices.SortStableFunc(all, func(a, b notice) int { return cmp.Compare(a.at, b.at) })
	return all
}

// maxRepeats returns the longest repetition by the agent or a sub-agent.
func (l *timeline) maxRepeats() (most int) {
	for _, inv := range l.order {
		most = max(most, inv.repeats.max)
	}
	return most
}

// shift puts all times that are not sent yet through f.
func (l *timeline) shift(f func(instant) instant) {
	move := func(times ...*instant) {
		for _, t := range times {
			if *t != 0 {
				*t = f(*t)
			}
		}
	}
	move(&l.start, &l.clock.last, &l.answered)
	for i := range l.notices {
		move(&l.notices[i].at)
	}
	for id, early := range l.early {
		move(&early.notice.at)
		l.early[id] = early
	}
	for _, inv := range l.order {
		move(&inv.start, &inv.wait, &inv.lastStep, &inv.firstChunk)
		for i := range inv.busy.intervals {
			move(&inv.busy.intervals[i].from, &inv.busy.intervals[i].to)
		}
		for _, t := range []*turn{inv.turn, inv.caller} {
			if t != nil {
				t.shift(f, move)
			}
		}
		for i := range inv.notices {
			move(&inv.notices[i].at)
		}
	}
	for _, t := range l.tools {
		move(&t.start, &t.floor)
	}
	for _, t := range l.tasks {
		move(&t.start, &t.from, &t.over)
	}
	for _, a := range l.approvals.sorted() {
		move(&a.start)
	}
	for _, s := range l.held {
		s.shift(f)
		if s.turn != nil {
			move(&s.turn.start, &s.turn.firstChunk)
		}
	}
}
