// Package spool keeps undelivered spans and metrics on disk. Several processes may
// share a spool:
//
//	spool/
//	  5b0e2c.../              an endpoint that takes spans
//	    1790...-11-2345-....otlp       a request that waits, or the log of a process that
//	                          has ended; its name has the time, and how many spans and
//	                          bytes it holds
//	    1790...-11-2345-....sending    the one that is being sent
//	    lock                  held by the process that sends
//	    rejected/             requests the receiver refused for good
//	    corrupt/              files that cannot be read, are not this user's, or
//	                          may have arrived and must not be repeated
//	  91d04f.../              the same endpoint for metrics
//	    1790...-25p-6789-....otlp      the last metrics of a process, 25 data points
//	  open/                   what running processes have not sent (journal.go)
//
// A request is a file in the wire format of OTLP's ExportTraceServiceRequest or
// ExportMetricsServiceRequest, with a note of why it is there (log.go). A note that names
// no signal is about spans: earlier versions, which did not spool metrics, named none.
//
// # Trust
//
// The boundary is the user. The state folder, the spool, every directory in it
// and every file that is read must belong to this user and be writable by nobody
// else; symbolic links, pipes and devices are never opened. Any other folder
// is refused, with an error that says why. Any other file is moved to
// corrupt/, unread, and reported once through SetAside.
//
// Within that boundary an endpoint counts as the user's own, because only a process
// of the user can have written it. Requests are sent to it, but without headers or
// certificates unless the configuration names the same endpoint. A path is trusted
// less, because appending to a file such as .bashrc can run code. Spans for a file
// stay in the spool until the user names a file again, in the configuration of a
// later run or of flush, or makes flush send everything to one endpoint.
//
// # A slow disk
//
// Calls that take a context return when it ends, even if the disk does not answer.
// Spans that were not on disk by then count as lost.
package spool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// DefaultMax is the default size limit of a spool, in bytes.
const DefaultMax = 256 << 20

// A Spool is a directory, created when there is something to keep.
type Spool struct {
	Dir string
	Max int64 // bytes of all files in it

	// Owner marks the requests of this process, which Losses counts separately.
	Owner string

	// Losses, if set, counts what the calls of this process remove undelivered.
	Losses *LossCounter

	// SetAside, if set, is told of each file that is moved away unread because
	// it is not this user's, or is in a journal's place and is none.
	SetAside func(why *Untrusted)

	// Recovered, if set, is told of the spans that were open in each process that was
	// killed, once they are requests.
	Recovered func(open []*Span)
}

// NewOwner returns an Owner for this process that no other process has.
func NewOwner() string { return random() }

// Losses are spans, and data points of metrics, that were evicted for newer ones or could
// not be read.
type Losses struct {
	Own, OwnRejected int // of this process
	Others           int

	OwnPoints, OtherPoints int // data points of metrics

	SetAside int // files, not spans, that were moved away unread
}

// Add adds more.
func (l *Losses) Add(more Losses) {
	l.Own += more.Own
	l.OwnRejected += more.OwnRejected
	l.Others += more.Others
	l.OwnPoints += more.OwnPoints
	l.OtherPoints += more.OtherPoints
	l.SetAside += more.SetAside
}

// A LossCounter adds up Losses. They may come from a call that nobody waits for any more.
type LossCounter struct {
	mu  sync.Mutex
	sum Losses
}

func (c *LossCounter) add(l Losses) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Add(l)
}

// Take returns the losses since the last call.
func (c *LossCounter) Take() (l Losses) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, c.sum = c.sum, Losses{}
	return l
}

var errNoHome = errors.New("no state directory: set $XDG_STATE_HOME or $HOME to an absolute path")

// StateDir returns spantee's own directory in the state directory of the XDG base
// directory specification, which ignores relative paths, or of the system.
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "spantee"), nil
	}
	home, _ := os.UserHomeDir()
	if !filepath.IsAbs(home) {
		return "", errNoHome
	}
	dir, err := filepath.Join(home, ".local", "state"), error(nil)
	switch runtime.GOOS {
	case "darwin":
		dir, err = os.UserConfigDir()
	case "windows":
		dir, err = os.UserCacheDir()
	}
	return filepath.Join(dir, "spantee"), err
}

// Default returns the user's spool.
func Default() (Spool, error) {
	dir, err := StateDir()
	if err != nil {
		return Spool{}, err
	}
	return Spool{Dir: filepath.Join(dir, "spool"), Max: DefaultMax}, nil
}

// A Destination is where requests are to be sent. It holds no secret.
type Destination struct {
	Protocol string `json:"protocol"` // as in OTEL_EXPORTER_OTLP_PROTOCOL, or file
	Endpoint string `json:"endpoint"`
	Signal   string `json:"signal,omitempty"` // Metrics, or empty for spans
}

// Metrics is the signal of a destination that takes metrics.
const Metrics = "metrics"

// File is the protocol of a destination that is a file.
const File = "file"

// dir names a destination's directory.
func (d Destination) dir() string {
	id := d.Protocol + "\n" + d.Endpoint
	if d.Signal != "" { // over gRPC, spans and metrics have the same endpoint
		id += "\n" + d.Signal
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

const (
	rejectedDir = "rejected"
	corruptDir  = "corrupt"
	journalDir  = "open"
	lockFile    = "lock"
)

// A Request is an ExportTraceServiceRequest, or an ExportMetricsServiceRequest for a
// destination of metrics, in wire format.
type Request struct {
	Body     []byte
	Spans    int
	Points   int  // data points; a request has either spans or data points
	Delta    bool // some data points would count twice if they arrived twice
	Rejected bool // by the receiver for good: it is kept, and not sent again
}

// RequestOf returns a request of spans.
func RequestOf(spans []*Span) Request { return Request{Body: Encode(spans), Spans: len(spans)} }

// Put keeps a request. If the spool is full, the oldest requests are evicted, whatever
// their destination. Put fails if the room is held by journals of running processes or
// requests in flight, which cannot be evicted.
func (s Spool) Put(ctx context.Context, to Destination, req Request, reason string) error {
	return do(ctx, func() error { return s.put(to, req, reason, s.Owner) })
}

func (s Spool) put(to Destination, req Request, reason, owner string) error {
	note, err := encodeNote(Note{Destination: to, Reason: reason, Sum: checksum(req.Body), Points: req.Points, Delta: req.Delta})
	if err != nil {
		return err
	}
	size := len(note) + len(req.Body)
	names := []string{to.dir()}
	if req.Rejected {
		names = append(names, rejectedDir)
	}
	dir, err := s.makeDir(names...)
	if err != nil {
		return err
	}
	if err := s.makeRoom(int64(size)); err != nil {
		return err
	}
	return write(filepath.Join(dir, newName(req, size, owner).String()), slices.Concat(note, req.Body))
}

// write creates a file that exists whole or not at all. It is not synced: many processes
// that end at once would wait for the disk longer than they may.
func write(path string, b []byte) error {
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return err
	}
	onDisk("write")
	_, err = f.Write(b)
	if err = cmp.Or(err, f.Close()); err == nil { // Windows renames no open file
		err = rename(f.Name(), path)
	}
	if err != nil {
		discard(f.Name())
	}
	return err
}

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".new-"

func createTemp(dir string) (*os.File, error) {
	onDisk("create")
	return os.CreateTemp(dir, tempPrefix) // never follows a link: the file must not exist yet
}

// staleAfter is the age at which the temporary file or lock of a process that may
// have been killed is removed.
const staleAfter = time.Hour

// isStale reports whether a temporary file or a lock may have been left by a killed process.
func (f file) isStale() bool {
	info, err := f.Info()
	return err == nil && time.Since(info.ModTime()) > staleAfter
}

// setAside moves a file into the directory of corrupt ones, and returns its new path.
func setAside(path string) (to string, err error) {
	dir, base := filepath.Join(filepath.Dir(path), corruptDir), filepath.Base(path)
	if n := parseName(base); n != (name{}) {
		base = n.key()
	}
	if err := PrivateDir(dir); err != nil {
		return "", err
	}
	to = filepath.Join(dir, base)
	return to, rename(path, to)
}

// refuse sets aside a file that is not this user's, and reports it.
func (s Spool) refuse(path string, why error) error {
	to, err := setAside(path)
	if u, ok := errors.AsType[*Untrusted](why); ok && err == nil {
		s.Losses.add(Losses{SetAside: 1})
		if s.SetAside != nil {
			s.SetAside(&Untrusted{Path: to, Why: u.Why}) // the hint was for the former path
		}
	}
	return err
}

// Check returns an error if nothing can be kept.
func (s Spool) Check(ctx context.Context) error {
	return do(ctx, func() error {
		dir, err := s.makeDir()
		if err != nil {
			return err
		}
		f, err := createTemp(dir)
		if err != nil {
			return err
		}
		defer discard(f.Name())
		return f.Close()
	})
}

var (
	errTooBig = errors.New("request exceeds the size limit")
	errFull   = errors.New("the spool is full")
)
