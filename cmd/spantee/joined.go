package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/mapping"
)

// A joinedLog reads the log that an agent keeps of the session in the pipe, because the log
// has what the stream lacks.
type joinedLog struct {
	session  string             // that began last
	log      *mapping.JoinedLog // nil if the session's log adds nothing
	searches int                // that are left
	file     *os.File           // nil until it is found
	buf      []byte
}

const (
	// maxSearches is how often a log is searched for, once a second: an agent begins it
	// only when it works.
	maxSearches = 10

	// logAhead is how long before the first line of a stream the log of its run may begin.
	logAhead = 2 * time.Second

	// maxCatchUp is how long a piece of the stream waits for a log that has much to read.
	maxCatchUp = 250 * time.Millisecond
)

// newJoinedLog returns nil if no log may be read.
func (t *tracing) newJoinedLog() *joinedLog {
	if !t.to.Live || t.noSessionLog {
		return nil
	}
	return &joinedLog{buf: make([]byte, tracer.MaxPiece)}
}

// follow begins to read the log of the session that began last.
func (l *joinedLog) follow(m *mapping.Mapper, arrived time.Time) {
	if l == nil || m.Stats().Session == l.session {
		return
	}
	l.close()
	l.session = m.Stats().Session
	l.log, l.searches = m.JoinLog(l.session, arrived.Add(-logAhead)), maxSearches
	l.search()
}

// search is called every second.
func (l *joinedLog) search() {
	if l != nil && l.log != nil && l.file == nil && l.searches > 0 {
		l.file = findLog(l.log)
		l.searches--
	}
}

func (l *joinedLog) close() {
	if l != nil && l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// take maps the rows that were written before a piece of the stream came. A disk that hangs
// stops the agent, too.
func (l *joinedLog) take(to *tracer.Stream, arrived time.Time) {
	if l == nil || l.file == nil {
		return
	}
	if l.log.Ahead() {
		to.WriteLog(l.log, nil, arrived)
	}
	for began := time.Now(); !l.log.Ahead() && time.Since(began) < maxCatchUp; {
		n, _ := l.file.Read(l.buf) // a log may grow after io.EOF
		if n == 0 {
			return
		}
		to.WriteLog(l.log, l.buf[:n], arrived)
	}
}

// findLog opens a log, and returns nil if it is not there. Links out of the agent's folder
// are not followed.
func findLog(log *mapping.JoinedLog) *os.File {
	folders := agentFolders(log.Folder)
	if len(folders) == 0 {
		return nil
	}
	root, err := os.OpenRoot(folders[0])
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	found, _ := fs.Glob(root.FS(), log.Name)
	for _, path := range found {
		if info, err := root.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if file, err := root.Open(filepath.FromSlash(path)); err == nil {
			return file
		}
	}
	return nil
}
