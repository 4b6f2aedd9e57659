package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// ErrBusy says that another process sends what waits.
var ErrBusy = errors.New("another process is sending it")

// An Outbox is what waits for one destination. It is one process's at a time.
type Outbox struct {
	dir   string
	lock  *flock.Flock
	files []file
}

// Outbox opens what waits for a destination. It returns nil if nothing does.
func (s Spool) Outbox(to Destination) (*Outbox, error) {
	o := &Outbox{dir: filepath.Join(s.Dir, to.dir())}
	if !o.list() {
		return nil, nil
	}
	o.lock = flock.New(filepath.Join(o.dir, lockFile), flock.SetPermissions(0o600))
	locked, err := o.lock.TryLock()
	if err == nil && !locked {
		err = ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// list finds what waits. Whatever is marked as being sent is so by a process
// that died: the lock is ours.
func (o *Outbox) list() bool {
	o.files = filesIn(o.dir, Waiting)
	slices.SortFunc(o.files, byAge)
	return len(o.files) > 0
}

// Close lets other processes have it.
func (o *Outbox) Close() {
	_ = o.lock.Close() // which cannot fail for a reason that matters here
}

// A Claim is a request taken from an Outbox. Done or Back ends it.
type Claim struct {
	*coltracepb.ExportTraceServiceRequest
	file file
}

// Next takes the oldest request, nil if none is left. Files that cannot be read
// are set aside; corrupt says how many spans they claimed to have.
func (o *Outbox) Next() (c *Claim, corrupt int, err error) {
	for len(o.files) > 0 || o.list() {
		f := o.files[0]
		o.files = o.files[1:]
		claimed := f
		claimed.name.sending = true
		if !f.name.sending {
			if err := os.Rename(f.path(), claimed.path()); errors.Is(err, fs.ErrNotExist) {
				continue // given up by another process
			} else if err != nil {
				return nil, corrupt, err
			}
		}
		_, req, err := claimed.read()
		if errors.Is(err, errCorrupt) {
			corrupt += f.name.spans
			err = setAside(claimed.path(), corruptDir)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, corrupt, err
		}
		return &Claim{req, claimed}, corrupt, nil
	}
	return nil, corrupt, nil
}

// Done says that the request has arrived.
func (c *Claim) Done() error { return os.Remove(c.file.path()) }

// Back leaves it for later.
func (c *Claim) Back() error {
	to := c.file
	to.name.sending = false
	return os.Rename(c.file.path(), to.path())
}
