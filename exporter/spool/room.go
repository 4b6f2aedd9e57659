package spool

import (
	"cmp"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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
func (s Spool) makeRoom(size int64) error {
	if size > s.Max {
		return errTooBig
	}
	if rand.Int64N(s.Max/lookEvery+1) > size {
		return nil
	}
	countFiles()
	total, _, err := s.inventory()
	if err != nil || total+size <= s.Max {
		return err
	}
	_, _ = s.recoverAll() // after which the journals of killed processes can be evicted, too
	total, oldest, err := s.inventory()
	for _, f := range oldest {
		if total+size <= s.Max-s.Max/64 { // a little more than needed, for the next requests
			break
		}
		if s.evict(f) {
			total -= f.size
		}
	}
	if err == nil && total+size > s.Max {
		err = errFull
	}
	return err
}

// evict removes a file, unless it is in use.
func (s Spool) evict(f file) bool {
	if f.state == Sending { // a live process may be delivering it at this moment
		lock, err := TryLock(filepath.Join(f.dir, lockFile))
		if lock == nil || err != nil {
			return false
		}
		defer unlock(lock)
	}
	err := remove(f.path())
	if err != nil { // another process may have removed it
		return errors.Is(err, fs.ErrNotExist)
	}
	if f.state != Corrupt { // its spans were counted when it was set aside
		s.lose(f)
	}
	return true
}

// lose counts what a file of a request has as lost.
func (s Spool) lose(f file) {
	n, own := f.name, f.name.ownedBy(s.Owner)
	switch {
	case !own:
		s.Losses.add(Losses{Others: n.spans, OtherPoints: n.points})
	case f.state == Rejected:
		s.Losses.add(Losses{OwnRejected: n.spans, OwnPoints: n.points})
	default:
		s.Losses.add(Losses{Own: n.spans, OwnPoints: n.points})
	}
}

// A file is a file in the spool.
type file struct {
	fs.DirEntry
	dir, base string // base is the name, which changes when the file is claimed
	name      name   // of a request, or of a log that waits; zero if it is neither
	state     State  // whatever the file contains
	at        time.Time
	size      int64
}

func (f file) path() string { return filepath.Join(f.dir, f.base) }

// setSending changes the name of a request, which says whether it is being sent.
func (f *file) setSending(sending bool) {
	f.name.sending = sending
	f.base = f.name.String()
}

func (f file) isRequest() bool { return f.name != name{} }

func byAge(a, b file) int {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.base, b.base))
}

// inventory returns how many bytes the spool has, and the files that may be evicted, oldest
// first.
func (s Spool) inventory() (total int64, files []file, err error) {
	err = s.walk(func(f file, info fs.FileInfo) {
		if info.Mode().IsRegular() {
			f.size = info.Size()
		}
		total += f.size
		if f.state == Open || !f.isRequest() && f.state != Corrupt || isTemp(f.base) {
			return // not to be evicted
		}
		if trust(f.path(), info, 0) != nil {
			f.state = Corrupt // whatever its name claims
		}
		files = append(files, f)
	})
	slices.SortFunc(files, byAge)
	return total, files, err
}

// walk visits the files in the spool's directories. It skips directories that are
// not this user's.
func (s Spool) walk(visit func(file, fs.FileInfo)) error {
	names, err := s.directories()
	errs := []error{err}
	for _, name := range names {
		state := Waiting
		if name == journalDir {
			state = Open
		}
		for _, sub := range []struct {
			names []string
			state State
		}{
			{[]string{name}, state}, {[]string{name, rejectedDir}, Rejected}, {[]string{name, corruptDir}, Corrupt},
		} {
			files, err := s.files(sub.state, sub.names...)
			if err != nil && !isUntrusted(err) {
				errs = append(errs, err)
			}
			for _, f := range files {
				info, err := f.Info()
				if err != nil {
					continue // it has just been sent
				}
				if !f.isRequest() {
					f.at = info.ModTime()
				}
				visit(f, info)
			}
		}
	}
	return errors.Join(errs...)
}

// directories returns the names of the directories in the spool: one for each destination,
// and journalDir.
func (s Spool) directories() (names []string, err error) {
	entries, err := s.entries()
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// files returns the files in a directory of the spool, which may be missing. It removes
// temporary files that killed processes left.
func (s Spool) files(state State, names ...string) (files []file, err error) {
	entries, err := s.entries(names...)
	dir := filepath.Join(append([]string{s.Dir}, names...)...)
	for _, e := range entries {
		f := file{DirEntry: e, dir: dir, base: e.Name(), state: state, name: parseName(e.Name())}
		f.at = f.name.at
		if f.name.sending && state == Waiting {
			f.state = Sending
		}
		switch {
		case e.IsDir():
		case isTemp(f.base) && f.isStale():
			discard(f.path())
		default:
			files = append(files, f)
		}
	}
	return files, err
}

// entries returns the entries of a directory of the spool, which may be missing.
func (s Spool) entries(names ...string) ([]fs.DirEntry, error) {
	dir, err := s.findDir(names...)
	if dir == "" || err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	return entries, ignore(err, fs.ErrNotExist)
}
