package mapping

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
)

// A detector tells which agent a line comes from, by proof only. Hooks, wrappers
// and lone results print lines of their own, so lines that came before the
// first proof are kept until there is one.
type detector struct {
	sources  []*source
	current  *source // of the line before
	given    bool    // by Options.Agent
	kept     []keptLine
	size     int // of kept, in bytes
	unproven int // lines that were not kept
}

// A source is an agent that takes part in the stream.
type source struct {
	agent   *agent.Agent
	decoder agent.Decoder
}

type keptLine struct {
	agent.Line
	number int
}

// maxKept is how much of a stream is kept without knowing whose it is, in bytes.
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

// presumed is the agent to name as long as none is known.
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
func (d *detector) keep(line agent.Line, number int) {
	line.Text = append([]byte(nil), line.Text...)
	line.Tail = append([]byte(nil), line.Tail...)
	d.kept = append(d.kept, keptLine{line, number})
	for d.size += len(line.Text); d.size > maxKept; d.unproven++ {
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

// decode brings a line to the decoder of its agent, and before it the lines
// that were kept if it proves whose they are.
func (m *Mapper) decode(line agent.Line, number int) {
	d := &m.detector
	switch {
	case d.current == nil:
		m.detect(line, number)
	case d.given:
		m.decodeAs(d.current, line, number)
		m.apply(d.current.agent)
	default:
		m.decodeAs(d.current, line, number)
		if m.doubtful() && !m.reconsider(line, number) {
			return
		}
		m.apply(d.current.agent)
	}
}

// detect looks for the first proof.
func (m *Mapper) detect(line agent.Line, number int) {
	d := &m.detector
	found, foreign := agent.Detect(line.Text)
	switch {
	case len(bytes.TrimSpace(line.Text)) == 0:
	case foreign != "":
		m.stats.Foreign = foreign
		m.stats.Unproven++
	case found != nil:
		d.current = d.join(found)
		for _, k := range d.take() {
			m.decodeAs(d.current, k.Line, k.number)
			m.apply(found)
		}
		m.decodeAs(d.current, line, number)
		m.apply(found)
	case !agent.IsObject(line.Text):
		m.badLine(line, number)
	default:
		d.keep(line, number)
	}
}

// doubtful tells whether the events at hand may be another agent's: they begin
// something, belong to another agent's session, or make no sense.
func (m *Mapper) doubtful() bool {
	for i := range m.events {
		ev := &m.events[i]
		switch {
		case ev.Kind == agent.Unknown, ev.Kind == agent.RunStart, ev.Kind == agent.RunEnd:
			return true
		case len(ev.Session) > 0 && m.sessions.agentOf(ev.Session) != m.detector.current.agent:
			return true
		}
	}
	return false
}

// reconsider decodes a line again if it is another agent's. It returns false if
// the line is not to be used.
func (m *Mapper) reconsider(line agent.Line, number int) bool {
	d := &m.detector
	var found *agent.Agent
	for i := range m.events { // agents that print the same lines differ in their first one only
		ev := &m.events[i]
		if found == nil && len(ev.Session) > 0 && ev.Kind != agent.Unknown {
			found = m.sessions.agentOf(ev.Session)
		}
	}
	if found == nil {
		var foreign string
		if found, foreign = agent.Detect(line.Text); foreign != "" {
			m.stats.Foreign = foreign
			m.stats.Unproven++
			return false
		}
	}
	if found != nil && found != d.current.agent {
		d.current = d.join(found)
		m.decodeAs(d.current, line, number)
	}
	return true
}

// decodeAs makes a line the events at hand.
func (m *Mapper) decodeAs(source *source, line agent.Line, number int) {
	m.events = source.decoder.Decode(line, m.events[:0])
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
