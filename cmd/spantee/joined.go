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
// has what the stream lacks. The disk may hang, so a goroutine reads each log, and the
// mapper goes on without the log.
type joinedLog struct {
	patience time.Duration      // for all that is read before one piece of the stream
	session  string             // that began last
	log      *mapping.JoinedLog // nil if the session's log adds nothing
	disk     chan struct{}      // has room for one reader: each that hangs takes a thread

	asks   chan<- struct{} // asks what the log has grown by; closed when the log is no longer read
	grown  <-chan []byte   // the answers, each valid until the next question
	asked  bool            // a question has no answer yet
	inTime bool            // the last answer came in time
}

const (
	// maxPatience is how long the mapper waits for a log. After that, it takes only what has
	// been read, until there is an answer again.
	maxPatience = 250 * time.Millisecond
	minPatience = 20 * time.Millisecond // a local disk takes less

	// logAhead is how long before the first line of a stream the log of its run may begin.
	logAhead = 2 * time.Second
)

// newJoinedLog returns nil if no log may be read.
func (t *tracing) newJoinedLog() *joinedLog {
	if !t.to.Live || t.noSessionLog {
		return nil
	}
	return &joinedLog{patience: max(minPatience, min(maxPatience, t.flushTimeout/4)), disk: make(chan struct{}, 1)}
}

// follow begins to read the log of the session that began last.
func (l *joinedLog) follow(m *mapping.Mapper, arrived time.Time) {
	if l == nil || m.Stats().Session == l.session {
		return
	}
	l.close()
	l.session = m.Stats().Session
	if l.log = m.JoinLog(l.session, arrived.Add(-logAhead)); l.log == nil {
		return
	}
	asks, grown := make(chan struct{}, 1), make(chan []byte, 1)
	l.asks, l.grown, l.asked, l.inTime = asks, grown, true, false
	go readLog(l.log, l.disk, asks, grown)
}

func (l *joinedLog) close() {
	if l != nil && l.log != nil {
		close(l.asks)
		l.log = nil
	}
}

// take maps the rows that were written before a piece of the stream came.
func (l *joinedLog) take(to *tracer.Stream, arrived time.Time) {
	if l == nil || l.log == nil {
		return
	}
	if l.log.Ahead() {
		to.WriteLog(l.log, nil, arrived)
	}
	deadline := time.NewTimer(l.patience)
	defer deadline.Stop()
	for l.log != nil && !l.log.Ahead() {
		rows := l.next(deadline.C)
		if len(rows) == 0 {
			return
		}
		to.WriteLog(l.log, rows, arrived)
	}
}

// next returns what the log has grown by, nil if that is nothing, or not known yet.
func (l *joinedLog) next(deadline <-chan time.Time) []byte {
	if !l.asked {
		l.asks <- struct{}{}
		l.asked = true
	}
	var rows []byte
	var found bool
	if l.inTime {
		select {
		case rows, found = <-l.grown:
		case <-deadline:
			l.inTime = false
			return nil
		}
	} else {
		select {
		case rows, found = <-l.grown:
		default: // it is still searched for, or the disk hangs
			return nil
		}
	}
	if l.asked, l.inTime = false, true; !found {
		l.close()
	}
	return rows
}

// readLog sends what a log has when it is found, and then, each time it is asked, what the
// log has grown by. It closes grown if there is no log.
func readLog(log *mapping.JoinedLog, disk chan struct{}, asks <-chan struct{}, grown chan<- []byte) {
	defer close(grown)
	select {
	case disk <- struct{}{}:
		defer func() { <-disk }()
	case <-asks:
		return
	}
	file := awaitLog(log, asks)
	if file == nil {
		return
	}
	defer file.Close()
	buf := make([]byte, tracer.MaxPiece)
	for more := true; more; _, more = <-asks {
		n, _ := file.Read(buf) // a log may grow after io.EOF
		grown <- buf[:n]
	}
}

const (
	searchEvery = time.Second
	maxSearches = 10
)

// awaitLog searches for a log, which an agent begins only when it works. It returns nil if
// there is none in time, or once asks is closed.
func awaitLog(log *mapping.JoinedLog, asks <-chan struct{}) *os.File {
	for range maxSearches {
		if file := findLog(log); file != nil {
			return file
		}
		select {
		case <-time.After(searchEvery):
		case <-asks:
			return nil
		}
	}
	return nil
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
