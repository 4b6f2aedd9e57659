package main

import (
	"bytes"
	"io"
	"os"
	"syscall"
)

// defaultSpillMax is the default of --spill-max.
const defaultSpillMax = 1 << 30

// A spill holds what the mapper has not seen once the ring is full: an unlinked
// file, used as a ring of max bytes. Offsets are offsets in the stream.
type spill struct {
	f        spillFile
	max      int64
	origin   int64 // offset of the file's first byte
	from, to int64 // the bytes in it
	reserved int64 // how much of the file has disk space; max after an error
}

// A spillFile is what a spill needs of an os.File.
type spillFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	syscall.Conn
}

// reserveSize is how much disk space is reserved at once. Without a reservation, ext4
// accounts for each block of 4 KiB that is written, which takes as long as copying it.
const reserveSize = 16 << 20

// writeSize is how much is written at once. Linux takes the memory that caches a write
// as one block. A virtual machine may have returned large free blocks to its host, and
// getting them back takes ten times as long as the write.
const writeSize = 128 << 10

// newSpill makes an empty spill in dir, which it creates, for the stream from
// offset on.
func newSpill(dir string, limit, offset int64) (*spill, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := openUnlinked(dir)
	if err != nil {
		return nil, err
	}
	return &spill{f: f, max: limit, origin: offset, from: offset, to: offset}, nil
}

// createUnlinked creates a file and removes its name. On systems that cannot remove
// an open file there is no spill, because a kill would leave the stream on disk.
func createUnlinked(dir string) (*os.File, error) {
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

func (s *spill) empty() bool { return s.from == s.to }
func (s *spill) room() int64 { return s.max - (s.to - s.from) }

// write writes p at the end, where there must be room. The caller then advances to.
func (s *spill) write(p []byte) error {
	for at := s.to - s.origin; len(p) > 0; {
		offset := at % s.max
		n := min(int64(len(p)), writeSize, s.max-offset)
		if s.reserved < offset+n {
			s.reserve(offset + n)
		}
		if _, err := s.f.WriteAt(p[:n], offset); err != nil {
			return err
		}
		at += n
		p = p[n:]
	}
	return nil
}

// reserve reserves disk space up to an offset of the file, and some more. An error is
// ignored: without a reservation, writing is only slower.
func (s *spill) reserve(to int64) {
	size := min(to+reserveSize, s.max) - s.reserved
	if reserveSpace(s.f, s.reserved, size) != nil {
		size = s.max - s.reserved
	}
	s.reserved += size
}

// read reads up to len(p) of the size oldest bytes. The caller then advances from.
func (s *spill) read(p []byte, size int64) (int, error) {
	at := (s.from - s.origin) % s.max
	n, err := s.f.ReadAt(p[:min(int64(len(p)), size, s.max-at)], at)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// lines counts the newlines, as far as they can be read.
func (s *spill) lines() (n int64) {
	buf := make([]byte, pieceSize)
	for rest := *s; !rest.empty(); {
		k, err := rest.read(buf, rest.to-rest.from)
		if err != nil || k == 0 {
			break
		}
		n += int64(bytes.Count(buf[:k], newline))
		rest.from += int64(k)
	}
	return n
}

var newline = []byte{'\n'}
