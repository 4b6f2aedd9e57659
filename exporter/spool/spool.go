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
	Max int64 // bytes of all requests in it
}

// Default is the user's spool, as the XDG base directory specification has it.
func Default() Spool {
	return Spool{Dir: filepath.Join(xdg.StateHome, "spantee", "spool"), Max: DefaultMax}
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
// go for it, whatever their destination: gaveUp says how many spans they had.
func (s Spool) Put(to Destination, req Request, reason string) (gaveUp int, err error) {
	return s.put(to, req, reason, "")
}

// Reject keeps a request that is not to be sent again.
func (s Spool) Reject(to Destination, req Request, reason string) (gaveUp int, err error) {
	return s.put(to, req, reason, rejectedDir)
}

func (s Spool) put(to Destination, req Request, reason, sub string) (gaveUp int, err error) {
	b := append(encodeNote(Note{Destination: to, Reason: reason}), req.Body...)
	dir := filepath.Join(s.Dir, to.dir(), sub)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	gaveUp, err = s.makeRoom(int64(len(b)))
	if err != nil {
		return gaveUp, err
	}
	return gaveUp, write(filepath.Join(dir, newName(req.Spans, len(b)).String()), b)
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

// makeRoom removes the oldest requests until size more bytes fit.
func (s Spool) makeRoom(size int64) (gaveUp int, err error) {
	if size > s.Max {
		return 0, errTooBig
	}
	files, err := s.files()
	if err != nil {
		return 0, err
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
		if os.Remove(f.path()) == nil { // else another process was quicker
			gaveUp += f.name.spans
		}
		total -= f.name.bytes
	}
	return gaveUp, nil
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
	endpoints, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range endpoints {
		if !e.IsDir() || e.Name() == openDir {
			continue
		}
		dir := filepath.Join(s.Dir, e.Name())
		files = append(files, filesIn(dir, Waiting)...)
		files = append(files, filesIn(filepath.Join(dir, rejectedDir), Rejected)...)
		files = append(files, filesIn(filepath.Join(dir, corruptDir), Corrupt)...)
	}
	return files, err
}

// filesIn lists the requests in a directory, which may be missing.
func filesIn(dir string, state State) (files []file) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		n, ok := parseName(e.Name())
		switch {
		case !ok:
			removeStale(dir, e)
			continue
		case n.sending:
			files = append(files, file{dir, n, Sending})
		default:
			files = append(files, file{dir, n, state})
		}
	}
	return files
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
