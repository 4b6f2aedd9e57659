// Package sessionlog finds the files that agents write while they work, and reads those that
// belong together in the order in which their rows were written.
package sessionlog

import (
	"bytes"
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// A Log is a session log: a file that an agent writes while it works.
type Log struct {
	Path  string
	Agent string    // the value of Options.Agent
	First time.Time // its first timestamp
	Kin   []string  // logs that share one of these names have to be read by one Mapper
	Open  func() (io.ReadCloser, error)

	KinKnown bool // the head was long enough to find all of Kin

	folder string // "" if Kin has the logs that it copies
}

// HeadSize is how many bytes of a file Find needs.
const HeadSize = 64 << 10

// Find describes the session log at path, which begins with head. It returns false if
// the file is not a log, belongs with no other file, or does not show yet what it is.
func Find(path string, head []byte) (log Log, ok bool) {
	rows := func(yield func(*agent.Marks) bool) {
		var marks agent.Marks
		for row := range bytes.Lines(head) {
			if marks.Read(row); !yield(&marks) {
				return
			}
		}
	}
	for m := range rows {
		a, foreign := m.Agent(nil)
		if a == nil && foreign == nil {
			continue
		}
		if a != nil && a.Kin != nil {
			log.Agent = a.Flag
			log.Kin, log.KinKnown = a.Kin(path, rows)
			if a.CopiesNameless {
				log.folder = filepath.Dir(path)
			}
		}
		break
	}
	for row := range bytes.Lines(head) {
		if at := agent.RowTime(row); at != 0 {
			log.First = time.Unix(0, int64(at))
			break
		}
	}
	log.Path = path
	return log, len(log.Kin) > 0
}

// names returns names that logs have in common which Group puts into one group.
func (l *Log) names() []string {
	if l.folder == "" {
		return l.Kin
	}
	return append(slices.Clone(l.Kin), "folder "+l.folder)
}

// Group splits logs into groups that are read by one Mapper each, the oldest log of a
// group first.
func Group(logs []Log) (groups [][]Log) {
	named := map[string][]int{}
	for i := range logs {
		for _, name := range logs[i].names() {
			named[name] = append(named[name], i)
		}
	}
	grouped := make([]bool, len(logs))
	for i := range logs {
		if grouped[i] {
			continue
		}
		grouped[i] = true
		related := []int{i}
		for n := 0; n < len(related); n++ {
			for _, name := range logs[related[n]].names() {
				for _, k := range named[name] {
					if !grouped[k] {
						grouped[k], related = true, append(related, k)
					}
				}
				delete(named, name)
			}
		}
		slices.SortFunc(related, func(a, b int) int { return cmp.Or(logs[a].First.Compare(logs[b].First), a-b) })
		var group []Log
		for _, k := range related {
			group = append(group, logs[k])
		}
		groups = append(groups, group)
	}
	return groups
}
