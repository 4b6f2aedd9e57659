package spool

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	ahead   *Claim // already read, but not joined with the previous claim

	Evicted    Evicted // to make room for the requests of a log
	unreadable error   // why a file was left in place
}

// Outbox opens the backlog for a destination. It returns nil if there is none.
func (s Spool) Outbox(ctx context.Context, to Destination) (*Outbox, error) {
	return within(ctx, func() (*Outbox, error) {
		o := &Outbox{s: s, to: to, dirName: to.dir(), later: map[string]bool{}}
		dir, err := s.openDir(o.dirName)
		if dir == nil || err != nil {
			return nil, err
		}
		dir.Close()
		lock, err := TryLock(filepath.Join(o.dir(), lockFile))
		switch {
		case isUnsupported(err): // without locks, some requests may be sent twice
		case err != nil:
			return nil, err
		case lock == nil:
			return nil, ErrBusy
		}
		o.lock = lock
		waits, err := o.list() // by the lock's holder only: there may be many files, and processes
		if err != nil || !waits {
			o.Close()
			return nil, err
		}
		return o, nil
	})
}

func (o *Outbox) dir() string { return filepath.Join(o.s.Dir, o.dirName) }

// list finds the waiting requests. Because this process has the lock, requests
// marked as being sent were left by a process that died.
func (o *Outbox) list() (waits bool, err error) {
	var files []file
	err = o.s.eachFile(func(e fs.DirEntry) {
		n, ok := parseName(e.Name())
		switch {
		case !ok:
			removeStale(o.dir(), e)
		case !e.IsDir() && !o.later[n.key()]:
			files = addOldest(files, file{dir: o.dir(), base: e.Name(), name: n, at: n.at})
		}
	}, o.dirName)
	o.files = oldest(files)
	return len(o.files) > 0, err
}

// Close releases the Outbox for other processes.
func (o *Outbox) Close() {
	if o.ahead != nil {
		_ = o.ahead.Release() // on failure, the next process to hold the lock finds the request unchanged
	}
	unlock(o.lock)
}

// A Claim is a request taken from an Outbox, joined from one or more files. Done or
// Release ends it.
type Claim struct {
	Part
	MetricsRequest      // of a destination of metrics, whose requests are never joined
	Own            bool // this process put it there

	outbox *Outbox
	files  []file
	spans  []int // of each file
	bytes  int64
}

// Halves splits a claim into two; second is nil if the claim has only one file. A
// file that the receiver cannot take should not cost the others.
func (c *Claim) Halves() (first, second *Claim) {
	n := len(c.files) / 2
	if n == 0 {
		return c, nil
	}
	spans := 0
	for _, k := range c.spans[:n] {
		spans += k
	}
	a, b := *c, *c
	a.files, a.spans, a.Spans = c.files[:n], c.spans[:n], c.Spans[:spans]
	b.files, b.spans, b.Spans = c.files[n:], c.spans[n:], c.Spans[spans:]
	return &a, &b
}

// Next claims the oldest request that was not put back; c is nil if none is left.
// Following requests of the same resource are joined with it, up to a size that
// receivers accept and up to a quarter of the spool's limit, because requests being
// sent cannot be evicted.
//
// A file that is not a request is set aside; corrupt is the number of spans or data
// points it claimed to have. A file of deltas is set aside, too, if its process died
// while it sent them: they may have arrived, and would count twice. A file that
// cannot be read for another reason stays in place, and Next returns the reason once
// nothing else is left.
func (o *Outbox) Next(ctx context.Context) (c *Claim, corrupt int, err error) {
	type next struct {
		*Claim
		corrupt int
	}
	n, err := within(ctx, func() (n next, err error) {
		n.Claim, n.corrupt, err = o.next()
		return n, err
	})
	return n.Claim, n.corrupt, err
}

func (o *Outbox) next() (c *Claim, corrupt int, err error) {
	most := min(maxRequest, o.s.Max/4)
	c, o.ahead = o.ahead, nil
	for {
		more, n, err := o.one(c != nil)
		corrupt += n
		switch {
		case more == nil:
			return c, corrupt, err
		case c == nil:
			c = more
			if o.to.Signal == Metrics {
				return c, corrupt, nil
			}
		case c.bytes+more.bytes > most || c.Own != more.Own || !c.same(more.Part):
			o.ahead = more
			return c, corrupt, nil
		default:
			c.files, c.spans = append(c.files, more.files...), append(c.spans, more.spans...)
			c.Spans = append(c.Spans, more.Spans...)
			c.bytes += more.bytes
		}
		if c.bytes >= most {
			return c, corrupt, nil
		}
	}
}

// one claims the next file that is a request. With listed, it considers only files
// that are already known.
func (o *Outbox) one(listed bool) (c *Claim, corrupt int, err error) {
	for {
		if len(o.files) == 0 {
			if listed {
				return nil, corrupt, nil
			}
			waits, err := o.list()
			if err != nil || !waits {
				return nil, corrupt, cmp.Or(err, o.unreadable)
			}
		}
		f := o.files[0]
		o.files = o.files[1:]
		c, err := o.claim(f)
		switch {
		case err == nil:
			return c, corrupt, nil
		case errors.Is(err, errExpanded):
			if !listed {
				o.files = nil // the requests are as old as the log was
			}
		case o.pass(f, err) && errors.Is(err, errCorrupt):
			corrupt += f.name.spans + f.name.points
		}
	}
}

// pass leaves out a file that cannot be sent. One that is no request, or that is not this
// user's, is set aside; pass reports whether it was.
func (o *Outbox) pass(f file, why error) (aside bool) {
	err := why
	switch {
	case errors.Is(why, errCorrupt):
		err = setAside(f.path())
	case isUntrusted(why): // its name cannot be trusted
		err = o.s.refuse(f.path(), why)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // otherwise another process has evicted it or set it aside
		o.later[f.name.key()], o.unreadable = true, err
	}
	return err == nil
}

// errExpanded means that a log was replaced by requests, which have to be listed.
var errExpanded = errors.New("more than one request")

// claim takes one file, and sets it aside if it is not a request. One of several resources,
// or of more spans than receivers accept at once, is replaced by requests.
func (o *Outbox) claim(f file) (*Claim, error) {
	c := &Claim{Own: f.name.ownedBy(o.s.Owner), outbox: o, bytes: f.name.bytes}
	var note Note
	var body []byte
	var parts []Part
	var err error
	if f.name.log {
		note, parts, err = readParted(f.path())
	} else {
		note, body, err = readRequest(f.path(), f.name.bytes)
	}
	switch {
	case err != nil:
	case note.Destination != o.to:
		err = errCorrupt // this package did not write the file
	case o.to.Signal == Metrics:
		if c.MetricsRequest, err = readMetrics(body); err == nil && c.Delta && f.name.sending {
			err = errCorrupt
		}
	case !f.name.log:
		parts, err = readParts(body)
	}
	switch {
	case err != nil:
	case len(parts) > 1:
		return nil, cmp.Or(o.expand(f, note, parts), errExpanded)
	case len(parts) == 1:
		c.Part = parts[0]
	}
	if err != nil {
		return nil, err
	}
	if !f.name.sending {
		from := f.path()
		f.name.sending = true
		f.base = f.name.String()
		if err := rename(from, f.path()); err != nil {
			return nil, err
		}
	}
	c.files, c.spans = []file{f}, []int{len(c.Spans)}
	return c, nil
}

func readParted(path string) (Note, []Part, error) {
	l, err := readLog(path)
	if err != nil {
		return Note{}, nil, cmp.Or(ignore(ignore(err, io.EOF), io.ErrUnexpectedEOF), errCorrupt)
	}
	return l.note, l.parts(), nil
}

// expand replaces a log by requests. A kill meanwhile may double its spans.
func (o *Outbox) expand(f file, note Note, parts []Part) error {
	owner := ""
	if f.name.ownedBy(o.s.Owner) {
		owner = o.s.Owner
	}
	room := o.s.withFreed(f.name.bytes)
	for _, p := range parts {
		evicted, err := room.put(o.to, Request{Body: p.AppendTo(nil), Spans: len(p.Spans)}, note.Reason, owner)
		o.Evicted.Add(evicted)
		if err != nil {
			return err
		}
	}
	return remove(f.path())
}

// Room returns the spool, in which the bytes that Done will free count as free.
func (c *Claim) Room() Spool {
	s := c.outbox.s
	for _, f := range c.files {
		s.Max += f.name.bytes
	}
	return s
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
		f.name.sending = false
		c.outbox.later[f.name.key()] = true
		errs = append(errs, rename(from, filepath.Join(f.dir, f.name.String())))
	}
	return errors.Join(errs...)
}
