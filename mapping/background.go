package mapping

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// work is what a call left running in the background.
type work struct {
	task       string
	background int     // the number of its span
	from       instant // when the call ended
	over       instant // when the work ended, if an await said so
	exit       agent.Exit
	status     string
	failed     bool
}

func (w *work) backgroundRef() spanRef { return spanRef{background, w.background} }

// leaveRunning records that a call has ended but has left something running.
func (r *run) leaveRunning(t *tool, call *agent.Tool, at instant) {
	t.task = string(call.Task)
	r.counts.tasks++
	t.background, t.estimated = r.counts.tasks, false
	if old := r.tasks[t.task]; old != nil && t.task != "" { // the id is reused: the older task will never be reported again
		r.endBackground(old, r.clock.after(old.from, at), "running", "", content.Attributes{})
	}
	if early, ok := r.early[t.task]; ok { // its end was printed before the call's
		delete(r.early, t.task)
		t.estimated = true
		r.endBackground(t, r.clock.after(at, at), early.status, early.errorType, early.said)
		return
	}
	r.tasks[t.taskKey()] = t
	if len(r.tasks) > maxOpen {
		for _, old := range r.oldest(r.tasks, t) {
			delete(r.tasks, old.taskKey())
			r.endBackground(old, r.clock.after(old.from, at), "running", "", content.Attributes{})
		}
	}
}

// taskKey is the id of what a call left running. For work without an id, no end will be
// reported.
func (t *tool) taskKey() string {
	if t.task == "" {
		return "\x00" + t.id
	}
	return t.task
}

// taskEnd handles the end of background work, or a notification of it. Some work
// belongs to a nested agent whose calls are not in the stream.
func (r *run) taskEnd(inv *invocation, ev *agent.Event, at instant) {
	if ev.Wakes {
		r.taskWakes(inv, at)
	}
	if r.tasks[string(ev.ID)] != nil {
		r.endTaskAt(ev, at)
		return
	}
	if !ev.Wakes {
		return // it was reported before
	}
	note := *ev
	note.Notice = semconv.EventTaskNotification
	note.Facts = []agent.Fact{{Key: semconv.TaskID, Kind: agent.FactText, Text: ev.ID}}
	if ev.Status != "" {
		note.Facts = append(note.Facts, agent.Fact{Key: semconv.TaskStatus, Kind: agent.FactText, Text: []byte(ev.Status)})
	}
	if len(r.tools) == 0 || len(r.early) >= maxOpen {
		r.notice(inv, &note, at)
		return
	}
	early := earlyEnd{notice: r.newNotice(&note, at)}
	early.status, early.errorType = r.taskStatus(ev)
	r.m.captureFacts(ev.Facts, &early.said)
	if r.early == nil {
		r.early = map[string]earlyEnd{}
	}
	r.early[string(ev.ID)] = early
}

// maxThought is how long a block of thinking may be silent: some blocks
// never end in the stream.
const maxThought = 10 * instant(time.Second)

// wake records that the end of background work, or a prompt, makes the agent call
// its model. If the agent was idle until then, it was not waiting.
func (r *run) wake(inv *invocation, at instant) {
	if t := inv.turn; t != nil && t.hasOutput() && inv.busy.running == 0 && (!t.thinks || at-t.lastOutputAt >= maxThought) {
		r.closeIdle(inv, at)
	}
	if inv.turn == nil && inv.state == idle {
		if inv == r.main && r.answered == 0 {
			r.answered = inv.wait
		}
		inv.wait, inv.state = at, woken
	}
}

// taskWakes records that the end of background work makes the agent call its model.
// A stream without deltas does not show whether the agent was idle.
func (r *run) taskWakes(inv *invocation, at instant) {
	r.wake(inv, at)
	if inv.turn == nil && inv.busy.running == 0 && inv.state != woken && r.counts.deltas == 0 && !r.agent.TurnEnds {
		inv.wait, inv.state = at, woken
	}
}

// endTask handles the end of work that a run left running, and reports whether the
// work was this run's.
func (r *run) endTask(ev *agent.Event) bool {
	if r.tasks[string(ev.ID)] == nil {
		return false
	}
	r.endTaskAt(ev, r.at(ev))
	return true
}

func (r *run) endTaskAt(ev *agent.Event, at instant) {
	at = r.ownTime(ev, at)
	t := r.tasks[string(ev.ID)]
	if ev.Length > 0 || !ev.Wakes && ev.ExitCode.Known { // an await knows how long the work took, and how it ended
		if ev.Length > 0 {
			at = min(quantize(t.start+ev.Length), at)
		}
		t.over = max(at, t.from+quantum)
		t.exit, t.status, t.failed = ev.ExitCode, ev.Status, ev.Failed
		return // the notification may say more
	}
	delete(r.tasks, string(ev.ID))
	if t.estimated = ev.Estimated; t.over != 0 {
		at, t.estimated = t.over, false
	}
	status, errorType := r.taskStatus(ev)
	if t.failed && errorType == "" {
		status, errorType = t.status, cmp.Or(t.status, errOther)
	}
	var said content.Attributes
	r.m.captureFacts(ev.Facts, &said)
	if t.start < at && at <= t.from { // the work was over before its call ended, so it began with the call
		t.from = t.start
	}
	r.endBackground(t, r.clock.after(t.from, at), status, errorType, said)
}

// taskStatus returns the status of work that ended, and its error.type if it failed.
func (r *run) taskStatus(ev *agent.Event) (status, errorType string) {
	status = r.m.names.pass(ev.Status)
	if ev.Failed {
		errorType = cmp.Or(status, errOther)
	}
	return status, errorType
}

// An earlyEnd is the end of background work that may belong to a call in flight.
type earlyEnd struct {
	status, errorType string
	said              content.Attributes
	notice            notice // the root's event if no call claims the work
}

func (r *run) endBackground(t *tool, at instant, status, errorType string, said content.Attributes) {
	at = r.endNested(t, at, errorType)
	s := r.newSpan(t.backgroundRef(), t.inv.ref, t.inv, spanName{operation: semconv.OperationBackground, subject: t.name})
	s.start, s.end = t.from, at
	s.link, s.estimated = t.ref(), t.estimated
	s.attributes.strIfSet(semconv.TaskID, r.m.names.id(t.task))
	s.attributes.str(semconv.TaskStatus, status)
	if t.exit.Known {
		s.attributes.int(semconv.ProcessExitCode, t.exit.Code)
	}
	s.errorType = errorType
	if errorType != "" && t.exit.Known {
		s.status = exitStatus(t.exit.Code)
	}
	s.content = said
	r.emit(s)
}

// sortedTools returns calls in the order in which they started.
func sortedTools(tools map[string]*tool) []*tool {
	return slices.SortedFunc(maps.Values(tools), func(a, b *tool) int { return a.n - b.n })
}

// endTasks ends what was still running in the background when the stream ended. It
// is only known to have outlived the stream.
func (r *run) endTasks(at instant) {
	for _, t := range sortedTools(r.tasks) {
		if t.over == 0 {
			r.endBackground(t, r.clock.after(t.from, at), "running", "", content.Attributes{})
			continue
		}
		errorType := ""
		if t.failed {
			errorType = cmp.Or(t.status, errOther)
		}
		r.endBackground(t, t.over, t.status, errorType, content.Attributes{})
	}
	clear(r.tasks)
}
