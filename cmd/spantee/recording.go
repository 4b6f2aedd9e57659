package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"

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
		err = o.endNow(rec, io.NewSectionReader(stdin, from, info.Size()-from))
		if err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// endNow shifts the times of a recording so that its last run ends now.
func (o *options) endNow(rec *recording, r io.Reader) error {
	var last uint64
	m, err := o.unshifted(rec)
	if err != nil {
		return err
	}
	for out, err := range m.Read(r) {
		if err != nil {
			return err
		}
		last = max(last, endOf(out.Span))
	}
	rec.endsNow(last)
	return nil
}

// unshifted returns a Mapper for finding out when a recording ended.
func (o *options) unshifted(rec *recording) (*mapping.Mapper, error) {
	return mapping.New(mapping.Options{Agent: o.agent, Deltas: mapping.DeltasOff, Replay: rec.written})
}

// endsNow shifts a recording whose last span ended at last.
func (rec *recording) endsNow(last uint64) {
	if last > 0 {
		rec.shift = time.Since(time.Unix(0, int64(last)))
	}
}

// endOf returns when an encoded span ended, 0 if it has no end.
func endOf(span []byte) uint64 {
	const fieldEnd = 8
	at, _ := protowire.ConsumeFixed64(fieldOf(span, fieldEnd))
	return at
}

// traceOf returns the trace id of an encoded span.
func traceOf(span []byte) (id trace.TraceID) {
	const fieldTraceID = 1
	b, _ := protowire.ConsumeBytes(fieldOf(span, fieldTraceID))
	copy(id[:], b)
	return id
}

// fieldOf returns the encoded value of a field and what follows it, nil if there is none.
func fieldOf(span []byte, field protowire.Number) []byte {
	for len(span) > 0 {
		num, typ, n := protowire.ConsumeTag(span)
		if n < 0 {
			return nil
		}
		if span = span[n:]; num == field {
			return span
		}
		if n = protowire.ConsumeFieldValue(num, typ, span); n < 0 {
			return nil
		}
		span = span[n:]
	}
	return nil
}

// maxWindow is how much memory a zstd file may require: zstd's own default limit.
const maxWindow = 128 << 20

// unpack returns the contents of a file that may be compressed with gzip or zstd.
func unpack(r *bufio.Reader) (*bufio.Reader, error) {
	switch magic, _ := r.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return bufio.NewReader(unpacked), nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return bufio.NewReader(unpacked), nil
	}
	return r, nil
}
