package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

// A joinedLog reads the log that an agent keeps of the session in the pipe, for what the
// stream lacks. The disk may hang, so a goroutine reads, and the mapper goes on without.
type joinedLog struct {
	session string
	joined  *mapping.Joined // nil if the session's log adds nothing
	ask     chan struct{}
	rows    chan []byte
	asked   bool // and not answered in time
}

const (
	// diskPatience is how long the mapper waits for a log, once until the log answers.
	diskPatience = 250 * time.Millisecond

	// logAhead is how long before the first line of a stream its log may begin.
	logAhead = 2 * time.Second

	// searchEvery is how often the folders are searched for a log that is not there yet.
	searchEvery = time.Second
)

// join finds the log of the session that began last.
func (l *joinedLog) join(m *mapping.Mapper, arrived time.Time) {
	if l == nil || m.Stats().Session == l.session {
		return
	}
	session := m.Stats().Session
	l.close()
	*l = joinedLog{session: session, joined: m.Join(session, arrived.Add(-logAhead))}
	if l.joined != nil {
		l.ask, l.rows = make(chan struct{}, 1), make(chan []byte, 1)
		go readJoined(l.joined.Folders, l.joined.Name, l.ask, l.rows)
	}
}

func (l *joinedLog) close() {
	if l != nil && l.ask != nil {
		close(l.ask)
	}
}

// take maps what the log has until a piece of the stream came.
func (l *joinedLog) take(to *tracer.Stream, arrived time.Time) {
	if l == nil || l.joined == nil {
		return
	}
	if l.joined.Ahead() {
		to.Join(l.joined, nil, arrived)
	}
	for !l.joined.Ahead() {
		rows := l.next()
		if len(rows) == 0 {
			return
		}
		to.Join(l.joined, rows, arrived)
	}
}

// next returns what the log has grown by, nil if that is nothing, or not known yet.
func (l *joinedLog) next() []byte {
	wait := time.Duration(0)
	if !l.asked {
		l.ask <- struct{}{}
		l.asked, wait = true, diskPatience
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case rows := <-l.rows:
		l.asked = false
		return rows
	case <-patience.C:
		return nil
	}
}

// readJoined answers each question by what the log has grown by. The answer is valid
// until the next question.
func readJoined(folders agent.Folders, name string, ask <-chan struct{}, rows chan<- []byte) {
	var (
		log      *os.File
		buf      []byte
		searched time.Time
	)
	for range ask {
		if log == nil && time.Since(searched) >= searchEvery {
			if log = findLog(folders, name); log != nil {
				defer log.Close()
				buf = make([]byte, 256<<10)
			}
			searched = time.Now()
		}
		n := 0
		if log != nil {
			n, _ = log.Read(buf) // it may grow after an error, such as io.EOF
		}
		rows <- buf[:n]
	}
}

// findLog opens the log in the agent's folders, nil if it is in none. Links out of a
// folder are not followed.
func findLog(folders agent.Folders, name string) *os.File {
	for folder := range agentFolders(folders) {
		root, err := os.OpenRoot(folder)
		if err != nil {
			continue
		}
		found, _ := fs.Glob(root.FS(), name)
		for _, path := range found {
			if info, err := root.Stat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			if log, err := root.Open(filepath.FromSlash(path)); err == nil {
				root.Close()
				return log
			}
		}
		root.Close()
	}
	return nil
}
