package agent

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A claudeSession is the state of a session that its lines depend on.
type claudeSession struct {
	id            []byte
	agents        map[string]*claudeAgent // the main agent and its sub-agents, by the tool call that started the sub-agent
	tasks         map[string]*claudeTask
	calls         map[string]bool // the open tool calls, and whether they were denied
	ended         bool            // no run has begun since the last one
	stale         bool            // nothing has come since a result that did not end the run: see isStale
	nested        bool            // a sub-agent has worked since the last result
	fault         string          // why the last model call failed, "" if it did not
	total         claudeTotal     // of the process, from the last result
	said          uint64          // a hash of the agent's last text
	answer        uint64          // the same for the text before background work first woke the agent
	subagentUsage Usage           // of sub-agents' finished model calls since the last result
	input         int64           // of the main agent's model calls since the last result, but for the latest
	resumable     bool            // after a resume, its process reports the totals of the whole session
	models        map[string]bool // of the main agent's answers
	subagents     map[string]bool // the calls of sub-agents that may have used more than the stream shows
	hidden        int64           // tokens that model calls which the stream does not show may have used since the last result
}

// A claudeAgent is an agent at work.
type claudeAgent struct {
	message        []byte // the id of the message that is streamed
	usage          Usage  // of it
	over           bool   // all of the message has arrived
	text, thinking bool   // deltas have come that no whole block has repeated yet
	tools          bool   // it called a tool
	asked          bool   // it has got a prompt or a result, and not answered: the stream may lack a sub-agent's last answer
	works          bool   // it has answered since an end of its task was reported
	attempt        int64  // of the last retry
	call           []byte // the id of its last model call
	stop           []byte // why that stopped, if its rows say so
	consulted      int    // how many other models that call has consulted
	spent          Usage  // of that call, zero after a result
}

// begin records the start of a message.
func (a *claudeAgent) begin(message []byte, usage Usage) {
	*a = claudeAgent{message: bytes.Clone(message), usage: usage, works: a.works, attempt: a.attempt, call: a.call, spent: a.spent}
}

// isOver reports whether all of a message has arrived, with its final token counts.
func (a *claudeAgent) isOver(message []byte) bool {
	return a.over && bytes.Equal(a.message, message)
}

// spend records the usage of a model call once, although all of the call's lines repeat
// it. If they differ, the largest counts. A sub-agent's usage is added to subagentUsage when
// the agent's next call begins or the agent ends: until then, a result's totals may lack
// it. The usage in a result includes the main agent's anyway.
func (s *claudeSession) spend(a *claudeAgent, call []byte, u *Usage, nested bool) {
	switch {
	case len(call) == 0:
	case bytes.Equal(call, a.call):
		u.raise(&a.spent)
		a.spent = *u
	default:
		if nested {
			s.subagentUsage.Add(&a.spent)
		} else {
			s.input += a.spent.Input
		}
		a.consulted = 0
		a.call, a.spent = append(a.call[:0], call...), *u
	}
}

// raise raises each count to the count in another line of the same call, if that is larger.
func (u *Usage) raise(v *Usage) {
	u.Input, u.Output, u.Reasoning = max(u.Input, v.Input), max(u.Output, v.Output), max(u.Reasoning, v.Reasoning)
	u.CacheRead, u.CacheWrite = max(u.CacheRead, v.CacheRead), max(u.CacheWrite, v.CacheWrite)
	u.CacheWriteHour, u.WebSearches = max(u.CacheWriteHour, v.CacheWriteHour), max(u.WebSearches, v.WebSearches)
	u.Known = u.Known || v.Known
}

// A claudeTask is a shell or a sub-agent that may run in the background.
type claudeTask struct {
	call       string // the tool call that started it
	background bool
	ended      Instant // when the task was over, if that was reported before its call ended
	status     string  // the task's outcome, reported like ended
	summary    []byte
	over       bool // its end was reported
}

// session returns the state of an event's session. A line without a session id
// belongs to the session of the line before.
func (d *claudeDecoder) session(ev *Event) *claudeSession {
	if s := d.current; s != nil && (len(ev.Session) == 0 || bytes.Equal(ev.Session, s.id)) {
		return s
	}
	s := d.sessions[string(ev.Session)]
	if s == nil {
		s = &claudeSession{
			id: bytes.Clone(ev.Session), agents: map[string]*claudeAgent{}, tasks: map[string]*claudeTask{}, calls: map[string]bool{},
			resumable: d.resumable, models: map[string]bool{}, subagents: map[string]bool{},
		}
		remember(d.sessions, s.id, s)
	}
	d.current = s
	return s
}

func (s *claudeSession) agent(parent []byte) *claudeAgent { return recall(s.agents, parent) }

func (s *claudeSession) task(id []byte) *claudeTask { return recall(s.tasks, id) }

// delegates reports whether a sub-agent is working.
func (s *claudeSession) delegates() bool {
	for parent := range s.agents {
		if parent != "" {
			return true
		}
	}
	return false
}

// A claudeTotal is the usage that a process reports so far, including its
// sub-agents and small helper calls.
type claudeTotal struct {
	usage     Usage
	models    []ModelUsage
	apiMillis int64 // that model calls took
}

// since returns the usage since an earlier total. It returns false if the earlier
// total is another process's: then the difference is less than what the run is known
// to have used.
func (t claudeTotal) since(earlier claudeTotal, run *Usage) (claudeTotal, bool) {
	u := &t.usage
	u.Sub(&earlier.usage)
	t.models = slices.Clone(t.models)
	for i := range t.models {
		m := &t.models[i]
		if k := slices.IndexFunc(earlier.models, func(e ModelUsage) bool { return bytes.Equal(e.Model, m.Model) }); k >= 0 {
			m.Sub(&earlier.models[k].Usage)
		}
	}
	if t.apiMillis >= earlier.apiMillis {
		t.apiMillis -= earlier.apiMillis
	}
	ok := u.Cost >= 0
	if u.Known {
		ok = ok && u.Input >= run.Input && u.Output >= run.Output && u.CacheRead >= run.CacheRead && u.CacheWrite >= run.CacheWrite
	}
	return t, ok
}

// delegated records that a call starts a sub-agent.
func (s *claudeSession) delegated(call []byte) { remember(s.subagents, call, true) }

// measured records what the sub-agent of a call used: the tokens of its last model call. If it
// used no tool, that was its only one, and it started no other sub-agent.
func (s *claudeSession) measured(call []byte, last, toolUses int64) {
	if a := s.agents[string(call)]; s.subagents[string(call)] && last > 0 && toolUses == 0 && (a == nil || !a.tools) {
		delete(s.subagents, string(call))
		s.hidden += last
	}
}

// includesEarlier reports whether totals include what the session used before its process
// began: they are more than the run's own model calls used, and no sub-agent explains that,
// because the stream does not show all that sub-agents do. A model that only writes titles or
// reads web pages for the agent uses less than the run.
func (d *claudeDecoder) includesEarlier(s *claudeSession, total *claudeTotal) bool {
	used := max(d.line.usage.Input, s.input+s.agent(nil).spent.Input) // a result may come after calls that it leaves out
	more := -used
	for i := range total.models {
		m := &total.models[i]
		name, _, _ := bytes.Cut(m.Model, []byte("[")) // claude-opus-5[1m]
		if s.models[string(name)] || m.Input > used {
			more += m.Input
		}
	}
	return s.resumable && more > s.hidden && (len(s.subagents) == 0 || d.resumes)
}

// resumesTotals reports whether a version of Claude Code reports a session's totals after a
// resume, as builds since 2.1.277 do. Before, they were the process's.
func resumesTotals(version []byte) bool {
	for i, part := range bytes.SplitN(version, []byte("."), 3) {
		n, err := strconv.Atoi(string(part))
		if since := [...]int{2, 1, 277}[i]; err != nil || n != since {
			return err != nil || n > since
		}
	}
	return true
}

// ofRun returns what the run used, as far as the result states it. It returns false if the
// result states what the whole session used.
func (d *claudeDecoder) ofRun(s *claudeSession) (total claudeTotal, known bool) {
	l := &d.line
	used := l.usage
	if l.number == 0 { // then only the usage, with the sub-agents', shows another process
		used.Add(&s.subagentUsage)
	}
	total = l.total
	since, same := total.since(s.total, &used)
	if same && (l.number != 1 || s.resumable) {
		total = since
	}
	if !l.own.usage.Known {
		return total, !d.includesEarlier(s, &total)
	}
	l.own.apiMillis = total.apiMillis
	if total.usage.Input != l.own.usage.Input || total.usage.Output != l.own.usage.Output { // of a session that was resumed
		l.own.apiMillis = 0
		l.total.apiMillis = 0
		l.Facts.remove(semconv.APIMillis)
	}
	return l.own, true
}

// isStale reports whether a result only answers that background work of an earlier process has
// ended. A resumed process prints one before it reads its prompt, with another init line behind
// it: it ends no run.
func (d *claudeDecoder) isStale(s *claudeSession) bool {
	l := &d.line
	return l.notified && !l.Failed && l.usage.Input+l.usage.Output == 0 && s.agents[""] == nil
}

// result appends the end of a run. A process may have several runs, but reports
// cost, models and the time in the API since the process began, or since the session began.
func (d *claudeDecoder) result(dst []Event) []Event {
	l, s := &d.line, d.session(&d.line.Event)
	l.Failed = l.Failed || bytes.HasPrefix(l.subtype, []byte("error"))
	if l.Failed && l.Length == 0 && s.delegates() {
		return append(dst, l.Event) // Qwen Code writes a result for a sub-agent; the sub-agent's tool call will fail
	}
	if d.isStale(s) {
		s.total, s.stale = l.total, !s.ended
		return append(dst, Event{Kind: Ignored, Session: l.Session})
	}
	total, known := d.ofRun(s)
	s.total = l.total
	switch {
	case !known:
		total, l.total.apiMillis = claudeTotal{}, 0
		l.Facts.remove(semconv.APIMillis)
		l.usage.Add(&s.subagentUsage)
		for parent, a := range s.agents {
			if parent != "" {
				l.usage.Add(&a.spent)
			}
		}
	case s.nested && total.usage.Known: // the run's own usage leaves sub-agents out
		hour := l.usage.CacheWriteHour + s.subagentUsage.CacheWriteHour
		l.usage = total.usage
		l.usage.CacheWriteHour = hour // which the totals of models leave out
	}
	l.usage.Cost, l.usage.CostKnown = total.usage.Cost, total.usage.CostKnown
	ev := &l.Event
	for _, m := range total.models {
		if m.Input+m.Output > 0 {
			ev.Models = append(ev.Models, m)
		}
	}
	switch {
	case d.sessionUsage && d.resumes:
		ev.SessionUsage = l.usage.copied()
	case l.usage.Known || l.usage.CostKnown:
		ev.Usage = l.usage.copied()
	}
	if total.apiMillis > 0 || l.total.apiMillis > 0 {
		l.Facts.int(semconv.APIMillis, total.apiMillis)
	}
	ev.Kind = RunEnd
	status := enum(jsonscan.Unquote(l.subtype))
	if d.isAPIError(ev.Text) {
		ev.Failed = true
	}
	if ev.Failed {
		if len(ev.Text) == 0 {
			ev.Text = l.fault
		}
		switch {
		case status != "" && status != "success":
			ev.Status = status
		case s.fault != "":
			ev.Status = s.fault
		case d.isAPIError(ev.Text):
			ev.Status = claudeAPIError
		default:
			ev.Status = semconv.ErrorOther
		}
	}
	l.settle(ev)
	ev.Early = s.answer != 0 && s.answer != s.said && s.answer == maphash.Bytes(d.seed, ev.Text)
	s.said, s.answer = 0, 0
	s.ended, s.nested, s.fault, s.subagentUsage, s.input, s.hidden = true, false, "", Usage{}, 0, 0
	for id, a := range s.agents {
		if a.spent = (Usage{}); id == "" || a.over {
			delete(s.agents, id)
		}
	}
	return append(dst, *ev)
}
