package spool

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// usageFile holds the number of bytes in the spool, as text. Processes add to it
// before they write and subtract after they remove, so that a kill leaves it too
// high rather than too low. A process that finds the spool full counts the files,
// which corrects the number.
const usageFile = "usage"

// A usage is the open usage file, locked if possible.
type usage struct {
	f    *os.File
	lock *flock.Flock
}

// lockWait bounds the wait for a process that is updating the usage, because it may
// have been stopped. Without the lock, an update may be lost until the next count.
const lockWait = 100 * time.Millisecond

func (s Spool) openUsage() (*usage, error) {
	path := filepath.Join(s.Dir, usageFile)
	f, _, err := OpenFile(path, os.O_RDWR|os.O_CREATE)
	if isUntrusted(err) { // nothing in it is worth keeping
		if err := remove(path); err != nil {
			return nil, err
		}
		f, _, err = OpenFile(path, os.O_RDWR|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(time.Millisecond) {
		lock, err := tryLock(path)
		if lock != nil || err != nil || !time.Now().Before(end) {
			return &usage{f, lock}, nil
		}
	}
}

func (u *usage) close() {
	u.f.Close()
	unlock(u.lock)
}

// read returns the total, and false if there is none yet.
func (u *usage) read() (total int64, ok bool) {
	b, err := io.ReadAll(io.LimitReader(u.f, 32))
	if err != nil {
		return 0, false
	}
	total, err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return total, err == nil && total >= 0
}

func (u *usage) write(total int64) error {
	b := strconv.AppendInt(nil, max(total, 0), 10)
	for len(b) < 20 { // padded, so that the file never needs to be truncated
		b = append(b, ' ')
	}
	_, err := u.f.WriteAt(append(b, '\n'), 0)
	return err
}

// reserve makes room for size more bytes, evicting the oldest requests if it has
// to.
func (s Spool) reserve(size int64) (evicted Evicted, err error) {
	if size > s.Max {
		return Evicted{}, errTooBig
	}
	u, err := s.openUsage()
	if err != nil {
		return Evicted{}, err
	}
	defer u.close()
	total, ok := u.read()
	if !ok || total+size > s.limit() {
		if total, evicted, err = s.makeRoom(size); err != nil {
			return evicted, errors.Join(err, u.write(total))
		}
	}
	return evicted, u.write(total + size)
}

// release subtracts size bytes that are gone.
func (s Spool) release(size int64) {
	if size == 0 {
		return
	}
	u, err := s.openUsage()
	if err != nil {
		return // the next count finds out
	}
	defer u.close()
	if total, ok := u.read(); ok {
		_ = u.write(total - size) // on failure, the usage stays too high
	}
}

// limit returns what the spool may hold during a call that frees bytes in the end.
func (s Spool) limit() int64 { return s.Max + s.freed }

// countFiles is called whenever the files are counted. Tests replace it.
var countFiles = func() {}

// makeRoom counts the files, and removes the oldest until size more bytes fit. It
// removes a little more, so that the next calls need not count again.
func (s Spool) makeRoom(size int64) (total int64, evicted Evicted, err error) {
	countFiles()
	files, err := s.inventory()
	if err != nil {
		return 0, Evicted{}, err
	}
	for _, f := range files {
		total += f.size
	}
	if total+size <= s.limit() {
		return total, Evicted{}, nil
	}
	slices.SortFunc(files, byAge)
	for _, f := range files {
		if total+size <= s.limit()-s.Max/64 {
			break
		}
		if s.evict(f, &evicted) {
			total -= f.size
		}
	}
	if total+size > s.limit() {
		return total, evicted, errFull
	}
	return total, evicted, nil
}

// evict removes a file, unless it is in use.
func (s Spool) evict(f file, evicted *Evicted) bool {
	switch f.state {
	case "":
		return false
	case Sending: // a live process may be delivering it at this moment
		lock, err := tryLock(filepath.Join(f.dir, lockFile))
		if lock == nil || err != nil {
			return false
		}
		defer unlock(lock)
	case Open:
		spans, ok := s.evictJournal(f.path())
		evicted.Others += spans
		return ok
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
func (s Spool) evictJournal(path string) (spans int, ok bool) {
	base := strings.TrimSuffix(path, waitingExt)
	lock, err := tryLock(base + lockExt)
	if lock == nil || err != nil {
		return 0, false // the process is alive
	}
	defer unlock(lock)
	if j, err := s.readJournal(path); err == nil {
		if host, _ := os.Hostname(); j.note.Host != host {
			return 0, false
		}
		spans = j.log.count()
	}
	if err := remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, false
	}
	discard(base + lockExt)
	return spans, true
}

// A file is a file in the spool.
type file struct {
	dir   string
	base  string
	name  name // of a request
	state State
	at    time.Time
	size  int64 // on disk, or reserved for it
}

func (f file) path() string { return filepath.Join(f.dir, f.base) }

func byAge(a, b file) int {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.path(), b.path()))
}

// inventory lists everything that takes room.
func (s Spool) inventory() (files []file, err error) {
	err = s.walk(func(dir string, state State, e fs.DirEntry) {
		info, err := e.Info()
		if err != nil || info.IsDir() {
			return
		}
		f := file{dir: dir, base: e.Name(), state: state, at: info.ModTime(), size: info.Size()}
		if !info.Mode().IsRegular() {
			f.size = 0
		}
		var isRequest bool
		f.name, isRequest = parseName(e.Name())
		if state != Open && trust(f.path(), info, 0) != nil {
			f.state = Corrupt // whatever its name claims
		}
		switch {
		case state == Open && strings.HasSuffix(e.Name(), waitingExt):
			f.size = s.reserved(f.size)
		case state == Open, isTemp(e.Name()), !isRequest && state != Corrupt:
			f.state = "" // not to be evicted
		case isRequest:
			f.at = f.name.at
			if f.name.sending && f.state == Waiting {
				f.state = Sending
			}
		}
		files = append(files, f)
	})
	return files, err
}

// walk visits the files in the spool's directories. It skips directories that are
// not this user's.
func (s Spool) walk(visit func(dir string, state State, e fs.DirEntry)) error {
	top, err := s.readDir()
	if err != nil {
		return err
	}
	for _, e := range top {
		if !e.IsDir() {
			continue
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
			entries, err := s.readDir(sub.names...)
			if err != nil && !isUntrusted(err) {
				return err
			}
			for _, e := range entries {
				visit(filepath.Join(append([]string{s.Dir}, sub.names...)...), sub.state, e)
			}
		}
	}
	return nil
}
