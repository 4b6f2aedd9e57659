package mapping

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// A JoinedLog is the log that an agent keeps of a session while the session's stream is
// mapped. It adds the model, the settings, and the tokens of each model call. The stream
// alone says what happened, and when: a log that is missing, late or not understood takes
// nothing away.
type JoinedLog struct {
	Folder agent.Folders // the log is in the first one
	Name   string        // pattern of its path there, as of package path

	mapper  *Mapper
	session string
	decoder *agent.Decoder
	lines   lines
	rows    [][]byte    // that were written after the last piece of the stream came
	start   agent.Event // of a run, until the stream has begun it
}

// maxJoinedRow is the size of the longest row that is read. Those about models and tokens
// have a few hundred bytes.
const maxJoinedRow = 1 << 20

// JoinLog returns the log of a session in the stream, nil if it would add nothing. Rows
// that were written before since are ignored.
func (m *Mapper) JoinLog(session string, since time.Time) *JoinedLog {
	s := m.sessions.byID[session]
	if s == nil || s.agent.Joined == nil || !isPlainID(session) {
		return nil
	}
	folder := s.agent.Joined.Folders
	j := &JoinedLog{
		Folder: folder, Name: fmt.Sprintf(folder.LogOf, session),
		mapper: m, session: session, decoder: m.decoderOf(s.agent).JoinLog(session, instant(since.UnixNano())),
	}
	j.lines = lines{max: maxJoinedRow, line: j.takeRow}
	return j
}

// isPlainID reports whether a pattern matches no other id than this one.
func isPlainID(id string) bool {
	for _, c := range []byte(id) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(id) >= leastID
}

// Map maps the next bytes of the log, but no row that was written after the current time.
// Call it before each piece of the stream, with the time when that piece came.
func (j *JoinedLog) Map(p []byte) iter.Seq[Output] {
	m := j.mapper
	if !m.closed {
		m.tick()
		_, _ = j.lines.Write(p)
		for len(j.rows) > 0 && agent.RowTime(j.rows[0]) <= m.now {
			j.decode(j.rows[0])
			j.rows = j.rows[1:]
		}
		if r := j.run(); r != nil && !r.joined && j.start.Kind == agent.RunStart {
			r.joinStart(&j.start)
			j.start = agent.Event{}
		}
	}
	return m.outputs()
}

// Ahead reports whether rows wait for the stream.
func (j *JoinedLog) Ahead() bool { return len(j.rows) > 0 }

func (j *JoinedLog) takeRow(row, tail []byte) {
	if tail == nil {
		j.rows = append(j.rows, bytes.Clone(row))
	}
}

// run returns the run that is open, nil if none is.
func (j *JoinedLog) run() *run {
	if s := j.mapper.sessions.byID[j.session]; s != nil {
		return s.run
	}
	return nil
}

func (j *JoinedLog) decode(row []byte) {
	m := j.mapper
	m.events = j.decoder.Decode(agent.Line{Text: row, Arrival: m.now}, m.events[:0])
	for i := range m.events {
		switch ev := &m.events[i]; ev.Kind {
		case agent.RunStart:
			j.start = ev.Kept()
		case agent.TurnEnd:
			if r := j.run(); r != nil && ev.Time >= r.start {
				r.addLogged(ev.Usage, ev.Time)
			}
		}
	}
}
