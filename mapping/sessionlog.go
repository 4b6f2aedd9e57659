package mapping

import (
	"fmt"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// SessionLog returns where the agent of a session in the stream keeps the session's log, if
// that has what the stream lacks: the log is in the first of the folders, and pattern, as of
// package path, is of its path there. Otherwise, pattern is empty.
func (m *Mapper) SessionLog(session string) (folders agent.Folders, pattern string) {
	s := m.sessions.byID[session]
	if s == nil || s.agent.Joined == nil || !isPlainID(session) {
		return folders, ""
	}
	folders = s.agent.Joined.Folders
	return folders, fmt.Sprintf(folders.LogOf, session)
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
