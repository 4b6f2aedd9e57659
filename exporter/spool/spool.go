// Package spool keeps on disk what could not be delivered yet. Several processes
// may share one spool:
//
//	spool/
//	  5b0e2c.../              an endpoint
//	    1790...-11-2345-....otlp       a request that waits: since when, spans, bytes
//	    1790...-11-2345-....sending    the one that is being sent
//	    lock                  held by the process that sends
//	    rejected/             requests the receiver refused for good
//	    corrupt/              files that cannot be read
//	  open/                   what running processes have not sent (journal.go)
//
// A request is a file in the wire format of OTLP's ExportTraceServiceRequest,
// with a note of why it is there.
package spool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"
)

// DefaultMax is how many bytes a spool may hold unless told otherwise.
const DefaultMax = 256 << 20

// A Spool is a directory. It is made when there is something to keep.
type Spool struct {
	Dir string
	Max int64 // bytes of all requests in it, or a little more

	// Owner marks the requests of this process, and its Evicted.
	Owner string
}

// NewOwner returns an Owner that no other process has.
func NewOwner() string { return random() }

// Evicted is how many spans had to go for newer ones.
type Evicted struct {
	Own, OwnRejected int // of this process
	Others           int
}

// Add adds more.
func (e *Evicted) Add(more Evicted) {
	e.Own += more.Own
	e.OwnRejected += more.OwnRejected
	e.Others += more.Others
}

var errNoHome = errors.New("there is no place for it: neither $XDG_STATE_HOME nor $HOME is set")

// Default is the user's spool, as the XDG base directory specification has it.
func Default() (Spool, error) {
	if _, err := os.UserHomeDir(); err != nil && os.Getenv("XDG_STATE_HOME") == "" {
		return Spool{}, errNoHome // where the library takes the root directory for it
	}
	return Spool{Dir: filepath.Join(xdg.StateHome, "spantee", "spool"), Max: DefaultMax}, nil
}

// A Destination is where requests are to be sent. It holds no secret.
type Destination struct {
	Protocol string `json:"protocol"` // as in OTEL_EXPORTER_OTLP_PROTOCOL, or file
	Endpoint string `json:"endpoint"`
}

// dir names a destination's directory.
func (d Destination) dir() string {
	sum := sha256.Sum256([]byte(d.Protocol + "\n" + d.Endpoint))
	return hex.EncodeToString(sum[:8])
}

const (
	rejectedDir = "rejected"
	corruptDir  = "corrupt"
	openDir     = "open"
	lockFile    = "lock"
)

var errTooBig = errors.New("the spool may not hold as much")

// A Request is an ExportTraceServiceRequest in wire format.
type Request struct {
	Body  []byte
	Spans int
}

// Put keeps a request until it can be sent. Where the spool is full the oldest
// go for it, whatever their destination.
func (s Spool) Put(to Destination, req Request, reason string) (Evicted, error) {
	return s.put(to, req, reason, "", s.Owner)
}

// Reject keeps a request that is not to be sent again.
func (s Spool) Reject(to Destination, req Request, reason string) (Evicted, error) {
	return s.put(to, req, reason, rejectedDir, s.Owner)
}

func (s Spool) put(to Destination, req Request, reason, sub, owner string) (Evicted, error) {
	b := append(encodeNote(Note{Destination: to, Reason: reason}), req.Body...)
	dir := filepath.Join(s.Dir, to.dir(), sub)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Evicted{}, err
	}
	evicted, err := s.makeRoom(int64(len(b)))
	if err != nil {
		return evicted, err
	}
	return evicted, write(filepath.Join(dir, newName(req.Spans, len(b), owner).String()), b)
}

// write makes a file that is there whole or not at all, even after a power cut.
func write(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = cmp.Or(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// makeRoom removes the oldest requests until size more bytes fit. It does not
// look each time: of many small requests the list alone would take longer than
// the end of a run may. On average it does for each 64th of what there may be.
func (s Spool) makeRoom(size int64) (evicted Evicted, err error) {
	switch {
	case size > s.Max:
		return Evicted{}, errTooBig
	case rand.Int64N(s.Max) >= 64*size:
		return Evicted{}, nil
	}
	files, err := s.files()
	if err != nil {
		return Evicted{}, err
	}
	var total int64
	for _, f := range files {
		total += f.name.bytes
	}
	slices.SortFunc(files, byAge)
	for _, f := range files {
		if total+size <= s.Max {
			break
		}
		if f.state == Sending { // it may be delivered at this moment
			continue
		}
		// Else another process was quicker. What is corrupt was given up before.
		if os.Remove(f.path()) == nil && f.state != Corrupt {
			switch {
			case !f.name.ownedBy(s.Owner):
				evicted.Others += f.name.spans
			case f.state == Rejected:
				evicted.OwnRejected += f.name.spans
			default:
				evicted.Own += f.name.spans
			}
		}
		total -= f.name.bytes
	}
	return evicted, nil
}

// A file is one of the spool's.
type file struct {
	dir   string
	name  name
	state State
}

func (f file) path() string { return filepath.Join(f.dir, f.name.String()) }

func byAge(a, b file) int {
	return cmp.Or(a.name.at.Compare(b.name.at), cmp.Compare(a.path(), b.path()))
}

// files lists all requests. Files of other names are nobody's business.
func (s Spool) files() (files []file, err error) {
	endpoints, err := readDir(s.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range endpoints {
		if !e.IsDir() || e.Name() == openDir {
			continue
		}
		dir := filepath.Join(s.Dir, e.Name())
		for sub, state := range map[string]State{"": Waiting, rejectedDir: Rejected, corruptDir: Corrupt} {
			more, err := filesIn(filepath.Join(dir, sub), state)
			if err != nil {
				return nil, err
			}
			files = append(files, more...)
		}
	}
	return files, nil
}

// readDir is os.ReadDir of a directory that may be missing.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// filesIn lists the requests in a directory, which may be missing.
func filesIn(dir string, state State) (files []file, err error) {
	entries, err := readDir(dir)
	for _, e := range entries {
		n, ok := parseName(e.Name())
		switch {
		case !ok:
			removeStale(dir, e)
			continue
		case !e.Type().IsRegular():
			continue
		case n.sending:
			files = append(files, file{dir, n, Sending})
		default:
			files = append(files, file{dir, n, state})
		}
	}
	return files, err
}

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".new-"

// removeStale removes what a process that was killed was about to write.
func removeStale(dir string, e fs.DirEntry) {
	info, err := e.Info()
	if err == nil && isTemp(e.Name()) && time.Since(info.ModTime()) > time.Hour {
		os.Remove(filepath.Join(dir, e.Name()))
	}
}

// setAside moves a file into a directory beside it.
func setAside(path, sub string) error {
	dir := filepath.Join(filepath.Dir(path), sub)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	base := strings.TrimSuffix(filepath.Base(path), sendingExt)
	if base != filepath.Base(path) {
		base += waitingExt
	}
	return os.Rename(path, filepath.Join(dir, base))
}

// Check tells whether something can be kept.
func (s Spool) Check() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, tempPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	return f.Close()
}
