package mapping

import "github.com/spantee/spantee/mapping/agent"

// A moment is an instant and how it is known. A clock makes moments from an event: run.place that of
// its line, run.stated those of other times that it has. The others are computed from these: by
// the functions here, and where nobody knows when a run began (begin.go). A span is marked as
// estimated if one of its two moments is inferred, and for no other reason (span.encode). A moment
// is inferred
//
//   - if the agent's decoder says so of an event (Event.Known),
//   - if the clock cannot know it, see the table at clock,
//   - if the order of events has moved it far (movedTo),
//   - if it was chosen between two others (between), or
//   - if it only says what a line allows: whoever calls inferred has the reason beside it.
//
// A new source of a start is a time that the agent's decoder (agent/AGENT.go) reads into an
// [agent.Event]: Start at the end of a call (toolEnd, toolCall), at a request (asks) or at a text,
// of which it is the first chunk (message); or the Length of a call. The line that only says that a
// call has begun has Time for it.
type moment struct {
	at    instant
	known agent.Known
}

// The words for how a moment is known.
const (
	stated   = "stated"   // by the agent's own clock
	printed  = "printed"  // as its line was
	inferred = "inferred" // not
)

// word says how a moment is known.
func (m moment) word() string {
	switch m.known {
	case agent.Stated:
		return stated
	case agent.Inferred:
		return inferred
	}
	return printed
}

// isZero reports whether there is no moment.
func (m moment) isZero() bool { return m.at == 0 }

// later returns the later of two moments, the first one if they are at the same instant.
func later(a, b moment) moment {
	if b.at > a.at {
		return b
	}
	return a
}

// earlier returns the earlier of two moments, the first one if they are at the same instant.
func earlier(a, b moment) moment {
	if b.at < a.at {
		return b
	}
	return a
}

// minus returns the moment that lies a length, which the agent states, before m.
func (m moment) minus(length instant) moment { return moment{quantize(m.at - length), m.known} }

// plus returns the moment that lies a length, which the agent states, after m.
func (m moment) plus(length instant) moment { return m.minus(-length) }

// movedTo returns m at the instant to which the order of events moves it. If that is far,
// nobody knows the moment any more.
func (m moment) movedTo(at instant) moment {
	if off := at - m.at; max(off, -off) > maxDeviation {
		m.known = agent.Inferred
	}
	m.at = at
	return m
}

// maxDeviation is how far a moment may be moved and still be known.
const maxDeviation = 60 * agent.Milliseconds

// notBefore returns m, moved if it lies before an instant.
func (m moment) notBefore(at instant) moment { return m.movedTo(max(m.at, at)) }

// notAfter returns m, moved if it lies after an instant.
func (m moment) notAfter(at instant) moment { return m.movedTo(min(m.at, at)) }

// between returns the moment in the middle of the time from m to n, of which nobody knows
// when something happened in it.
func (m moment) between(n moment) moment {
	return moment{m.at + quantize((n.at-m.at)/2), agent.Inferred}
}

// atBest returns m, known no better than this.
func (m moment) atBest(known agent.Known) moment { return moment{m.at, max(m.known, known)} }

// inferred returns m, marked as a guess.
func (m moment) inferred() moment { return m.atBest(agent.Inferred) }
