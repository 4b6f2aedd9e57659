package mapping

import (
	"io"

	"github.com/spantee/spantee/mapping/content"
)

// A foreseen is what the lines of a run in a recording say of the run's beginning or, without
// timestamps, of all its times. It is known once the recording has been read.
type foreseen struct {
	session string
	first   instant // the first timestamp, 0 if there is none
	from    instant // when the first line was printed
	start   instant // when the run began, which may be earlier
	spread  *spread // nil with timestamps
}

// A spread says when the lines of a run without timestamps were printed.
type spread struct {
	from  instant // the place of the run's first line
	at    instant // when that was printed
	scale float64 // from a distance of places to a time
}

// instant returns when the line at a place was printed.
func (p *spread) instant(place instant) instant {
	return quantize(p.at + instant(float64(place-p.from)*p.scale))
}

// Survey reads a recording ahead of its mapping, so that what a run's last line says of its
// beginning is known when its first line is mapped.
func (m *Mapper) Survey(r io.Reader) {
	m.survey(func(first *Mapper, found func(Output, error) bool) { first.read(r, found) })
}

func (m *Mapper) survey(read func(*Mapper, func(Output, error) bool)) {
	opts := m.opts
	opts.Content, opts.Deltas = content.None, DeltasOff
	first, err := New(opts)
	if err != nil {
		return // never: m has the same options
	}
	first.found = map[int]*foreseen{}
	read(first, func(Output, error) bool { return true }) // it has no outputs, and its errors come again
	first.Close(true)
	if m.foreseen = first.found; m.opts.EndNow && first.latest > 0 {
		m.shift = m.now - first.latest
	}
}

// surveyed notes what the lines of a run have said, if this is the first reading: they were
// printed between from and end.
func (r *run) surveyed(from, end, took instant) {
	s := r.stream
	if s.found == nil {
		return
	}
	f := &foreseen{session: r.session, first: r.clock.first, from: from, start: r.start.at}
	if !r.clock.stamped { // the run ended when its file was last written
		f.spread = r.stretch(from, end, took)
		f.from, f.start, end = f.spread.at, f.start+f.spread.at-from, s.written()
	}
	s.found[r.line], s.latest = f, max(s.latest, end)
}

// stretch spreads the lines of a run without timestamps over the time that it took.
func (r *run) stretch(from, end, took instant) *spread {
	p := &spread{from: r.clock.began, at: r.stream.written(), scale: 1}
	switch distance := r.stream.position - p.from; {
	case r.agent.Lengths: // which the distance does not contain
		p.at -= end - from
	case distance > 0:
		took = max(min(took, p.at), distance)
		p.at, p.scale = p.at-took, float64(took)/float64(distance)
	}
	return p
}
