package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// A State is what a spool has a file for.
type State string

// The states of an [Entry].
const (
	Waiting  State = "waiting"  // until it can be sent
	Sending  State = "sending"  // at this moment, or when its process was killed
	Rejected State = "rejected" // by the receiver, for good
	Corrupt  State = "corrupt"  // cut short, or not a request
	Open     State = "open"     // the journal of a process
	Killed   State = "killed"   // that of one which was killed: Recover makes requests of it
)

// An Entry tells of one file.
type Entry struct {
	Note
	State State     `json:"state"`
	Since time.Time `json:"since"`
	Bytes int64     `json:"bytes"`
	Spans int       `json:"spans"` // not known of an open journal
	Path  string    `json:"path"`
}

// List returns what the spool has, the oldest first.
func (s Spool) List() ([]Entry, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, byAge)
	entries := make([]Entry, 0, len(files))
	for _, f := range files {
		note, err := f.readNote()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just been sent
		}
		entries = append(entries, Entry{Note: note, State: f.state, Since: f.name.at, Bytes: f.name.bytes, Spans: f.name.spans, Path: f.path()})
	}
	journals, err := s.journals()
	return append(entries, journals...), err
}

func (s Spool) journals() ([]Entry, error) {
	dir := filepath.Join(s.Dir, openDir)
	open, err := journalsIn(dir, Open)
	corrupt, err2 := journalsIn(filepath.Join(dir, corruptDir), Corrupt)
	return append(open, corrupt...), errors.Join(err, err2)
}

func journalsIn(dir string, state State) (entries []Entry, err error) {
	files, err := readDir(dir)
	for _, e := range files {
		base, ok := strings.CutSuffix(e.Name(), waitingExt)
		info, err := e.Info()
		if err != nil || !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		note, err := readNote(path)
		if err != nil && state == Open {
			continue
		}
		entry := Entry{Note: note, State: state, Since: info.ModTime(), Bytes: info.Size(), Path: path}
		if state == Open && isDead(filepath.Join(dir, base), note) {
			entry.State = Killed
			if b, err := os.ReadFile(path); err == nil {
				_, rest, _ := decodeNote(b)
				entry.Spans = len(recovered(rest).ScopeSpans[0].Spans)
			}
		}
		entries = append(entries, entry)
	}
	return entries, err
}

// isDead tells whether the process that wrote a journal on this host has ended.
func isDead(base string, note Note) bool {
	if host, _ := os.Hostname(); note.Host != host {
		return false // Recover knows more
	}
	lock := flock.New(base+lockExt, flock.SetFlag(os.O_RDWR)) // which makes none
	defer lock.Close()                                        //nolint:errcheck // it was only looked at
	locked, err := lock.TryLock()
	return locked || errors.Is(err, fs.ErrNotExist)
}

// Destinations returns where the requests that wait are to go, the one that
// has waited longest first. What does not tell is set aside.
func (s Spool) Destinations() ([]Destination, error) {
	entries, err := s.List()
	var to []Destination
	for _, e := range entries {
		switch {
		case e.State != Waiting && e.State != Sending:
		case e.Endpoint == "":
			if _, reading := readNote(e.Path); !errors.Is(reading, errCorrupt) {
				if !errors.Is(reading, fs.ErrNotExist) { // as it is once it was sent
					err = errors.Join(err, reading)
				}
				continue
			}
			if moving := setAside(e.Path, corruptDir); !errors.Is(moving, fs.ErrNotExist) {
				err = errors.Join(err, moving)
			}
		case !slices.Contains(to, e.Destination):
			to = append(to, e.Destination)
		}
	}
	return to, err
}
