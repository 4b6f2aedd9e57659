// Package spool keeps undelivered spans on disk. Several processes may share a spool, which
// is a folder of logs:
//
//	TIME-RANDOM.log         what one process has not delivered
//	TIME-RANDOM.rejected    what a receiver has rejected for good
//	TIME-RANDOM.corrupt     a log that cannot be read, or is not this user's
//
// A process begins the names of all its files with the time at which it began, and holds the
// lock of its log while it lives (log.go). Whoever can lock a log may send what is in it: its
// process has ended, was killed, or had too much to send (claim.go). It marks in the log what
// was delivered, and removes the log when nothing is left. contents.go has the format.
//
// # Trust
//
// The boundary is the user. The state folder, the spool and every file that is read must
// belong to this user and be writable by nobody else; symbolic links, pipes and devices are
// never opened. A folder that fails the check is refused, with an error that says why. A
// file that fails it is renamed, unread, and reported once through SetAside.
//
// Within that boundary an endpoint counts as the user's own, because only a process of the
// user can have written it. Requests are sent to it, but without headers or certificates
// unless the configuration names the same endpoint. A path is trusted less, because
// appending to a file such as .bashrc can run code. Spans for a file wait until the user
// names a file again.
//
// # Locks
//
// Some disks have no locks, and locks of another host may not be visible. There, the log of a
// process that has not marked its end is sent only after a day without a write.
//
// # A frozen disk
//
// A call gives up after two seconds without an answer of the disk, not counting time in which
// this process computes. Spans that were not on disk by then count as lost.
package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// DefaultMax is the default size limit of a spool, in bytes.
const DefaultMax = 256 << 20

// A Spool is a folder, created when there is something to keep.
type Spool struct {
	Dir string
	Max int64 // bytes of all files in it

	// SetAside, if set, is told of each file that is set aside unread because it is not
	// this user's, or not a log.
	SetAside func(why *Untrusted)

	// Lost, if set, is told of the spans in each file that was evicted.
	Lost func(name string, spans int)
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
	return In(dir), nil
}

// In returns the spool in a state folder.
func In(stateDir string) Spool {
	return Spool{Dir: filepath.Join(stateDir, "spool"), Max: DefaultMax}
}

// A Destination is where spans are to be sent. It holds no secret.
type Destination struct {
	Protocol string `json:"protocol"` // as in OTEL_EXPORTER_OTLP_PROTOCOL, or file
	Endpoint string `json:"endpoint"`
}

// File is the protocol of a destination that is a file.
const File = "file"

// RejectedExt ends the name of a file of rejected spans.
const RejectedExt = ".rejected"

const (
	logExt     = ".log"
	corruptExt = ".corrupt"
	tempPrefix = ".new-"
)

// Check returns an error if nothing can be kept.
func (s Spool) Check() error {
	return do(func() error {
		dir, err := s.enter(true)
		if err != nil {
			return err
		}
		defer closeFolder(dir)
		name := fmt.Sprintf("%scheck-%d", tempPrefix, os.Getpid())
		file, err := replace(dir, name, nil)
		if err != nil {
			return err
		}
		file.Close()
		return dir.Remove(name)
	})
}

// enter opens the spool, and creates it if create is set. Otherwise it returns nil if there
// is none.
func (s Spool) enter(create bool) (*os.Root, error) {
	if err := EnterDir(s.Dir, create); err != nil {
		return nil, ignore(err, fs.ErrNotExist)
	}
	return os.OpenRoot(s.Dir)
}

// closeFolder ends the use of a folder, which cannot fail in a way that matters.
func closeFolder(dir *os.Root) { _ = dir.Close() }

// names returns the names of the files in the spool, the oldest first.
func names(dir *os.Root) (names []string, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err = f.Readdirnames(-1)
	slices.Sort(names) // which begin with a time
	return names, err
}
