package tee

import (
	"bytes"
	"io"
	"os"
)

// spillChunk is how much is written to the spill at once.
const spillChunk = 128 << 10

// A spill is an unlinked file, used as a ring of max bytes. It has the bytes between
// the consumer and the ring.
type spill struct {
	dir  string
	max  int64
	open func(dir string) (spillFile, error)

	f       spillFile     // nil if there are no bytes
	base    int64         // offset in the stream of the file's first byte
	lines   int64         // newlines in it
	written chan struct{} // closed when spillOver ends; nil if it is not running
	failed  bool          // nothing more can be written
	over    bool          // the consumer is finished
	buf     []byte        // the chunk that spillOver writes
}

// A spillFile is what a spill needs of an os.File.
type spillFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// at returns where n bytes at an offset in the stream are, or less at the end of the
// file.
func (s *spill) at(offset int64, n int) (int64, int) {
	if s.f == nil {
		return 0, int(min(int64(n), s.max))
	}
	at := (offset - s.base) % s.max
	return at, int(min(int64(n), s.max-at))
}

// hasRoom reports whether another chunk can be spilled beside size bytes.
func (s *spill) hasRoom(size int64) bool { return !s.failed && s.max-size >= spillChunk }

// createUnlinked creates a file in dir and removes its name, so that a kill leaves
// nothing of the stream on disk. Windows cannot remove an open file, and has no spill.
func createUnlinked(dir string) (spillFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, ".spill-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// startSpilling starts spillOver if the ring is nearly full and the spill has room. It
// returns a channel that is closed when spillOver ends, nil if it does not start it. It
// is called with mu held.
func (t *Tee) startSpilling() (written <-chan struct{}) {
	if t.spill.written != nil || t.ring.len() < ringSize/4*3 || !t.mustSpill() {
		return nil
	}
	t.spill.written = make(chan struct{})
	go t.spillOver()
	return t.spill.written
}

// spilledSize returns how many bytes are in the spill. It is called with mu held.
func (t *Tee) spilledSize() int64 { return t.ring.from - t.consumer.next }

// mustSpill is called with mu held.
func (t *Tee) mustSpill() bool {
	return t.ring.len() > ringSize/2 && t.spill.hasRoom(t.spilledSize()) && t.failure == nil
}

// spillOver moves the oldest bytes of the ring to the spill, until half of the ring is
// free. It writes a copy of them without holding mu: until they are written, the consumer
// may take them from the ring, so a disk that hangs does not keep them from it. After an
// error, nothing more is spilled: the disk may be full, and other programs need it.
func (t *Tee) spillOver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.spill
	if s.buf == nil {
		s.buf = make([]byte, spillChunk)
	}
	for t.mustSpill() {
		f, offset := s.f, t.ring.from
		at, n := s.at(offset, spillChunk)
		p := s.buf[:copy(s.buf[:n], t.ring.head(n))]
		t.mu.Unlock()
		var err error
		if f == nil {
			f, err = s.open(s.dir)
		}
		if err == nil {
			_, err = f.WriteAt(p, at)
		}
		t.mu.Lock()
		if s.f == nil {
			s.f, s.base = f, offset
		}
		switch {
		case err != nil:
			s.failed = true
		case t.ring.from == offset: // the consumer has not taken them meanwhile
			t.ring.from += int64(len(p))
			s.lines += int64(bytes.Count(p, []byte{'\n'}))
			t.madeRoom()
		}
	}
	close(s.written)
	s.written = nil
	if s.over || t.failure != nil {
		t.closeSpill()
	}
}

// closeSpill closes the spill, unless spillOver is writing. It is called with mu held,
// and does not wait for the disk, which may hang.
func (t *Tee) closeSpill() {
	if f := t.spill.f; f != nil && t.spill.written == nil {
		t.spill.f = nil
		go func() { _ = f.Close() }()
	}
}
