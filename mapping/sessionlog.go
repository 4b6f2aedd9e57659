package mapping

import (
	"io/fs"
	"iter"
	"time"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// SessionLog returns where the agent of a session in the stream keeps the session's log, if
// that has what the stream lacks: the log is in the first of the folders, and pattern, as of
// package path, is of its path there. Otherwise, pattern is empty.
func (m *Mapper) SessionLog(session string) (folders agent.Folders, pattern string) {
	s := m.sessions.byID[session]
	if s == nil || !isPlainID(session) {
		return folders, ""
	}
	return s.agent.LogOf(session)
}

// complete adds to the end of a run, or of a call, what only the session's log has.
func (m *Mapper) complete(s *session, ev *agent.Event) {
	if ev.Kind != agent.RunEnd && ev.Kind != agent.ToolEnd || m.opts.ReadLog == nil || m.opts.Source != Pipe || s.run == nil {
		return
	}
	m.decoderOf(s.agent).Complete(ev, s.id, s.run.start.at, func(session string) []byte {
		if folders, pattern := s.agent.LogOf(session); pattern != "" && isPlainID(session) {
			return m.opts.ReadLog(folders, pattern)
		}
		return nil
	})
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

// Learn reads the model and the settings of a session from rows of its log, and reports
// whether they are there. The session's root and the chats that have not ended get them.
// Rows that were written before since are about earlier runs.
func (m *Mapper) Learn(session string, since time.Time, rows []byte) bool {
	s := m.sessions.byID[session]
	if m.closed || s == nil {
		return false
	}
	start, ok := m.decoderOf(s.agent).Learn(session, instant(since.UnixNano()), rows)
	if !ok {
		return false
	}
	s.logged = &start
	if s.run != nil {
		s.run.takeLogged(s.logged)
	}
	return true
}

// ReadLogs maps the logs of a group in the order of their rows' timestamps, and then closes
// the Mapper. A log that cannot be read comes with an [fs.PathError], and ends there.
func (m *Mapper) ReadLogs(logs []sessionlog.Log) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		if m.opts.EndNow { // else rows, which all have timestamps, are known as they come
			m.survey(func(first *Mapper, found func(Output, error) bool) { first.readLogs(logs, found) })
		}
		m.readLogs(logs, yield)
	}
}

func (m *Mapper) readLogs(logs []sessionlog.Log, yield func(Output, error) bool) {
	inputs := map[*sessionlog.Rows]*Input{}
	var all []*sessionlog.Rows
	for _, log := range logs {
		all = append(all, log.Rows())
	}
	for r := range sessionlog.Merge(all) {
		in := inputs[r]
		if in == nil {
			in = m.Input()
			in.Path = r.Path
			inputs[r] = in
		}
		if !r.AtEnd() {
			in.Map(r.Row)
		} else {
			in.close()
			delete(inputs, r)
		}
		if !m.yieldAll(yield) || r.Err() != nil && !yield(Output{}, &fs.PathError{Op: "read", Path: r.Path, Err: r.Err()}) {
			return
		}
	}
	m.Close(false)
	m.yieldAll(yield)
}
