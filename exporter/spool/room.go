package spool

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// lookEvery is which part of its limit a spool may grow by, on average, before its files
// are counted. No running total is kept, because all processes would have to wait for one
// another at every write.
const lookEvery = 256

// countFiles is called whenever the files are counted. Tests replace it.
var countFiles = func() {}

// makeRoom makes room for size more bytes, evicting the oldest files if it has to. The
// files are counted with a probability that grows with size, so many small requests have
// them counted as often as one large request.
func (s Spool) makeRoom(size int64) (evicted Evicted, err error) {
	if size > s.Max {
		return Evicted{}, errTooBig
	}
	if rand.Int64N(s.Max/lookEvery+1) > size {
		return Evicted{}, nil
	}
	countFiles()
	for {
		total, oldest, err := s.inventory()
		if err != nil || total+size <= s.Max {
			return evicted, err
		}
		before := total
		for _, f := range oldest {
			if total+size <= s.Max-s.Max/64 { // a little more than needed, for the next requests
				return evicted, nil
			}
			if s.evict(f, &evicted) {
				total -= f.size
			}
		}
		switch {
		case total+size <= s.Max:
			return evicted, nil
		case total == before: // nothing can be evicted
			return evicted, errFull
		}
	}
}

// evict removes a file, unless it is in use.
func (s Spool) evict(f file, evicted *Evicted) bool {
	switch f.state {
	case "":
		return false
	case Sending: // a live process may be delivering it at this moment
		lock, err := TryLock(filepath.Join(f.dir, lockFile))
		if lock == nil || err != nil {
			return false
		}
		defer unlock(lock)
	case Open:
		return s.evictJournal(f.path(), evicted)
	}
	err := remove(f.path())
	if err != nil { // another process may have removed it
		return errors.Is(err, fs.ErrNotExist)
	}
	switch {
	case f.state == Corrupt: // its spans were counted when it was set aside
	case f.name.points > 0 && f.name.ownedBy(s.Owner):
		evicted.OwnPoints += f.name.points
	case f.name.points > 0:
		evicted.OtherPoints += f.name.points
	case !f.name.ownedBy(s.Owner):
		evicted.Others += f.name.spans
	case f.state == Rejected:
		evicted.OwnRejected += f.name.spans
	default:
		evicted.Own += f.name.spans
	}
	return true
}

// evictJournal removes the journal of a process that was killed.
func (s Spool) evictJournal(path string, evicted *Evicted) bool {
	base := strings.TrimSuffix(path, waitingExt)
	lock, err := TryLock(base + lockExt)
	if lock == nil || err != nil {
		return false // the process is alive
	}
	defer unlock(lock)
	l, err := readLog(path)
	if host, _ := os.Hostname(); err == nil && l.note.Host != host {
		return false
	}
	if removed := remove(path); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		return false
	}
	discard(base + lockExt)
	if err == nil {
		evicted.Others += l.count()
		evicted.OtherPoints += l.points
	}
	return true
}

// A file is a file in the spool.
type file struct {
	dir   string
	base  string
	name  name // of a request
	state State
	at    time.Time
	size  int64
}

func (f file) path() string { return filepath.Join(f.dir, f.base) }

func byAge(a, b file) int {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.path(), b.path()))
}

// maxFiles is how many files are listed at a time, the oldest first: there may be any
// number.
const maxFiles = 10_000

// addOldest adds a file to a list that keeps the oldest.
func addOldest(files []file, f file) []file {
	files = append(files, f)
	if len(files) < 2*maxFiles {
		return files
	}
	return oldest(files)
}

func oldest(files []file) []file {
	slices.SortFunc(files, byAge)
	return files[:min(len(files), maxFiles)]
}

// inventory returns how many bytes the spool has, and the oldest of the files that may
// be evicted.
func (s Spool) inventory() (total int64, files []file, err error) {
	err = s.walk(func(dir string, state State, e fs.DirEntry) {
		info, err := e.Info()
		if err != nil || info.IsDir() {
			return
		}
		f := file{dir: dir, base: e.Name(), state: state, at: info.ModTime(), size: info.Size()}
		if !info.Mode().IsRegular() {
			f.size = 0
		}
		total += f.size
		var isRequest bool
		f.name, isRequest = parseName(e.Name())
		if state != Open && trust(f.path(), info, 0) != nil {
			f.state = Corrupt // whatever its name claims
		}
		switch {
		case state == Open && strings.HasSuffix(e.Name(), waitingExt):
		case state == Open, isTemp(e.Name()), !isRequest && state != Corrupt:
			return // not to be evicted
		case isRequest:
			f.at = f.name.at
			if f.name.sending && f.state == Waiting {
				f.state = Sending
			}
		}
		files = addOldest(files, f)
	})
	return total, oldest(files), err
}

// Waiting returns how many spans can be sent now.
func (s Spool) Waiting(ctx context.Context) (spans int, err error) {
	return within(ctx, func() (int, error) {
		err := s.walk(func(dir string, state State, e fs.DirEntry) {
			n, ok := parseName(e.Name())
			switch {
			case state == Waiting && ok:
				spans += n.spans
			case state == Open && strings.HasSuffix(e.Name(), waitingExt):
				path := filepath.Join(dir, e.Name())
				if l, err := readLog(path); err == nil && isDead(strings.TrimSuffix(path, waitingExt), l.note) {
					spans += l.count()
				}
			}
		})
		return spans, err
	})
}

// walk visits the files in the spool's directories. It skips directories that are
// not this user's.
func (s Spool) walk(visit func(dir string, state State, e fs.DirEntry)) error {
	var errs []error
	err := s.eachFile(func(e fs.DirEntry) {
		if !e.IsDir() {
			return
		}
		state := Waiting
		if e.Name() == openDir {
			state = Open
		}
		for _, sub := range []struct {
			names []string
			state State
		}{
			{[]string{e.Name()}, state}, {[]string{e.Name(), rejectedDir}, Rejected}, {[]string{e.Name(), corruptDir}, Corrupt},
		} {
			dir := filepath.Join(append([]string{s.Dir}, sub.names...)...)
			err := s.eachFile(func(e fs.DirEntry) { visit(dir, sub.state, e) }, sub.names...)
			if err != nil && !isUntrusted(err) {
				errs = append(errs, err)
			}
		}
	})
	return errors.Join(append(errs, err)...)
}

// eachFile calls visit with every file in a directory of the spool, which may be
// missing.
func (s Spool) eachFile(visit func(fs.DirEntry), names ...string) error {
	dir, err := s.openDir(names...)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(maxFiles)
		for _, e := range entries {
			visit(e)
		}
		if err != nil {
			return ignore(err, io.EOF)
		}
	}
}
