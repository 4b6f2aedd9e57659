package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// A State is a folder that remembers what was traced. One process uses it at a time.
type State struct {
	dir    string
	lock   *os.File // nil if the disk has no locks
	report func(error)
}

// ErrBusy means that another process follows already.
var ErrBusy = errors.New("spantee follow is already running (one per user: name all folders in one command)")

// OpenState opens the state in spantee's state folder, with the logs and since when each
// folder is followed, by its path. Files that are damaged are set aside, and reported. The
// caller must Close the state.
func OpenState(stateDir string, report func(error)) (s *State, logs []*Log, since map[string]time.Time, err error) {
	s = &State{dir: filepath.Join(stateDir, "follow"), report: report}
	if err = spool.EnterDir(s.dir, true); err != nil {
		return nil, nil, nil, err
	}
	if s.lock, err = spool.TryLock(filepath.Join(s.dir, "lock")); s.lock == nil && err == nil {
		return nil, nil, nil, ErrBusy
	}
	if _, err = s.read("folders", &since, func() error { return nil }); err == nil {
		logs, err = s.logs()
	}
	if since == nil {
		since = map[string]time.Time{}
	}
	return s, logs, since, err
}

// Close lets another process use the state.
func (s *State) Close() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// A Log is the files of one session, and how they were mapped. Mapping them again in the same
// Steps gives the same spans.
type Log struct {
	Files []*File  `json:"files"`
	Steps []Step   `json:"steps"`
	Open  bool     `json:"open,omitempty"` // a run has not ended
	Kin   []string `json:"kin,omitempty"`  // names that other files of the session have, too

	Since  time.Time `json:"since"`  // runs that began before are left out
	Latest time.Time `json:"latest"` // end of a span that was handed over

	name string // of its file
}

// A Step is a piece of a file, or else what happened while no file grew.
type Step struct {
	File  int           `json:"file,omitempty"`
	To    int64         `json:"to,omitempty"` // where the piece ends
	Stall time.Duration `json:"stall,omitempty"`
	Pause bool          `json:"pause,omitempty"` // what waits for the next line was mapped
	End   bool          `json:"end,omitempty"`   // the open runs were ended
}

// Add adds a step. A piece goes on with the one before it.
func (l *Log) Add(s Step) {
	if last := len(l.Steps) - 1; s.To > 0 && last >= 0 && l.Steps[last].To > 0 && l.Steps[last].File == s.File {
		l.Steps[last].To = s.To
		return
	}
	l.Steps = append(l.Steps, s)
}

// Prune replaces the steps that led to a pause without an open run. How the runs came about
// does not matter any more, only what the files had.
func (l *Log) Prune() {
	l.Steps = nil
	for i, f := range l.Files {
		if f.Offset > 0 {
			l.Add(Step{File: i, To: f.Offset})
		}
	}
	l.Add(Step{Pause: true})
	l.Add(Step{End: true})
}

// forgetAfter is how long a log is remembered whose files do not exist any more.
const forgetAfter = 30 * 24 * time.Hour

// logs returns the logs that were saved.
func (s *State) logs() (logs []*Log, err error) {
	dir := filepath.Join(s.dir, "logs")
	if err := spool.PrivateDir(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		l := &Log{name: e.Name()}
		ok, err := s.read(filepath.Join("logs", l.name), l, l.check)
		switch path := filepath.Join(dir, l.name); {
		case err != nil:
			return nil, err
		case ok && l.gone() && isOlder(path, forgetAfter):
			_ = os.Remove(path)
		case ok:
			logs = append(logs, l)
		}
	}
	return logs, err
}

// check returns an error if the log cannot have been saved.
func (l *Log) check() error {
	if len(l.Files) == 0 {
		return errors.New("no files")
	}
	for _, f := range l.Files {
		if f == nil || f.Path == "" || f.Offset < 0 {
			return errors.New("not a file")
		}
	}
	read := make([]int64, len(l.Files))
	for _, step := range l.Steps {
		if step.File < 0 || step.File >= len(read) || step.To < 0 || step.Stall < 0 {
			return errors.New("not a step")
		}
		if step.To > 0 && (step.To < read[step.File] || step.To > l.Files[step.File].Offset) {
			return errors.New("a step to where no piece ended")
		}
		read[step.File] = max(read[step.File], step.To)
	}
	return nil
}

func (l *Log) gone() bool {
	for _, f := range l.Files {
		if _, err := os.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

func isOlder(path string, age time.Duration) bool {
	info, err := os.Lstat(path)
	return err == nil && time.Since(info.ModTime()) > age
}

// Save saves a log.
func (s *State) Save(l *Log) error {
	if l.name == "" {
		l.name = strconv.FormatUint(rand.Uint64(), 36)
	}
	return s.write(filepath.Join("logs", l.name), l)
}

// SaveFolders saves since when each folder is followed.
func (s *State) SaveFolders(since map[string]time.Time) error { return s.write("folders", since) }

// maxState is more than a file of a State ever has.
const maxState = 64 << 20

// read reads a file, if it exists. It sets the file aside and returns false if it is damaged:
// not JSON, open to other users, or refused by check.
func (s *State) read(name string, to any, check func() error) (ok bool, err error) {
	path := filepath.Join(s.dir, name)
	f, _, err := spool.OpenFile(path, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.As(err, new(*spool.Untrusted)):
		return false, s.setAside(path, err)
	case err != nil:
		return false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxState))
	f.Close()
	if err != nil {
		return false, err
	}
	if err = json.Unmarshal(b, to); err == nil {
		err = check()
	}
	if err != nil {
		return false, s.setAside(path, fmt.Errorf("%s is damaged: %w", path, err))
	}
	return true, nil
}

// setAside moves a file out of the way. Without it, what was traced of its sessions is not
// known.
func (s *State) setAside(path string, why error) error {
	dir := filepath.Join(s.dir, "damaged")
	if err := spool.PrivateDir(dir); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
		return err
	}
	s.report(fmt.Errorf("%w (set aside in %s; runs that were traced before may be sent again)", why, dir))
	return nil
}

// write replaces a file, which others see whole or not at all.
func (s *State) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temp := filepath.Join(s.dir, "new")
	if err = os.WriteFile(temp, b, 0o600); err == nil {
		err = os.Rename(temp, filepath.Join(s.dir, name))
	}
	return err
}
