package exporter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/pdata/ptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// file appends traces to a file as lines of OTLP JSON, in the form of
// https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/, which the
// collector's otlpjsonfile receiver reads. protojson would not do: it writes
// ids in base64.
type file struct {
	mu   sync.Mutex
	f    *os.File
	torn bool // the last line was cut short
}

// NewFile returns a client whose uploads are lines at the end of the file at
// path. Any number of processes may write to one file.
func NewFile(path string) (Client, error) {
	if path == "-" {
		return nil, errors.New("traces cannot be written to stdout: it carries the stream")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600) // a pipe without a reader would hang
	if err != nil {
		return nil, err
	}
	return &file{f: f}, nil
}

// protocolFile is what a spool calls the protocol of a file.
const protocolFile = "file"

func (f *file) Destination() spool.Destination {
	path, err := filepath.Abs(f.f.Name())
	if err != nil {
		path = f.f.Name()
	}
	return spool.Destination{Protocol: protocolFile, Endpoint: path}
}

func (f *file) Start(context.Context) error { return nil }

func (f *file) Stop(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}

// UploadTraces appends one line.
func (f *file) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	if len(spans) == 0 {
		return nil
	}
	line, err := marshalJSON(spans)
	if err != nil {
		return err
	}
	return f.append(append(line, '\n'))
}

// append writes the line at once: the system keeps the appends of several
// processes apart, but not the parts that one of them makes of a line.
func (f *file) append(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.torn {
		line = slices.Concat([]byte{'\n'}, line)
	}
	n, err := f.f.Write(line)
	f.torn = err != nil && (n > 0 || f.torn)
	if err != nil {
		return &failure{verdict: refusing, cause: err} // the disk is full, perhaps
	}
	return nil
}

func marshalJSON(spans []*tracepb.ResourceSpans) ([]byte, error) {
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	return (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
}

// ReadFile reads what a file client wrote, a line at a time. A line that
// cannot be read is an error of its own, after which it goes on; an error of r
// is the last.
func ReadFile(r io.Reader) iter.Seq2[[]*tracepb.ResourceSpans, error] {
	return func(yield func([]*tracepb.ResourceSpans, error) bool) {
		lines := bufio.NewReader(r)
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				spans, err := unmarshalJSON(line)
				if err != nil {
					err = fmt.Errorf("line %d: %w", n, err)
				}
				if !yield(spans, err) {
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

func unmarshalJSON(line []byte) ([]*tracepb.ResourceSpans, error) {
	traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
	if err != nil {
		return nil, err
	}
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	if err != nil {
		return nil, err
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(b, &data); err != nil {
		return nil, err
	}
	return data.GetResourceSpans(), nil
}
