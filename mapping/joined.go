package mapping

import (
	"bytes"
	"iter"
	"time"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// A Joined is the log that an agent keeps of a session while the session's stream is
// mapped. The log adds to the session's runs what the stream lacks. The stream alone says
// what happened, and when, so a log that is missing, late or not understood takes nothing
// away.
type Joined struct {
	Folders agent.Folders
	Name    string // pattern of its name in one of the folders, as of package path

	mapper  *Mapper
	decoder *agent.Decoder
	lines   lines
	rows    [][]byte // that were written after what has come of the stream
}

// Join returns the log of a session that the stream has begun, nil if there is none to
// join. Rows written before since are ignored.
func (m *Mapper) Join(session string, since time.Time) *Joined {
	s := m.sessions.byID[session]
	if s == nil || s.agent.Joined == nil || !isPlainID(session) {
		return nil
	}
	folders := s.agent.Joined.Folders
	j := &Joined{Folders: folders, Name: folders.Log(session), mapper: m, decoder: m.sourceOf(s.agent).decoder.Join(instant(since.UnixNano()))}
	j.lines = lines{max: maxLine, line: j.takeLine}
	return j
}

// isPlainID reports whether an id stands for itself in a pattern.
func isPlainID(id string) bool {
	for _, c := range []byte(id) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(id) >= leastID
}

// Map maps the next bytes of the log, up to the current time: call it before a piece of the
// stream is mapped, with the time when that piece came.
func (j *Joined) Map(p []byte) iter.Seq[Output] {
	m := j.mapper
	if !m.closed {
		m.tick()
		_, _ = j.lines.Write(p)
		for len(j.rows) > 0 && agent.RowTime(j.rows[0]) <= m.now {
			j.decode(j.rows[0])
			j.rows = j.rows[1:]
		}
	}
	return m.outputs()
}

// Ahead reports whether rows wait for the stream.
func (j *Joined) Ahead() bool { return len(j.rows) > 0 }

// takeLine keeps a row. Those with what the stream lacks are short.
func (j *Joined) takeLine(row, tail []byte) {
	if tail == nil {
		j.rows = append(j.rows, bytes.Clone(row))
	}
}

func (j *Joined) decode(row []byte) {
	m := j.mapper
	m.events = j.decoder.Decode(agent.Line{Text: row, Arrival: m.now}, m.events[:0])
	for i := range m.events {
		ev := &m.events[i]
		if s := m.sessions.byID[string(ev.Session)]; s != nil && s.run != nil {
			s.run.learn(ev)
		}
	}
}

// learn adds what a joined log says. Its times are on the clock by which a live stream's
// lines arrive.
func (r *run) learn(ev *agent.Event) {
	if ev.Kind == agent.RunStart {
		r.joined = true
		r.main.model = r.stream.names.pass(string(ev.Model))
		r.takeFacts(ev.Facts)
		r.takeFacts([]agent.Fact{{Key: semconv.SessionLog, Kind: agent.FactBool, Int: 1}})
		return
	}
	inv, at := r.main, min(quantize(ev.Time), r.stream.now)
	if !r.joined || inv.turn != nil && at <= inv.turn.start {
		return
	}
	if inv.turn == nil && inv.caller == nil {
		r.openTurn(inv, at, nil) // the stream does not show what the call produced
	}
	ev.Final = inv.turn != nil
	r.turnEnd(inv, at, ev)
}

// addRest gives the model call that is open at the end of a joined run what is left of the
// run's usage: the log may be behind the stream.
func (r *run) addRest(total *agent.Usage) {
	t := r.main.turn
	if t == nil || !r.joined || !r.usage.Known || total == nil || t.response.usage.Known {
		return
	}
	rest := *total
	rest.Sub(&r.usage)
	if min(rest.Input, rest.Output, rest.CacheRead, rest.CacheWrite) >= 0 {
		t.response.usage = rest
	}
}
