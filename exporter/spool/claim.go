package spool

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Claim is a log whose process has ended. This process has locked it, and sends what is in
// it.
type Claim struct {
	Log       string // its name
	Spans     []*Span
	SpansTo   Destination
	Metrics   []byte // an ExportMetricsServiceRequest; empty if there is none to send
	MetricsTo Destination
	Killed    bool // the process did not end by itself

	spool Spool
	left  numbers // to send
	dir   *os.Root
	file  *os.File
}

// Claims returns the logs of processes that have ended, the oldest first, and sets aside what
// is no log. It ends after most logs in a row of processes that run. The caller must Close
// each Claim.
func (s Spool) Claims(most int) iter.Seq2[*Claim, error] {
	return func(yield func(*Claim, error) bool) {
		var dir *os.Root
		all, err := within(func() (all []string, err error) {
			if dir, err = s.enter(false); dir == nil || err != nil {
				return nil, err
			}
			return names(dir)
		})
		if err != nil {
			yield(nil, err)
			return
		}
		running := 0
		for _, name := range all {
			c, err := within(func() (*Claim, error) { return s.claim(dir, name) })
			switch {
			case c != nil:
				running = 0
			case isLog(name):
				running++
			}
			if (c != nil || err != nil) && !yield(c, err) || running >= most {
				break
			}
		}
		if dir != nil {
			_ = do(dir.Close)
		}
	}
}

// isLog reports whether a file has the name of a log that is written.
func isLog(name string) bool {
	return filepath.Ext(name) == logExt && !strings.HasPrefix(name, tempPrefix)
}

// claim returns nil for what is not the log of a process that has ended.
func (s Spool) claim(dir *os.Root, name string) (*Claim, error) {
	if strings.HasPrefix(name, tempPrefix) {
		removeStale(dir, name)
		return nil, nil
	}
	if !isLog(name) {
		return nil, nil
	}
	file, locked := lock(dir, name)
	if file == nil {
		if _, _, err := openIn(dir, name, os.O_WRONLY|os.O_APPEND); isUntrusted(err) {
			return nil, s.setAside(dir, name, err)
		}
		return nil, nil
	}
	contents, err := read(dir, name)
	switch {
	case errors.Is(err, errEmpty) && contents.age > staleAfter:
		file.Close()
		return nil, dir.Remove(name)
	case errors.Is(err, errCorrupt) || isUntrusted(err):
		file.Close()
		return nil, s.setAside(dir, name, err)
	case err != nil || !contents.mayBeSent(locked):
		file.Close()
		return nil, nil
	}
	own, err := os.OpenRoot(s.Dir) // the claim may outlast the walk
	if err != nil {
		file.Close()
		return nil, err
	}
	c := &Claim{
		Log: name, SpansTo: contents.note.Destination, Killed: !contents.closed,
		spool: s, dir: own, file: file,
	}
	c.Spans, c.left = contents.pending()
	if to := contents.note.Metrics; to != nil && len(contents.metrics) > 0 {
		c.Metrics, c.MetricsTo = contents.metrics, *to
	}
	return c, nil
}

// staleAfter is the age at which a temporary file that may have been left by a killed process
// is removed.
const staleAfter = time.Hour

func removeStale(dir *os.Root, name string) {
	if info, err := dir.Lstat(name); err == nil && time.Since(info.ModTime()) > staleAfter {
		_ = dir.Remove(name)
	}
}

// presumedDead is how long a process may write nothing, before its log is sent although its
// lock says nothing about it.
const presumedDead = 24 * time.Hour

// mayBeSent reports whether the process of a log that could be opened has ended.
func (c *contents) mayBeSent(locked bool) bool {
	return c.closed || locked && c.note.isLocal() || c.age > presumedDead
}

// lock opens a log, and locks it if the disk has locks. It returns nil if another process has
// the lock, or if the file is gone or not this user's.
func lock(dir *os.Root, name string) (file *os.File, locked bool) {
	file, info, err := openIn(dir, name, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, false
	}
	locked, err = Lock(file)
	now, gone := dir.Lstat(name)
	if !locked && !isUnsupported(err) || gone != nil || !os.SameFile(info, now) { // replaced meanwhile
		file.Close()
		return nil, false
	}
	return file, locked
}

// setAside renames a file that is not a log, or not this user's.
func (s Spool) setAside(dir *os.Root, name string, why error) error {
	to := strings.TrimSuffix(name, logExt) + corruptExt
	onDisk("rename")
	if err := dir.Rename(name, to); err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	if s.SetAside != nil {
		aside := &Untrusted{Path: filepath.Join(s.Dir, to), Why: "is " + errCorrupt.Error()}
		if u, ok := errors.AsType[*Untrusted](why); ok {
			aside.Why = u.Why // the hint was for the former name
		}
		s.SetAside(aside)
	}
	return nil
}

// Done marks spans as delivered. If it fails, they may arrive twice.
func (c *Claim) Done(spans []*Span) error {
	done := recordDone(c.left.of(spans))
	for _, s := range spans {
		delete(c.left, s)
	}
	return c.append(done)
}

// Reject keeps spans that the receiver will never accept in a file of their own.
func (c *Claim) Reject(spans []*Span, why string) error {
	err := do(func() error {
		return c.spool.reject(c.dir, c.Log, Note{Destination: c.SpansTo, Format: logFormat, Reason: why}, spans)
	})
	return errors.Join(err, c.Done(spans))
}

// reject keeps rejected spans of a log, for the user to see.
func (s Spool) reject(dir *os.Root, log string, note Note, spans []*Span) error {
	head := encodeNote(note)
	b := frameOf(recordsOf(spans)...)
	if err := s.makeRoom(int64(len(head) + len(b))); err != nil {
		return err
	}
	onDisk("create")
	file, info, err := openIn(dir, strings.TrimSuffix(log, logExt)+RejectedExt, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	defer file.Close()
	if info.Size() == 0 {
		b = append(head, b...)
	}
	onDisk("append")
	_, err = file.Write(b)
	return err
}

// MetricsDone marks the metrics as delivered, or as not to be sent again.
func (c *Claim) MetricsDone() error {
	c.Metrics = nil
	return c.append(appendRecord(nil, fieldMetrics, nil))
}

func (c *Claim) append(record []byte) error {
	return do(func() error {
		onDisk("append")
		_, err := c.file.Write(frameOf(record))
		return err
	})
}

// Close ends the claim. A log of which nothing is left to send is removed.
func (c *Claim) Close() error {
	return do(func() error {
		defer closeFolder(c.dir)
		defer c.file.Close()
		if len(c.Metrics)+len(c.left) > 0 {
			return nil
		}
		onDisk("remove")
		return c.dir.Remove(c.Log)
	})
}
