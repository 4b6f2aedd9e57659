package mapping

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
)

// A detector tells which agent a line comes from, by proof only. Hooks, wrappers
// and lone results print lines of their own, and some agents begin with a line
// that another could have printed, so lines that prove nothing are kept until
// there is proof.
type detector struct {
	sources  []*source
	current  *source // of the line before
	given    bool    // by Options.Agent
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

// follows tells whether a line that proves nothing belongs to lines that were
// kept: it is of the same session, or the next one.
func (d *detector) follows(line keptLine) bool {
	if n := len(d.kept); n > 0 && line.session == "" {
		return d.kept[n-1].number == line.number-1
	}
	return slices.ContainsFunc(d.kept, func(k keptLine) bool { return k.session == line.session })
}

// decode brings a line to the decoder of its agent. As long as there is but one
// in the stream it gets every line that begins nothing, and only those of which
// it makes little are looked at for the marks of another.
func (m *Mapper) decode(text agent.Line, number int) {
	d := &m.detector
	decoded := d.given || len(d.sources) == 1 && len(d.kept) == 0 && !agent.MayBegin(text.Text)
	if decoded {
		m.decodeAs(d.current, text, number)
		if len(m.events) == 1 && m.goesOn(d.current.agent, &m.events[0]) {
			return
		}
		if d.given || !m.doubtful() {
			m.apply(d.current.agent)
			return
		}
	}
	marks := agent.ReadMarks(text.Text)
	line := keptLine{text, marks.Session, number}
	found, foreign := marks.Agent()
	if owner := m.sessions.agentOf([]byte(line.session)); owner != nil && line.session != "" {
		found, foreign = owner, "" // agents with the same lines differ only in the first one
	}
	switch {
	case foreign != "":
		m.stats.Foreign = foreign
		m.stats.Unidentified++
	case found != nil:
		if !decoded || d.current.agent != found {
			m.release(found, line.session)
			m.decodeAs(d.current, text, number)
		}
		m.apply(found)
	case d.current != nil && !d.follows(line):
		if !decoded {
			d.current = m.likely(line.session)
			m.decodeAs(d.current, text, number)
		}
		m.presume(line)
	case len(bytes.TrimSpace(text.Text)) == 0:
	case !agent.IsObject(text.Text):
		m.badLine(text, number)
	default:
		d.keep(line)
	}
}

// doubtful tells whether the events at hand may be another agent's: they begin
// or end something, belong to another agent's session, or say nothing.
func (m *Mapper) doubtful() bool {
	for i := range m.events {
		ev := &m.events[i]
		switch ev.Kind {
		case agent.Unknown, agent.Ignored, agent.RunStart, agent.RunEnd, agent.RunError:
			return true
		case agent.Notice:
			if ev.Notice == "" {
				return true
			}
		}
		if len(ev.Session) > 0 && m.sessions.agentOf(ev.Session) != m.detector.current.agent {
			return true
		}
	}
	return false
}

// senseless tells whether the events at hand are of a line that their agent does
// not print.
func (m *Mapper) senseless() bool {
	return len(m.events) > 0 && !slices.ContainsFunc(m.events, func(ev agent.Event) bool { return ev.Kind != agent.Unknown })
}

// release makes an agent the current one, and decodes the lines that were kept
// and are its own: all but those of another session.
func (m *Mapper) release(found *agent.Agent, session string) {
	d := &m.detector
	d.current = d.join(found)
	for _, k := range d.take() {
		named := k.session != ""
		if named && session != "" && k.session != session {
			d.keep(k)
			continue
		}
		m.decodeAs(d.current, k.Line, k.number)
		if named && session == "" && m.senseless() {
			d.keep(k)
			continue
		}
		m.apply(found)
	}
}

// likely is whose a line is that proves nothing: the agent's of the line before,
// unless that one is done or names the session in its lines, and another one at
// work does not.
func (m *Mapper) likely(session string) *source {
	likely, best := m.detector.current, 0
	for _, s := range append([]*source{likely}, m.detector.sources...) {
		rank := 0
		if last := m.sessions.last[s.agent]; last != nil && last.run != nil {
			rank = 1
			if session == "" && s.agent.Nameless {
				rank = 2
			}
		}
		if rank > best {
			likely, best = s, rank
		}
	}
	return likely
}

// presume takes a line that proves nothing for one of the current agent's, as
// which it was decoded, unless it makes sense to another one only, or
// begins a session that may be anybody's.
func (m *Mapper) presume(line keptLine) {
	d := &m.detector
	for _, ev := range m.events {
		if ev.Kind == agent.RunStart && line.session != "" {
			d.keep(line)
			return
		}
	}
	if m.senseless() {
		before := d.current
		for _, s := range d.sources {
			if s == before {
				continue
			}
			if m.decodeAs(s, line.Line, line.number); !m.senseless() {
				d.current = s
				break
			}
		}
	}
	m.apply(d.current.agent)
}

// settle decodes the lines that are still kept at the end: if there was proof of
// an agent, they are its own.
func (m *Mapper) settle() {
	d := &m.detector
	m.stats.Unidentified += d.unproven
	for _, k := range d.take() {
		if d.current == nil {
			m.stats.Unidentified++
			continue
		}
		m.decodeAs(d.current, k.Line, k.number)
		m.apply(d.current.agent)
	}
}

// decodeAs decodes a line into m.events.
func (m *Mapper) decodeAs(source *source, line agent.Line, number int) {
	m.events = source.decoder.Decode(line, m.room[:0])
	if cap(m.events) > cap(m.room) {
		m.room = m.events
	}
	for i := range m.events {
		if m.events[i].Kind == agent.Malformed {
			m.badLine(line, number)
		}
	}
}

// badLine counts a line that is not JSON, or has no type.
func (m *Mapper) badLine(line agent.Line, number int) {
	if len(line.Text) == 0 {
		return
	}
	if m.stats.BadLines++; m.stats.BadLines == 1 {
		m.stats.FirstBad = number
	}
}
