package follow

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

// A LogSearch looks for the log that an agent keeps of the session in the pipe. The log is
// read once, because it names the model, which the stream does not.
type LogSearch struct {
	session  string // that began last
	since    time.Time
	searches int // that are left
}

const (
	// maxSearches is how often a log is searched for, once a second: an agent begins it
	// only when it works.
	maxSearches = 10

	// logAhead is how long before the first line of a stream the log of its run may begin.
	logAhead = 2 * time.Second

	// logPart is how much is read of the beginning of a log, and of its end: the log of a
	// session that was resumed has its earlier runs, too.
	logPart = 256 << 10
)

// Begin begins to look for the log of the session that began last.
func (l *LogSearch) Begin(m *mapping.Mapper, arrived time.Time) {
	if session := m.Stats().Session; session != l.session {
		*l = LogSearch{session: session, since: arrived.Add(-logAhead), searches: maxSearches}
		l.Search(m)
	}
}

// Search is to be called every second. A disk that hangs stops the agent, too.
func (l *LogSearch) Search(m *mapping.Mapper) {
	if l.searches == 0 {
		return
	}
	l.searches--
	folders, pattern := m.SessionLog(l.session)
	if pattern == "" || m.Learn(l.session, l.since, readLog(folders, pattern)) {
		l.searches = 0
	}
}

// readLog returns the beginning and the end of a log, nil if it is not there.
func readLog(of agent.Folders, pattern string) (part []byte) {
	openLog(of, pattern, func(file *os.File, size int64) {
		rows, _ := io.ReadAll(io.NewSectionReader(file, 0, logPart))
		end, _ := io.ReadAll(io.NewSectionReader(file, max(logPart, size-logPart), logPart))
		part = append(rows, end...)
	})
	return part
}

// ReadLog returns a log, nil if it is not there or too long.
func ReadLog(of agent.Folders, pattern string) (rows []byte) {
	openLog(of, pattern, func(file *os.File, size int64) {
		if size <= maxLog {
			rows, _ = io.ReadAll(io.LimitReader(file, maxLog))
		}
	})
	return rows
}

// maxLog is how long a log may be that is read as a whole.
const maxLog = 16 << 20

// openLog passes a log to read, if it is there. Links out of the agent's folder are not followed.
func openLog(of agent.Folders, pattern string, read func(file *os.File, size int64)) {
	folders := agentFolders(of)
	if len(folders) == 0 {
		return
	}
	root, err := os.OpenRoot(folders[0])
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	found, _ := fs.Glob(root.FS(), pattern)
	for _, path := range found {
		info, err := root.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if file, err := root.Open(filepath.FromSlash(path)); err == nil {
			defer func() { _ = file.Close() }()
			read(file, info.Size())
			return
		}
	}
}
