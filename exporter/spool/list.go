package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
)

// An Entry tells of one file.
type Entry struct {
	Note
	State State     `json:"state"`
	Since time.Time `json:"since"`
	Bytes int64     `json:"bytes"`
	Spans int       `json:"spans"` // not known of a journal
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
	return append(entries, s.journals()...), nil
}

func (s Spool) journals() (entries []Entry) {
	dir := filepath.Join(s.Dir, openDir)
	files, _ := os.ReadDir(dir)
	for _, e := range files {
		info, err := e.Info()
		if err != nil || !strings.HasSuffix(e.Name(), waitingExt) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		note, err := readNote(path)
		if err != nil {
			continue
		}
		entries = append(entries, Entry{Note: note, State: Open, Since: info.ModTime(), Bytes: info.Size(), Path: path})
	}
	return entries
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
			err = errors.Join(err, setAside(e.Path, corruptDir))
		case !slices.Contains(to, e.Destination):
			to = append(to, e.Destination)
		}
	}
	return to, err
}
