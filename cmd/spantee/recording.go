package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/mapping"
)

// A source is where a stream comes from. The zero source is a live stream.
type source struct {
	mapping.Options        // the times of a recording, or the process of an agent
	again           string // the command that sends a recording again
	grows           bool   // it is session logs that are followed
}

// sourceOf returns what stdin is: a recording if it is a file.
func sourceOf(stdin *os.File) (from source) {
	from.Printed = true
	info, err := stdin.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return from
	}
	name := "FILE"
	if target, err := os.Readlink(fmt.Sprint("/proc/self/fd/", stdin.Fd())); err == nil {
		name = quoted(target)
	}
	from.Replay, from.again = info.ModTime(), "spantee replay "+name
	if len(os.Args) > 1 { // flags may hold secrets
		from.again += " with the same flags"
	}
	return from
}

// outputsOf is what a Mapper makes of a recording.
type outputsOf func(*mapping.Mapper) iter.Seq2[mapping.Output, error]

// shiftToNow returns what to add to the times of a recording so that the last of its spans
// ends now, which takes reading it twice.
func (o *options) shiftToNow(written time.Time, outputs outputsOf) (time.Duration, error) {
	m, err := mapping.New(mapping.Options{Agent: o.agent, Deltas: mapping.DeltasOff, Replay: written})
	if err != nil {
		return 0, cli.Usage(err) // --agent
	}
	var last time.Time
	for out, err := range outputs(m) {
		if err == nil && out.End.After(last) { // an error is reported the second time
			last = out.End
		}
	}
	if last.IsZero() {
		return 0, nil
	}
	return time.Since(last), nil
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
