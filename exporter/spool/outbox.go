package spool

import (
	"cmp"
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
	owner string
	later map[string]bool // what is to be left for another time
	lock  *flock.Flock
	files []file
}

// Outbox opens what waits for a destination. It returns nil if nothing does.
func (s Spool) Outbox(to Destination) (*Outbox, error) {
	o := &Outbox{dir: filepath.Join(s.Dir, to.dir()), owner: s.Owner, later: map[string]bool{}}
	if waits, err := o.list(); err != nil || !waits {
		return nil, err
	}
	o.lock = flock.New(filepath.Join(o.dir, lockFile), flock.SetPermissions(0o600))
	locked, err := o.lock.TryLock()
	switch {
	case isUnsupported(err): // then some may be sent twice
	case err != nil:
		return nil, err
	case !locked:
		return nil, ErrBusy
	}
	_, err = o.list() // without what another process has sent meanwhile
	return o, err
}

// list finds what waits. Whatever is marked as being sent is so by a process
// that died, once the lock is ours.
func (o *Outbox) list() (waits bool, err error) {
	files, err := filesIn(o.dir, Waiting)
	o.files = slices.DeleteFunc(files, func(f file) bool { return o.later[f.name.key()] })
	slices.SortFunc(o.files, byAge)
	return len(o.files) > 0, err
}

// Close lets other processes have it.
func (o *Outbox) Close() {
	_ = o.lock.Close() // which cannot fail for a reason that matters here
}

// A Claim is a request taken from an Outbox. Done or Back ends it.
type Claim struct {
	*coltracepb.ExportTraceServiceRequest
	Own bool // this process put it there

	outbox *Outbox
	file   file
}

// Next takes the oldest request that was not put back, nil if none is left. What
// is no request is set aside; corrupt says how many spans it claimed to have.
// What cannot be read for another reason stays where it is, and is the error
// when nothing else is left.
func (o *Outbox) Next() (c *Claim, corrupt int, err error) {
	var unreadable error
	for {
		if len(o.files) == 0 {
			waits, err := o.list()
			if err != nil || !waits {
				return nil, corrupt, cmp.Or(err, unreadable)
			}
		}
		f := o.files[0]
		o.files = o.files[1:]
		c, err := o.claim(f)
		switch {
		case err == nil:
			return c, corrupt, nil
		case errors.Is(err, fs.ErrNotExist): // given up, or set aside, by another process
		case errors.Is(err, errCorrupt):
			corrupt += f.name.spans
		default:
			unreadable = err
			o.later[f.name.key()] = true
		}
	}
}

// claim takes one request, and sets it aside if it is none.
func (o *Outbox) claim(f file) (*Claim, error) {
	c := &Claim{Own: f.name.ownedBy(o.owner), outbox: o, file: f}
	if c.file.name.sending = true; !f.name.sending {
		if err := os.Rename(f.path(), c.file.path()); err != nil {
			return nil, err
		}
	}
	var err error
	_, c.ExportTraceServiceRequest, err = c.file.read()
	switch {
	case errors.Is(err, errCorrupt):
		return nil, cmp.Or(setAside(c.file.path(), corruptDir), err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		_ = c.Back() // or else it is found as it is
	}
	return c, err
}

// Done says that the request has arrived.
func (c *Claim) Done() error { return os.Remove(c.file.path()) }

// Back leaves it for another time.
func (c *Claim) Back() error {
	to := c.file
	to.name.sending = false
	c.outbox.later[to.name.key()] = true
	return os.Rename(c.file.path(), to.path())
}
