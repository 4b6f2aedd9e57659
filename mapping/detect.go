package mapping

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
)

// A detector tells which agent a line comes from. The proof is the line itself, or
// another line of its session. Lines that prove nothing are kept until there is proof,
// because hooks, wrappers and other programs print JSON lines, too, and some agents
// begin with a line that another program could have printed.
type detector struct {
	sources  []*source
	current  *source     // of the line before
	given    bool        // by Options.Agent
	marks    agent.Marks // of the current line
	kept     []keptLine
	size     int // of kept, in bytes
	unproven int // lines without proof that were not kept
}

// A source is an agent that takes part in the stream.
type source struct {
	agent   *agent.Agent
	decoder agent.Decoder
}

type keptLine struct {
	agent.Line
	session string
	begins  bool // it is the first line of a run
	past    bool // another run of its agent has begun since
	number  int
}

// maxKept is how many bytes of a stream are kept while its agent is unknown.
const maxKept = 1 << 20

func newDetector(flag string) (d detector, err error) {
	if flag == "" {
		return d, nil
	}
	a := agent.Find(flag)
	if a == nil {
		return d, fmt.Errorf("unknown agent %q (supported: %s)", flag, strings.Join(agent.Flags(), ", "))
	}
	d.given = true
	d.current = d.join(a)
	return d, nil
}

// presumed returns the agent to name while none is known.
func (d *detector) presumed() *agent.Agent {
	if d.current != nil {
		return d.current.agent
	}
	return agent.Agents[0]
}

func (d *detector) join(a *agent.Agent) *source {
	for _, s := range d.sources {
		if s.agent == a {
			return s
		}
	}
	s := &source{a, a.New()}
	d.sources = append(d.sources, s)
	return s
}

// keep keeps a line that proves nothing.
func (d *detector) keep(k keptLine) {
	k.Text, k.Tail = bytes.Clone(k.Text), bytes.Clone(k.Tail)
	d.kept = append(d.kept, k)
	for d.size += len(k.Text); d.size > maxKept; d.unproven++ {
		d.size -= len(d.kept[0].Text)
		d.kept = d.kept[1:]
	}
}

// take returns the lines that were kept.
func (d *detector) take() []keptLine {
	kept := d.kept
	d.kept, d.size = nil, 0
	return kept
}

// decode passes a line to the decoder of its agent. While the stream has one agent, and
// that agent has an open run, its decoder gets every line that cannot begin a run. Only
// if the resulting events are doubtful is the line searched for another program's marks.
func (m *Mapper) decode(text agent.Line, number int) {
	d := &m.detector
	decoded := d.given || len(d.sources) == 1 && len(d.kept) == 0 && m.working(d.current) && !agent.MayBegin(text.Text)
	if decoded {
		m.decodeAs(d.current, text, number)
		if d.given || !m.doubtful() {
			m.apply(d.current.agent)
			return
		}
	}
	d.marks.Read(text.Text)
	line := keptLine{Line: text, session: d.marks.Session, begins: d.marks.Begins(), number: number}
	var found *agent.Agent
	var foreign string
	if line.session != "" {
		found = m.sessions.agentOf([]byte(line.session)) // agents with the same lines differ only in the first one
	}
	if found == nil {
		found, foreign = d.marks.Agent()
	}
	switch {
	case foreign != "":
		m.stats.Foreign = foreign
		m.stats.Unidentified++
	case found != nil:
		if !decoded || d.current.agent != found {
			m.release(found, line)
			m.decodeAs(d.current, text, number)
		}
		m.apply(found)
	case len(bytes.TrimSpace(text.Text)) == 0:
	case !agent.IsObject(text.Text):
		if d.current == nil || !m.working(d.current) {
			m.badLine(number)
			return
		}
		m.decodeAs(d.current, text, number)
		m.apply(d.current.agent)
	case line.session == "" && !line.begins && m.presume(line, decoded):
	case line.session != "" || d.marks.OfAny():
		d.keep(line)
	default:
		m.stats.Unidentified++
	}
}

// working reports whether an agent has an open run.
func (m *Mapper) working(s *source) bool {
	last := m.sessions.last[s.agent]
	return last != nil && last.run != nil
}

// doubtful reports whether the current events may be another program's: they begin
// or end something, are not of the agent's sessions, or say nothing.
func (m *Mapper) doubtful() bool {
	a := m.detector.current.agent
	for i := range m.events {
		ev := &m.events[i]
		switch ev.Kind {
		case agent.SessionNamed:
			return false // the run that began with the line before has another id
		case agent.Malformed, agent.Unknown, agent.Ignored, agent.RunStart, agent.RunEnd, agent.RunError:
			return true
		case agent.Notice:
			if ev.Notice == "" {
				return true
			}
		}
		if len(ev.Session) > 0 && m.sessions.agentOf(ev.Session) != a || len(ev.Session) == 0 && !a.Nameless {
			return true
		}
	}
	return false
}

// senseless reports whether the current events are of a line that their agent does not
// print.
func (m *Mapper) senseless() bool {
	return len(m.events) > 0 && !slices.ContainsFunc(m.events, func(ev agent.Event) bool { return ev.Kind != agent.Unknown && ev.Kind != agent.Malformed })
}

// release makes an agent the current one, and decodes the agent's lines among those that
// were kept. A line is the agent's if it has the session that the proof names. If the
// line or the proof names no session, the line is the agent's if it has one of the
// agent's shapes and comes no earlier than the first line of the run.
func (m *Mapper) release(found *agent.Agent, proof keptLine) {
	d := &m.detector
	d.current = d.join(found)
	if len(d.kept) == 0 {
		return
	}
	var own, others []keptLine // the latest first
	begun := proof.begins
	for _, k := range slices.Backward(d.take()) {
		d.marks.Read(k.Text)
		switch print := d.marks.OneOf(found); {
		case k.session != "" && k.session == proof.session:
			own, begun = append(own, k), begun || k.begins
		case print && !begun && !k.past && (k.session == "" || proof.session == ""):
			own, begun = append(own, k), k.begins
		default:
			k.past = k.past || print && begun
			others = append(others, k)
		}
	}
	for _, k := range slices.Backward(others) {
		d.keep(k)
	}
	for _, k := range slices.Backward(own) {
		m.decodeAs(d.current, k.Line, k.number)
		m.apply(found)
	}
}

// presume attributes a line that proves nothing and names no session to an agent that has
// an open run and whose decoder knows the line: first to an agent that prints such lines,
// otherwise to an agent whose lines name no session. A line that no decoder knows is only
// counted. If no run is open, a known line may belong to the next run: then presume
// returns false.
func (m *Mapper) presume(line keptLine, decoded bool) bool {
	d := &m.detector
	before := d.current
	if before == nil {
		return false
	}
	sources := append([]*source{before}, d.sources...)
	for _, likely := range []func(*agent.Agent) bool{d.marks.OneOf, func(a *agent.Agent) bool { return a.Nameless }} {
		for _, s := range sources {
			if !m.working(s) || !likely(s.agent) {
				continue
			}
			if !decoded || s != before {
				m.decodeAs(s, line.Line, line.number)
			}
			if !m.senseless() {
				d.current = s
				m.apply(s.agent)
				return true
			}
		}
	}
	if d.marks.OneOf(before.agent) {
		return false
	}
	m.decodeAs(before, line.Line, line.number)
	if !m.senseless() || m.events[0].Kind == agent.Malformed && (!m.working(before) || before.agent.EndsAtEOF) {
		return false
	}
	m.apply(before.agent)
	return true
}

// settle counts the lines that are still kept at the end.
func (m *Mapper) settle() { m.stats.Unidentified += m.detector.unproven + len(m.detector.take()) }

// decodeAs decodes a line into m.events.
func (m *Mapper) decodeAs(source *source, line agent.Line, number int) {
	m.number = number
	m.events = source.decoder.Decode(line, m.events[:0])
}

// badLine counts a line that is not JSON, or has no type.
func (m *Mapper) badLine(number int) {
	if m.stats.BadLines++; m.stats.BadLines == 1 {
		m.stats.FirstBad = number
	}
}
