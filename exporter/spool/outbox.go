package spool

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrBusy means that another process is sending the backlog.
var ErrBusy = errors.New("another process is sending it")

// An Outbox is the backlog for one destination. Only one process has it at a time.
type Outbox struct {
	s       Spool
	to      Destination
	dirName string
	later   map[string]bool // requests to leave for another time
	lock    *os.File
	files   []file

	unreadable error // why a file was left in place
}

// Outbox opens the backlog for a destination. It returns nil if there is none.
func (s Spool) Outbox(ctx context.Context, to Destination) (*Outbox, error) {
	return within(ctx, func() (*Outbox, error) {
		o := &Outbox{s: s, to: to, dirName: to.dir(), later: map[string]bool{}}
		dir, err := s.findDir(o.dirName)
		if dir == "" || err != nil {
			return nil, err
		}
		lock, err := TryLock(filepath.Join(dir, lockFile))
		switch {
		case isUnsupported(err): // without locks, some requests may be sent twice
		case err != nil:
			return nil, err
		case lock == nil:
			return nil, ErrBusy
		}
		o.lock = lock
		err = o.list() // by the lock's holder only: there may be many files, and processes
		if err != nil || len(o.files) == 0 {
			o.Close()
			return nil, err
		}
		return o, nil
	})
}

// list finds the waiting requests. Because this process has the lock, requests
// marked as being sent were left by a process that died.
func (o *Outbox) list() error {
	files, err := o.s.files(Waiting, o.dirName)
	o.files = slices.DeleteFunc(files, func(f file) bool { return !f.isRequest() || o.later[f.name.key()] })
	slices.SortFunc(o.files, byAge)
	return err
}

// Close releases the Outbox for other processes.
func (o *Outbox) Close() { unlock(o.lock) }

// A Claim is one or more files taken from an Outbox. Done or Release ends it.
type Claim struct {
	Spans   []*Span
	Metrics Request // instead of spans, of one file
	Own     bool    // this process put it there

	outbox *Outbox
	files  []file
	bytes  int64 // of the files
}

// Next claims the oldest file that was not put back; c is nil if none is left.
// Following files are joined with it, up to a size that receivers accept and up to a
// quarter of the spool's limit, because files being sent cannot be evicted.
//
// A file that is not a request is set aside, and what it claims to have is lost. A file of
// deltas is set aside, too, if its process died while it sent them: they may have arrived,
// and would count twice. A file that cannot be read for another reason stays in place, and
// Next returns the reason once nothing else is left.
func (o *Outbox) Next(ctx context.Context) (*Claim, error) { return within(ctx, o.next) }

func (o *Outbox) next() (c *Claim, err error) {
	most := min(maxRequest, o.s.Max/4)
	for {
		if len(o.files) == 0 {
			if c != nil {
				return c, nil
			}
			if err := o.list(); err != nil || len(o.files) == 0 {
				return nil, cmp.Or(err, o.unreadable)
			}
		}
		f := o.files[0]
		if c != nil && (o.to.Signal == Metrics || c.bytes+f.name.bytes > most || c.Own != f.name.ownedBy(o.s.Owner)) {
			return c, nil
		}
		o.files = o.files[1:]
		more, err := o.claim(f)
		switch {
		case err == nil && c == nil:
			c = more
		case err == nil:
			c.files, c.bytes, c.Spans = append(c.files, more.files...), c.bytes+more.bytes, append(c.Spans, more.Spans...)
		default:
			o.pass(f, err)
		}
	}
}

// pass leaves out a file that cannot be sent. One that is no request, or that is not this
// user's, is set aside.
func (o *Outbox) pass(f file, why error) {
	err := why
	switch {
	case errors.Is(why, errCorrupt):
		if _, err = setAside(f.path()); err == nil {
			o.s.lose(f)
		}
	case isUntrusted(why): // its name cannot be trusted
		err = o.s.refuse(f.path(), why)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // otherwise another process has evicted it or set it aside
		o.later[f.name.key()], o.unreadable = true, err
	}
}

// claim takes one file, and returns an error if it is not a request.
func (o *Outbox) claim(f file) (*Claim, error) {
	l, err := readLog(f.path())
	if err != nil {
		return nil, err
	}
	c := &Claim{Spans: l.spans(), Metrics: l.metrics, Own: f.name.ownedBy(o.s.Owner), outbox: o, bytes: l.size}
	switch {
	case l.note.Destination != o.to: // this package did not write the file
		return nil, errCorrupt
	case c.bytes != f.name.bytes, len(c.Spans) != f.name.spans, c.Metrics.Points != f.name.points:
		return nil, errCorrupt
	case c.Metrics.Delta && f.name.sending:
		return nil, errCorrupt
	}
	if !f.name.sending {
		from := f.path()
		f.setSending(true)
		if err := rename(from, f.path()); err != nil {
			return nil, err
		}
	}
	c.files = []file{f}
	return c, nil
}

// Put keeps what is left of a claim, for the same owner. The bytes that Done will free count
// as free.
func (c *Claim) Put(ctx context.Context, req Request, reason string) error {
	s, owner := c.outbox.s.withFreed(c.bytes), ""
	if c.Own {
		owner = s.Owner
	}
	return do(ctx, func() error { return s.put(c.outbox.to, req, reason, owner) })
}

// Done removes a request that has arrived.
func (c *Claim) Done() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, remove(f.path()))
	}
	return errors.Join(errs...)
}

// Release leaves the request for another time.
func (c *Claim) Release() error {
	var errs []error
	for _, f := range c.files {
		from := f.path()
		f.setSending(false)
		c.outbox.later[f.name.key()] = true
		errs = append(errs, rename(from, f.path()))
	}
	return errors.Join(errs...)
}
