package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/file"
)

// A Reader reads the unpacked contents of a file, as UTF-8.
type Reader struct {
	*bufio.Reader // which may read thousands of times more than the file has
	packed        io.ReadSeeker
	progress      io.Writer // gets what is read of it; may be nil
}

// NewReader returns a Reader of a file that may be compressed with gzip or zstd.
func NewReader(packed io.ReadSeeker) (*Reader, error) {
	in := &Reader{packed: packed}
	return in, in.begin()
}

func (in *Reader) begin() (err error) {
	packed := io.Reader(in.packed)
	if in.progress != nil {
		packed = io.TeeReader(packed, in.progress)
	}
	if in.Reader, err = unpack(bufio.NewReaderSize(packed, headSize)); err == nil {
		in.Reader = fromUTF16(in.Reader)
	}
	return err
}

// Seek implements [io.Seeker] for the beginning of the contents.
func (in *Reader) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.ErrUnsupported
	}
	if _, err := in.packed.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return 0, in.begin()
}

// An OpenFile is read until the context of its Finder ends.
type OpenFile struct {
	Reader
	file *os.File
	ctx  context.Context
	stop func() bool // ends the wait for ctx
}

// Open opens a file, but does not wait once the context ends, because opening a pipe without
// a writer cannot be interrupted. What comes through a pipe is copied, to be read twice.
func (f *Finder) Open(name string) (*OpenFile, error) {
	if err := f.Ctx.Err(); err != nil {
		return nil, err
	}
	var file *os.File
	err, done := proc.Unless(f.Ctx.Done(), func() (err error) {
		if file, err = os.Open(name); err != nil {
			return err
		}
		if info, err := file.Stat(); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
			pipe := file
			file, err = Copy(pipe)
			_ = pipe.Close()
			return err
		}
		return nil
	})
	if !done {
		return nil, f.Ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	in := &OpenFile{Reader: Reader{packed: file, progress: f.Progress}, file: file, ctx: f.Ctx}
	in.stop = context.AfterFunc(f.Ctx, func() { _ = file.SetReadDeadline(time.Unix(0, 0)) }) // only pipes have deadlines
	if err := in.begin(); err != nil {
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// Copy copies what can be read once to a temporary file, which no other process sees and which
// is gone when it is closed.
func Copy(r io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "spantee-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(file.Name())
	if _, err = io.Copy(file, r); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func (in *OpenFile) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	return in.Reader.Read(p)
}

// Close closes the file.
func (in *OpenFile) Close() error {
	in.stop()
	return in.file.Close()
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

// fromUTF16 returns the contents of a file as UTF-8. PowerShell 5.1 writes UTF-16, with a mark at
// the beginning.
func fromUTF16(in *bufio.Reader) *bufio.Reader {
	order := unicode.LittleEndian
	switch mark, _ := in.Peek(2); string(mark) {
	case "\xff\xfe":
	case "\xfe\xff":
		order = unicode.BigEndian
	default:
		return in
	}
	return bufio.NewReaderSize(unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder().Reader(in), headSize)
}

// IsOTLP reports whether a file begins like OTLP JSON: as written by spantee, by a
// collector, or formatted by hand.
func IsOTLP(head []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(bytes.TrimPrefix(head, file.ByteOrderMark)), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`"resourceSpans"`))
}
