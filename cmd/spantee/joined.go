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
	log      *mapping.JoinedLog // nil if the session's log adds nothing

	questions chan<- *mapping.JoinedLog // nil until there is a log
	answers   <-chan grownLog
	asked     bool // a question has no answer yet
	open      bool // the last answer came in time, and the log was there
}

// A grownLog is what a log has grown by.
type grownLog struct {
	log  *mapping.JoinedLog
	rows []byte // valid until the next question
	open bool   // the log is there
}

const (
	// diskPatience is how long the mapper waits for a log. One that did not answer in time
	// is not waited for until it has.
	diskPatience = 250 * time.Millisecond

	// logAhead is how long before the first line of a stream the log of its run may begin.
	logAhead = 2 * time.Second
)

// newJoinedLog returns nil if no log may be read.
func (t *tracing) newJoinedLog() *joinedLog {
	if !t.to.Live || t.noSessionLog {
		return nil
	}
	return &joinedLog{patience: min(diskPatience, t.flushTimeout/4)}
}

// follow begins to read the log of the session that began last.
func (l *joinedLog) follow(m *mapping.Mapper, arrived time.Time) {
	if l == nil || m.Stats().Session == l.session {
		return
	}
	l.session, l.open = m.Stats().Session, false
	l.log = m.JoinLog(l.session, arrived.Add(-logAhead))
	if l.log != nil && l.questions == nil {
		questions, answers := make(chan *mapping.JoinedLog, 1), make(chan grownLog, 1)
		l.questions, l.answers = questions, answers
		go readLogs(questions, answers)
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
	for !l.log.Ahead() {
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
		l.questions <- l.log
		l.asked = true
	}
	if !l.open { // somebody searches for the log, or the disk hangs
		select {
		case answer := <-l.answers:
			return l.learn(answer)
		default:
			return nil
		}
	}
	select {
	case answer := <-l.answers:
		return l.learn(answer)
	case <-deadline:
		l.open = false
		return nil
	}
}

func (l *joinedLog) learn(answer grownLog) []byte {
	l.asked = false
	if answer.log != l.log { // of the session before
		return nil
	}
	l.open = answer.open
	return answer.rows
}

// readLogs answers questions about one log after another.
func readLogs(questions <-chan *mapping.JoinedLog, answers chan<- grownLog) {
	var (
		file   *os.File
		search searcher
		answer grownLog
		buf    = make([]byte, tracer.MaxPiece)
	)
	for log := range questions {
		if log != answer.log {
			file.Close() // nil is no file
			file, search, answer = nil, searcher{}, grownLog{log: log}
		}
		if file == nil {
			file = search.find(log)
		}
		answer.open, answer.rows = file != nil, nil
		if file != nil {
			n, _ := file.Read(buf) // a log may grow after io.EOF
			answer.rows = buf[:n]
		}
		answers <- answer
	}
	file.Close()
}

// A searcher looks for a log, which an agent begins only when it works. Some agents keep
// none, and a user's folders may be many.
type searcher struct {
	last  time.Time
	times int
}

const (
	searchEvery = time.Second
	maxSearches = 10
)

// find opens a log, and returns nil if it is not there. Links out of the agent's folder are
// not followed.
func (s *searcher) find(log *mapping.JoinedLog) *os.File {
	if s.times == maxSearches || time.Since(s.last) < searchEvery {
		return nil
	}
	s.last = time.Now()
	s.times++
	for folder := range agentFolders(log.Folder) {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil
		}
		defer root.Close()
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
	return nil
}
