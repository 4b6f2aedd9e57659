package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/file"
)

// A Reader reads the unpacked contents of a file until its Finder's context ends.
type Reader struct {
	*bufio.Reader // which may read thousands of times more than the file has
	file          *os.File
	ctx           context.Context
	stop          func() bool // ends the wait for ctx
}

// Open opens a file, but does not wait once the context ends, because opening a pipe without
// a writer cannot be interrupted.
func (f *Finder) Open(name string) (*Reader, error) {
	var file *os.File
	err, done := proc.Unless(f.Ctx.Done(), func() (err error) {
		file, err = os.Open(name)
		return err
	})
	if !done {
		return nil, f.Ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	in := &Reader{file: file, ctx: f.Ctx}
	in.stop = context.AfterFunc(f.Ctx, func() { _ = file.SetReadDeadline(time.Unix(0, 0)) }) // only pipes have deadlines
	contents := io.Reader(file)
	if f.Progress != nil {
		contents = io.TeeReader(file, f.Progress)
	}
	if in.Reader, err = Unpack(bufio.NewReaderSize(contents, headSize)); err != nil {
		_ = in.Close()
		return nil, err
	}
	in.Reader = fromUTF16(in.Reader)
	return in, nil
}

func (in *Reader) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	return in.Reader.Read(p)
}

// Close closes the file.
func (in *Reader) Close() error {
	in.stop()
	return in.file.Close()
}

// headSize is how much is read of a file to find out what it is. Later reads are larger, and
// bypass the buffer that holds it.
const headSize = 16 << 10

// maxWindow is how much memory a zstd file may require: zstd's own default limit.
const maxWindow = 128 << 20

// Unpack returns the contents of a file that may be compressed with gzip or zstd.
func Unpack(r *bufio.Reader) (*bufio.Reader, error) {
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

// IsOTLP reports whether a file begins like OTLP JSON: as written by spantee, by a
// collector, or formatted by hand.
func IsOTLP(head []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(bytes.TrimPrefix(head, file.ByteOrderMark)), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`"resourceSpans"`))
}
