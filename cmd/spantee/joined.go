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
// has what the stream lacks. The disk may hang, so a goroutine reads, and the mapper goes
// on without the log.
type joinedLog struct {
	patience time.Duration      // for all that is read before one piece of the stream
	session  string             // that began last
	log      *mapping.JoinedLog // nil if the session's log adds nothing, or was not found

	questions chan<- *mapping.JoinedLog // nil until there is a log
	answers   <-chan grownLog
	asked     bool // a question has no answer yet
	inTime    bool // the last answer came in time
}

// A grownLog is what a log has grown by.
type grownLog struct {
	log   *mapping.JoinedLog
	rows  []byte // valid until the next question
	found bool
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
	return &joinedLog{patience: max(minPatience, min(maxPatience, t.flushTimeout/4))}
}

// follow begins to read the log of the session that began last.
func (l *joinedLog) follow(m *mapping.Mapper, arrived time.Time) {
	if l == nil || m.Stats().Session == l.session {
		return
	}
	l.session = m.Stats().Session
	l.log = m.JoinLog(l.session, arrived.Add(-logAhead))
	l.asked, l.inTime = false, false
	if l.log == nil {
		return
	}
	if l.questions == nil {
		questions, answers := make(chan *mapping.JoinedLog, 1), make(chan grownLog, 1)
		l.questions, l.answers = questions, answers
		go readLogs(questions, answers)
	}
	l.ask()
}

// ask asks how much the log has grown, unless the disk hangs.
func (l *joinedLog) ask() {
	select {
	case l.questions <- l.log:
		l.asked = true
	default:
	}
}

func (l *joinedLog) close() {
	if l != nil && l.questions != nil {
		close(l.questions)
	}
}

// take maps what the log has until a piece of the stream came.
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
		l.ask()
	}
	select {
	case answer := <-l.answers:
		return l.answered(answer)
	default:
	}
	if !l.inTime { // the log is not found yet, or the disk hangs
		return nil
	}
	select {
	case answer := <-l.answers:
		return l.answered(answer)
	case <-deadline:
		l.inTime = false
		return nil
	}
}

// answered returns the rows of an answer about the current log.
func (l *joinedLog) answered(answer grownLog) []byte {
	if answer.log != l.log {
		return nil
	}
	l.asked, l.inTime = false, true
	if !answer.found {
		l.log = nil
	}
	return answer.rows
}

// readLogs answers questions about one log after another.
func readLogs(questions <-chan *mapping.JoinedLog, answers chan<- grownLog) {
	var (
		current *mapping.JoinedLog
		file    *os.File
		buf     = make([]byte, tracer.MaxPiece)
	)
	for log := range questions {
		if log != current {
			file.Close() // nil is no file
			file, log = awaitLog(log, questions)
			current = log
		}
		answer := grownLog{log: log, found: file != nil}
		if file != nil {
			n, _ := file.Read(buf) // a log may grow after io.EOF
			answer.rows = buf[:n]
		}
		answers <- answer
	}
	file.Close()
}

const (
	searchEvery = time.Second
	maxSearches = 10
)

// awaitLog searches for a log, which an agent begins only when it works, or for the log of
// the next question. It returns no file if there is none in time.
func awaitLog(log *mapping.JoinedLog, questions <-chan *mapping.JoinedLog) (*os.File, *mapping.JoinedLog) {
	for search := 0; search < maxSearches && log != nil; search++ {
		if file := findLog(log); file != nil {
			return file, log
		}
		select {
		case <-time.After(searchEvery):
		case next := <-questions: // nil at the end
			log, search = next, -1
		}
	}
	return nil, log
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
