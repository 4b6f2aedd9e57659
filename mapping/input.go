package mapping

import (
	"bytes"
	"iter"
	"slices"

	"github.com/spantee/spantee/mapping/agent"
)

// An Input is one of several files that a Mapper reads together, because a session may
// go on in another file than the one it began in: a sub-agent's, or a fork's. Sessions
// are the Mapper's, whichever file their lines are in. Lines of different files have to
// be mapped in the order of their timestamps.
type Input struct {
	Path string // of a session log

	mapper *Mapper
	number int // 0 for the stream
	lines  lines
	cut    cutLine
	detector
}

// Input returns a further input, for a session log.
func (m *Mapper) Input() *Input {
	in := &Input{mapper: m, number: m.numInputs}
	in.lines = lines{max: maxLine, line: in.mapLine}
	if a := agent.Find(m.opts.Agent); a != nil {
		in.given, in.current = true, m.decoderOf(a)
	}
	m.numInputs++
	m.inputs = append(m.inputs, in)
	return in
}

// Map maps the next bytes of the input, like [Mapper.Map].
func (in *Input) Map(p []byte) iter.Seq[Output] {
	m := in.mapper
	if !m.closed {
		m.tick()
		if m.stats.Lines == 0 && (bytes.HasPrefix(p, []byte("\xff\xfe")) || bytes.HasPrefix(p, []byte("\xfe\xff"))) {
			m.stats.UTF16 = true
		}
		in.lines.Write(p)
	}
	return m.outputs()
}

// Flush says that the input has not grown for a while: it maps what waits for the next
// line, such as the end of a run that no line reports.
func (in *Input) Flush() iter.Seq[Output] {
	if m := in.mapper; !m.closed {
		m.tick()
		in.flush()
	}
	return in.mapper.outputs()
}

// close ends the input. Runs that it leaves open may go on in other inputs.
func (in *Input) close() {
	m := in.mapper
	if i := slices.Index(m.inputs, in); i >= 0 && !m.closed {
		m.tick()
		in.end(false)
		m.inputs = slices.Delete(m.inputs, i, i+1)
	}
}

func (in *Input) end(interrupted bool) {
	m := in.mapper
	if !interrupted {
		in.lines.end()
		in.giveUp()
	}
	if m.stats.Lines == 1 && len(in.kept) == 1 {
		in.marks.Read(in.kept[0].Text)
		a := in.marks.Alone()
		if m.stats.HeaderOnly = a != nil && !m.opts.Printed; a != nil && m.opts.Printed {
			header := in.take()[0]
			m.decodeAs(m.decoderOf(a), header.Line, header.number)
		}
	}
	m.stats.Unidentified += in.unproven + len(in.take())
	in.flush()
}

func (in *Input) flush() {
	m := in.mapper
	for _, d := range m.decoders {
		m.events = d.Flush(in.number, m.events[:0])
		m.apply(d.Agent)
	}
}

// mapLine maps one line, or the head and tail of a line past the parse limit.
func (in *Input) mapLine(line, tail []byte) {
	m := in.mapper
	m.stats.Lines++
	if tail != nil {
		m.stats.Oversize++
	}
	if len(line) > 0 { // the events of a line with a prefix change it, see apply
		m.lastWords = m.lastWords[:0]
		if line[0] != '{' {
			m.lastWords = append(m.lastWords, line[:min(len(line), maxLastWords)]...)
		}
	}
	in.decodeWhole(agent.Line{Text: line, Tail: tail, Arrival: m.now, Input: in.number, Path: in.Path}, m.stats.Lines)
}
