package spool

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var errFull = errors.New("the spool is full")

// countFiles is called whenever the files are counted. Tests replace it.
var countFiles = func() {}

// lookEvery is which part of its limit a spool may grow by, on average, before its files
// are counted.
const lookEvery = 256

// makeRoom makes room for size more bytes: it evicts the logs of processes that have ended,
// the oldest first, and files that were set aside. The files are counted with a probability
// that grows with size, so many small logs have them counted as often as one large one. No
// running total is kept, because all processes would have to wait for one another at every
// write.
func (s Spool) makeRoom(size int64) error {
	if size > s.Max {
		return errTooBig
	}
	if rand.Int64N(s.Max/lookEvery+1) > size {
		return nil
	}
	countFiles()
	dir, err := s.enter(false)
	if dir == nil || err != nil {
		return err
	}
	defer closeFolder(dir)
	all, err := names(dir)
	if err != nil {
		return err
	}
	type file struct {
		name string
		size int64
		at   time.Time
	}
	var files []file
	total := size
	for _, name := range all {
		info, err := dir.Lstat(name)
		switch {
		case err != nil || info.IsDir(): // it has just been sent, or is none of ours
		case strings.HasPrefix(name, tempPrefix):
			removeStale(dir, name)
			total += info.Size()
		default:
			files = append(files, file{name, info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	limit := s.Max
	for _, f := range files {
		if total <= limit {
			return nil
		}
		limit = s.Max - s.Max/64 // a little more than needed, for the next logs
		if s.evict(dir, f.name) {
			total -= f.size
		}
	}
	if total > s.Max {
		return errFull
	}
	return nil
}

// evict removes a file, unless it is the log of a process that runs.
func (s Spool) evict(dir *os.Root, name string) bool {
	if filepath.Ext(name) != logExt {
		contents, _ := read(dir, name)
		if dir.Remove(name) != nil {
			return false
		}
		s.lost(name, len(contents.ended))
		return true
	}
	file, locked := lock(dir, name)
	if file == nil {
		return false
	}
	defer file.Close()
	contents, err := read(dir, name)
	if err == nil && !contents.mayBeSent(locked) {
		return false
	}
	var lost []*Span
	if err == nil {
		lost, _ = contents.pending()
		void(file, len(contents.ended)) // the process that released it does not restore it
	}
	onDisk("remove")
	if dir.Remove(name) != nil {
		return false
	}
	s.lost(name, len(lost))
	return true
}

func (s Spool) lost(name string, spans int) {
	if s.Lost != nil && spans > 0 {
		s.Lost(name, spans)
	}
}
