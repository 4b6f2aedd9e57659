package mapping

import (
	"bytes"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
)

// A detector decides which agent a line comes from. The proof is the line itself, or
// another line of its session. Lines that prove nothing are kept until there is proof,
// because hooks, wrappers and other programs print JSON lines, too, and some agents
// begin with a line that another program could have printed.
type detector struct {
	current  *agent.Decoder // of the line before
	given    bool           // by Options.Agent, or by the first lines of a session log
	named    bool           // the line before names its session
	marks    agent.Marks    // of the current line
	foreign  *agent.Foreign // of the line before, nil if it is an agent's or nobody's
	kept     []keptLine
	size     int // of kept, in bytes
	unproven int // lines without proof that were not kept
}

type keptLine struct {
	agent.Line
	past   bool // older than the latest run of its agent
	number int
}

// maxKept is how many bytes of a stream are kept while its agent is unknown.
const maxKept = 1 << 20

// decoderOf returns the decoder of an agent, which all inputs share.
func (m *Mapper) decoderOf(a *agent.Agent) *agent.Decoder {
	for _, d := range m.decoders {
		if d.Agent == a {
			return d
		}
	}
	d := a.New()
	if p := m.opts.Process; p != nil {
		d.Started(m.began, p.Resumes)
	}
	m.decoders = append(m.decoders, d)
	return d
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

// decode passes a line to the decoder of its agent, which it decides first: a decoder
// remembers what it reads. A line is an agent's if it names a session of the agent, if it
// is proof of the agent, or if the agent has an open run and prints such lines. Any other
// line is only counted.
func (in *Input) decode(line agent.Line, number int) {
	m, d := in.mapper, &in.detector
	if d.given || len(d.kept) == 0 && d.current != nil && m.sessions.lastOf[d.current.Agent].isNamedBy(line) {
		d.named = true
		m.decodeAs(d.current, line, number)
		return
	}
	d.marks.Read(line.Text)
	found, foreign := in.identify()
	d.foreign = foreign
	working := m.working(d.current)
	switch {
	case found != nil:
		d.named = d.marks.Session != ""
		in.switchTo(found)
		m.decodeAs(d.current, line, number)
	case foreign != nil:
		m.stats.Foreign = foreign.Name
		m.stats.Unidentified++
	case len(bytes.TrimSpace(line.Text)) == 0:
	case !agent.IsObject(line.Text):
		if working == nil {
			m.badLine(number)
			return
		}
		m.decodeAs(d.current, line, number)
	case working != nil && d.marks.Broken:
		m.badLine(number)
	case d.marks.Session != "" || d.marks.Begins() || d.marks.OfAny():
		d.keep(keptLine{Line: line, number: number})
	case working != nil && !d.named && d.marks.Type() != "":
		m.unknown(d.current.Agent, working.run, d.marks.Type())
	default:
		m.stats.Unidentified++
	}
}

// identify returns the agent that the current line belongs to, or the foreign kind that it belongs to.
func (in *Input) identify() (found *agent.Agent, foreign *agent.Foreign) {
	m, d := in.mapper, &in.detector
	if d.marks.Session != "" {
		found = m.sessions.agentOf([]byte(d.marks.Session)) // agents with the same lines differ only in the first one
	}
	if found == nil {
		found, foreign = d.marks.Agent(d.foreign)
	}
	if found != nil || foreign != nil || d.marks.Session != "" || d.marks.Begins() {
		return found, foreign
	}
	for _, s := range append([]*agent.Decoder{d.current}, m.decoders...) {
		if m.working(s) != nil && d.marks.OneOf(s.Agent) {
			return s.Agent, nil
		}
	}
	return nil, nil
}

// working returns the latest session in which the agent of a decoder, which may be nil, has an
// open run: nil if there is none.
func (m *Mapper) working(d *agent.Decoder) *session {
	for e := m.sessions.open.Front(); d != nil && e != nil; e = e.Next() {
		if s := e.Value.(*session); s.agent == d.Agent && s.run != nil {
			return s
		}
	}
	return nil
}

// switchTo makes an agent the current one, of which the current line is proof, and decodes the
// agent's lines among those that were kept. A line is the agent's if it has the session that the
// proof names. If the line or the proof names no session, the line is the agent's if it has one of
// the agent's shapes and comes no earlier than the first line of the run.
func (in *Input) switchTo(found *agent.Agent) {
	m, d := in.mapper, &in.detector
	d.current = m.decoderOf(found)
	d.given = d.given || in.number > 0 && found.Log // a file of its own has one agent's lines
	if len(d.kept) == 0 {
		return
	}
	var own, others []keptLine // the latest first
	session, begun := d.marks.Session, d.marks.Begins()
	for _, k := range slices.Backward(d.take()) {
		d.marks.Read(k.Text)
		switch shaped := d.marks.OneOf(found); {
		case d.marks.Session != "" && d.marks.Session == session:
			own, begun = append(own, k), begun || d.marks.Begins()
		case shaped && !begun && !k.past && (d.marks.Session == "" || session == ""):
			own, begun = append(own, k), d.marks.Begins()
		default:
			k.past = k.past || shaped && begun
			others = append(others, k)
		}
	}
	for _, k := range slices.Backward(others) {
		d.keep(k)
	}
	for _, k := range slices.Backward(own) {
		m.decodeAs(d.current, k.Line, k.number)
	}
}

// decodeAs decodes a line, and applies its events.
func (m *Mapper) decodeAs(d *agent.Decoder, line agent.Line, number int) {
	m.number = number
	if m.opts.Source != Pipe {
		line.Arrival, line.Recorded = m.position+quantum, true
	}
	m.events = d.Decode(line, m.events[:0])
	m.apply(d.Agent)
}

// badLine counts a line that is not JSON, or has no type.
func (m *Mapper) badLine(number int) {
	if m.stats.BadLines++; m.stats.BadLines == 1 {
		m.stats.FirstBad = number
	}
}
