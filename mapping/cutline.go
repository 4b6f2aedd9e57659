package mapping

import (
	"bytes"

	"github.com/spantee/spantee/mapping/agent"
)

// A cutLine is an event that ended inside a string, because something on its way wrote a line
// break of a text as it is, not as \n. It waits for the lines that have the rest.
type cutLine struct {
	text   []byte
	lines  []keptLine // as they came, nil if no event waits
	nested nesting
}

// maxCutLine is how long an event may be that is put together.
const maxCutLine = 1 << 20

// beginsEvent reports whether a line begins as an event does.
func beginsEvent(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, space), []byte(`{"`)) }

// decodeWhole decodes a line, or the event that it completes. A line of an agent at work that
// ends inside a string waits for the next one.
func (in *Input) decodeWhole(line agent.Line, number int) {
	m, cut := in.mapper, &in.cut
	if len(cut.lines) > 0 && (beginsEvent(line.Text) || line.Tail != nil || len(cut.text)+len(line.Text) > maxCutLine) {
		in.giveUp()
	}
	if len(cut.lines) > 0 {
		cut.add(line, number)
		switch n := cut.nested; {
		case n.inString:
		case n.depth == 0:
			whole, first := agent.Line{Text: cut.text, Arrival: line.Arrival, Input: line.Input}, cut.lines[0].number
			bad, before := m.stats.BadLines, m.stats.FirstBad
			if in.decode(whole, first); m.stats.BadLines > bad { // it was none
				m.stats.BadLines, m.stats.FirstBad = bad, before
				in.giveUp()
			}
			*cut = cutLine{}
		default:
			in.giveUp()
		}
		return
	}
	bad, before := m.stats.BadLines, m.stats.FirstBad
	if in.decode(line, number); m.stats.BadLines == bad {
		return
	}
	if cut.add(line, number); line.Tail == nil && m.working(in.current) != nil && beginsEvent(line.Text) && cut.nested.inString {
		m.stats.BadLines, m.stats.FirstBad = bad, before
		return
	}
	*cut = cutLine{}
	in.doubtLine(line)
}

// add adds a line to an event. The line break is part of a string.
func (c *cutLine) add(line agent.Line, number int) {
	c.lines = append(c.lines, keptLine{Line: agent.Line{Text: bytes.Clone(line.Text)}, number: number})
	if len(c.text) > 0 {
		c.text = append(c.text, `\n`...)
	}
	text := bytes.TrimSuffix(line.Text, []byte{'\r'})
	for _, b := range text {
		c.nested.read(b)
	}
	c.text = append(c.text, text...)
}

// giveUp counts the lines of an event that is not whole.
func (in *Input) giveUp() {
	lines := in.cut.lines
	in.cut = cutLine{}
	for _, k := range lines {
		if len(bytes.TrimSpace(k.Text)) > 0 {
			in.mapper.badLine(k.number)
			in.doubtLine(k.Line)
		}
	}
}

// doubtLine counts a line that is not JSON if it begins or ends as the events of the run do: it
// is a part of one.
func (in *Input) doubtLine(line agent.Line) {
	s := in.mapper.working(in.current)
	if s == nil {
		return
	}
	ends := bytes.HasSuffix(bytes.TrimRight(line.Text, space), []byte("}")) && s.isNamedBy(line)
	if beginsEvent(line.Text) || ends {
		s.run.doubts.Cut++
	}
}
