package agent

import (
	"bytes"
	"strconv"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A claudeSession is the state of a session that its lines depend on.
type claudeSession struct {
	id     []byte
	agents map[string]*claudeAgent // the main agent and its sub-agents, by the tool call that started the sub-agent
	tasks  map[string]*claudeTask
	calls  map[string]callTrait // traits of open tool calls, which the lines of their ends lack
	nested bool                 // a sub-agent has worked since the last result
	fault  string               // why the last model call failed, "" if it did not
	total  claudeTotal          // of the process, from the last result
	called Usage                // of sub-agents' finished model calls since the last result, Input without the cached tokens
}

// A claudeAgent is an agent at work.
type claudeAgent struct {
	message        []byte // the id of the message that is streamed
	usage          Usage  // of it
	over           bool   // all of the message has arrived
	text, thinking bool   // deltas have come that no whole block has repeated yet
	tools          bool   // it called a tool
	attempt        int64  // of the last retry
	call           []byte // the id of its last model call
	spent          Usage  // of that call, zero after a result
}

// begin records the start of a message.
func (a *claudeAgent) begin(message []byte, usage Usage) {
	*a = claudeAgent{message: bytes.Clone(message), usage: usage, attempt: a.attempt, call: a.call, spent: a.spent}
}

// isOver reports whether all of a message has arrived, with its final token counts.
func (a *claudeAgent) isOver(message []byte) bool {
	return a.over && bytes.Equal(a.message, message)
}

// spend records the usage of a sub-agent's model call once, although all of the call's
// lines repeat it; a result's usage has that of the main agent. The usage is added to
// called when the agent's next call begins or the agent ends: until then, a result's
// totals may lack it.
func (s *claudeSession) spend(a *claudeAgent, call []byte, u *Usage) {
	if len(call) > 0 && !bytes.Equal(call, a.call) {
		s.called.add(&a.spent)
		a.call, a.spent = append(a.call[:0], call...), *u
	}
}

// A claudeTask is a shell or a sub-agent that may run in the background.
type claudeTask struct {
	call       string // the tool call that started it
	background bool
	over       bool
}

// maxRemembered is how many agents, tasks and calls of a session are remembered.
const maxRemembered = 4096

// session returns the state of an event's session. A line without a session id
// belongs to the session of the line before.
func (d *claudeDecoder) session(ev *Event) *claudeSession {
	if s := d.current; s != nil && (len(ev.Session) == 0 || bytes.Equal(ev.Session, s.id)) {
		return s
	}
	s := d.sessions[string(ev.Session)]
	if s == nil {
		if len(d.sessions) >= maxSessions {
			clear(d.sessions)
		}
		s = &claudeSession{
			id: bytes.Clone(ev.Session), agents: map[string]*claudeAgent{}, tasks: map[string]*claudeTask{}, calls: map[string]callTrait{},
		}
		d.sessions[string(s.id)] = s
	}
	d.current = s
	return s
}

func (s *claudeSession) agent(parent []byte) *claudeAgent {
	a := s.agents[string(parent)]
	if a == nil {
		if len(s.agents) >= maxRemembered {
			clear(s.agents)
		}
		a = &claudeAgent{}
		s.agents[string(parent)] = a
	}
	return a
}

// delegates reports whether a sub-agent is working.
func (s *claudeSession) delegates() bool {
	for parent := range s.agents {
		if parent != "" {
			return true
		}
	}
	return false
}

func (s *claudeSession) task(id []byte) *claudeTask {
	t := s.tasks[string(id)]
	if t == nil {
		if len(s.tasks) >= maxRemembered {
			clear(s.tasks)
		}
		t = &claudeTask{}
		s.tasks[string(id)] = t
	}
	return t
}

// A callTrait is something that must be known about a tool call when it ends.
type callTrait uint8

const (
	callOfMCP callTrait = iota + 1
	callDenied
)

func (s *claudeSession) trait(call []byte, trait callTrait) {
	if len(s.calls) >= maxRemembered {
		clear(s.calls)
	}
	s.calls[string(call)] = max(s.calls[string(call)], trait)
}

// read reads token counts as the API has them.
func (u *Usage) read(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "input_tokens":
			u.count(r, &u.Input)
		case "output_tokens":
			u.count(r, &u.Output)
		case "cache_read_input_tokens":
			u.count(r, &u.CacheRead)
		case "cache_creation_input_tokens":
			u.count(r, &u.CacheWrite)
		case "output_tokens_details":
			for key := range r.Members() {
				if string(key) == "thinking_tokens" {
					u.count(r, &u.Reasoning)
				} else {
					r.Skip()
				}
			}
		default:
			r.Skip()
		}
	}
}

func (u *Usage) count(r *jsonscan.Reader, to *int64) {
	if n, ok := r.Int(); ok && n >= 0 {
		*to, u.Known = n, true
	}
}

// merge takes over the counts of a newer line.
func (u *Usage) merge(newer *Usage) {
	for _, n := range []struct {
		to   *int64
		from int64
	}{
		{&u.Input, newer.Input},
		{&u.Output, newer.Output},
		{&u.Reasoning, newer.Reasoning},
		{&u.CacheRead, newer.CacheRead},
		{&u.CacheWrite, newer.CacheWrite},
	} {
		if n.from != 0 {
			*n.to = n.from
		}
	}
	u.Known = u.Known || newer.Known
}

// A claudeTotal is the usage that a process reports so far, including its
// sub-agents and small helper calls.
type claudeTotal struct {
	usage Usage // Input without the cached tokens
	cost  decimal
}

// readModels reads {"<model>":{"inputTokens":..,"outputTokens":..},..}.
func (t *claudeTotal) readModels(r *jsonscan.Reader) {
	u := &t.usage
	for range r.Members() {
		for key := range r.Members() {
			n, ok := r.Int()
			if !ok || n < 0 {
				continue
			}
			u.Known = true
			switch string(key) {
			case "inputTokens":
				u.Input += n
			case "outputTokens":
				u.Output += n
			case "cacheReadInputTokens":
				u.CacheRead += n
			case "cacheCreationInputTokens":
				u.CacheWrite += n
			case "thinkingTokens":
				u.Reasoning += n
			}
		}
	}
}

// since returns the usage since an earlier total. It returns false if the earlier
// total is another process's: then the difference is less than what the run is known
// to have used.
func (t claudeTotal) since(earlier claudeTotal, run *Usage) (claudeTotal, bool) {
	u, e := &t.usage, &earlier.usage
	u.Input -= e.Input
	u.Output -= e.Output
	u.CacheRead -= e.CacheRead
	u.CacheWrite -= e.CacheWrite
	u.Reasoning = max(0, u.Reasoning-e.Reasoning)
	t.cost = t.cost.minus(earlier.cost)
	ok := t.cost.value >= 0
	if u.Known {
		ok = ok && u.Input >= run.Input && u.Output >= run.Output && u.CacheRead >= run.CacheRead && u.CacheWrite >= run.CacheWrite
	}
	return t, ok
}

// A decimal is a decimal number: differences are exact to the last digit.
type decimal struct {
	value  float64
	places int // after the point
	known  bool
}

func (d *decimal) read(r *jsonscan.Reader) {
	text := bytes.Trim(r.Raw(), `"`)
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(0 <= value && value < 1e12) {
		return
	}
	*d = decimal{value: value, known: true, places: 17}
	if bytes.ContainsAny(text, "eE") {
		return
	}
	_, fraction, _ := bytes.Cut(text, []byte("."))
	d.places = min(len(fraction), 17)
}

func (d decimal) minus(e decimal) decimal {
	if !e.known {
		return d
	}
	d.places = max(d.places, e.places)
	d.value, _ = strconv.ParseFloat(strconv.FormatFloat(d.value-e.value, 'f', d.places, 64), 64)
	return d
}

// result appends the end of a run. A process may have several runs, but reports
// cost and models since the process began.
func (d *claudeDecoder) result(dst []Event) []Event {
	l, s := d.line, d.session(&d.line.Event)
	l.Failed = l.Failed || bytes.HasPrefix(l.subtype, []byte("error"))
	if l.Failed && l.Length == 0 && s.delegates() {
		return append(dst, l.Event) // Qwen Code writes a result for a sub-agent; the sub-agent's tool call will fail
	}
	used := l.usage
	if l.resultIndex < 0 { // then only the usage, with the sub-agents', shows another process
		used.add(&s.called)
	}
	total := l.total
	since, same := total.since(s.total, &used)
	if same && l.resultIndex != 0 {
		total = since
	}
	s.total = l.total
	if s.nested && total.usage.Known { // the run's own usage leaves sub-agents out
		l.usage = total.usage
	}
	if total.cost.known {
		l.usage.Cost, l.usage.CostKnown = total.cost.value, true
	}
	ev := &l.Event
	if l.usage.Known || l.usage.CostKnown {
		ev.Usage = d.settle(&l.usage)
	}
	ev.Kind, ev.Facts = RunEnd, l.facts
	status := enum(jsonscan.Unquote(l.subtype))
	if d.isAPIError(ev.Text) {
		ev.Failed = true
	}
	if ev.Failed {
		if len(ev.Text) == 0 {
			ev.Text = l.errorText
		}
		switch {
		case status != "" && status != "success":
			ev.Status = status
		case s.fault != "":
			ev.Status = s.fault
		case d.isAPIError(ev.Text):
			ev.Status = "api_error"
		default:
			ev.Status = semconv.ErrorOther
		}
	}
	s.nested, s.fault, s.called = false, "", Usage{}
	for id, a := range s.agents {
		if a.spent = (Usage{}); id == "" || a.over {
			delete(s.agents, id)
		}
	}
	return append(dst, *ev)
}
