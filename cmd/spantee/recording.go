package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spantee/spantee/mapping"
)

// A recording is a stream that comes from a file.
type recording struct {
	written time.Time     // modification time of the file
	shift   time.Duration // added to all times
	since   time.Time     // if set, the start of the earliest run
	again   string        // the command that sends it again
	grows   bool          // it is a session log that is followed
}

// recordingOf returns nil if stdin is live.
func (o *options) recordingOf(stdin *os.File) (*recording, error) {
	info, err := stdin.Stat()
	if err != nil || !info.Mode().IsRegular() {
		if o.now {
			return nil, usageError{errors.New("--now needs a recording: spantee --now < FILE")}
		}
		return nil, nil
	}
	name := "FILE"
	if target, err := os.Readlink(fmt.Sprint("/proc/self/fd/", stdin.Fd())); err == nil {
		name = quoted(target)
	}
	rec := &recording{written: info.ModTime(), again: "spantee replay " + name}
	if len(os.Args) > 1 { // flags may hold secrets
		rec.again += " with the same flags"
	}
	if o.now {
		from, err := stdin.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		rest := io.NewSectionReader(stdin, from, info.Size()-from)
		if err := o.endNow(rec, func(m *mapping.Mapper) iter.Seq2[mapping.Output, error] { return m.Read(rest) }); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// outputsOf is what a Mapper makes of a recording.
type outputsOf func(*mapping.Mapper) iter.Seq2[mapping.Output, error]

// endNow shifts the times of a recording so that the last of its spans ends now, which takes
// reading it twice.
func (o *options) endNow(rec *recording, outputs outputsOf) error {
	m, err := mapping.New(mapping.Options{Agent: o.agent, Deltas: mapping.DeltasOff, Replay: rec.written})
	if err != nil {
		return usageError{err} // --agent
	}
	var last time.Time
	for out, err := range outputs(m) {
		if err == nil && out.End.After(last) { // an error is reported the second time
			last = out.End
		}
	}
	if !last.IsZero() {
		rec.shift = time.Since(last)
	}
	return nil
}

// headSize is how much is read of a file to find out what it is. Later reads are larger, and
// bypass the buffer that holds it.
const headSize = 16 << 10

// maxWindow is how much memory a zstd file may require: zstd's own default limit.
const maxWindow = 128 << 20

// unpack returns the contents of a file that may be compressed with gzip or zstd.
func unpack(r *bufio.Reader) (*bufio.Reader, error) {
	var unpacked io.Reader
	var err error
	switch magic, _ := r.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unpacked, err = gzip.NewReader(r)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	default:
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(unpacked), nil
}
