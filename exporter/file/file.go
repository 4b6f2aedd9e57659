// Package file writes traces to files of OTLP JSON lines, and reads them back. The
// format is
// https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/; the
// collector's otlpjsonfile receiver reads it too.
package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/otlpjson"
	"github.com/spantee/spantee/exporter/spool"
)

// A client appends each upload to a file, as one line.
type client struct {
	mu   sync.Mutex
	f    *os.File
	torn bool // the last line was cut short
}

// New returns a client that appends to the file at path. Any number of
// processes may append to one file. If it is moved away or deleted, the next
// line begins a new one.
func New(path string) (exporter.Client, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return &client{f: f}, nil
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600) // opening a pipe without a reader would block
}

func (c *client) Destination() spool.Destination {
	path, err := filepath.Abs(c.f.Name())
	if err != nil {
		path = c.f.Name()
	}
	return spool.Destination{Protocol: spool.File, Endpoint: path}
}

func (c *client) Stop(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.f.Close()
}

// UploadTraces appends one line.
func (c *client) UploadTraces(_ context.Context, request []byte) error {
	if len(request) == 0 {
		return nil
	}
	line, err := otlpjson.Traces(request)
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	return c.append(append(line, '\n'))
}

// append writes a line with a single call: the system does not interleave single
// writes of several processes.
func (c *client) append(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.follow(); err != nil {
		return &exporter.UploadError{Verdict: exporter.Misconfigured, Err: err}
	}
	if c.torn {
		line = slices.Concat([]byte{'\n'}, line)
	}
	n, err := c.f.Write(line)
	c.torn = err != nil && (n > 0 || c.torn)
	if err != nil {
		return &exporter.UploadError{Verdict: exporter.Misconfigured, Err: err} // the disk may be full
	}
	return nil
}

// follow reopens the file if its name refers to another file by now, or to none: nobody
// would find what is written to the old file.
func (c *client) follow() error {
	is, err := c.f.Stat()
	if err != nil || !is.Mode().IsRegular() {
		return err
	}
	named, err := os.Stat(c.f.Name())
	if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(is, named) {
		return err
	}
	f, err := open(c.f.Name())
	if err != nil {
		return err
	}
	_ = c.f.Close() // each line was written at once
	c.f, c.torn = f, false
	return nil
}

// ByteOrderMark is what editors on Windows put at the beginning of a text in UTF-8.
var ByteOrderMark = []byte("\ufeff")

// Read reads what a client wrote, line by line. For a line that cannot be decoded
// it yields an error and continues; an error of r ends the sequence.
func Read(r io.Reader) iter.Seq2[[]*tracepb.ResourceSpans, error] {
	return func(yield func([]*tracepb.ResourceSpans, error) bool) {
		lines := bufio.NewReader(r)
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if n == 1 {
				line = bytes.TrimPrefix(line, ByteOrderMark)
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				var data tracepb.TracesData
				request, err := otlpjson.ParseTraces(line)
				if err == nil {
					err = proto.Unmarshal(request, &data)
				}
				if err != nil {
					err = fmt.Errorf("line %d: %w", n, err)
				}
				if !yield(data.ResourceSpans, err) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
