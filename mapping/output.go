package mapping

import (
	"errors"
	"io"
	"iter"
)

// An Output is a finished span, or says that a run has started.
type Output struct {
	// Span is the wire encoding of an opentelemetry.proto.trace.v1.Span, nil if a run has
	// started. It is valid until the next Output.
	Span  []byte
	Agent string // the name of its agent, which is the service's

	Started *Run // a run whose trace id is known from now on
	Ended   *Run // the run whose root Span is
}

// A result is an Output whose span is encoded when its turn comes: a recording may
// release all its spans at once.
type result struct {
	run            *run
	span           *span
	started, ended *Run
}

// outputs are what was mapped and not taken yet.
func (m *Mapper) outputs() iter.Seq[Output] {
	return func(yield func(Output) bool) {
		for len(m.results) > 0 {
			r := m.results[0]
			m.results[0] = result{}
			m.results = m.results[1:]
			out := Output{Started: r.started, Ended: r.ended}
			if r.span != nil {
				m.wire = r.run.encode(m.wire[:0], r.span)
				out.Span, out.Agent = m.wire, r.run.agent.Name
			}
			if !yield(out) {
				return
			}
		}
		m.results = nil
	}
}

// Read maps all that r has, and then closes the Mapper. If r fails, the last Output comes
// with its error, and the Mapper stays open.
func (m *Mapper) Read(r io.Reader) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		taken := func(outputs iter.Seq[Output]) bool {
			for out := range outputs {
				if !yield(out, nil) {
					return false
				}
			}
			return true
		}
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Read(buf)
			if !taken(m.Map(buf[:n])) {
				return
			}
			switch {
			case errors.Is(err, io.EOF):
				taken(m.Close(false))
				return
			case err != nil:
				yield(Output{}, err)
				return
			}
		}
	}
}
