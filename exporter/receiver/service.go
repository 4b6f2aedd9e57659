package receiver

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/otlpjson"
	"github.com/spantee/spantee/exporter/internal/partial"
)

// A service is what both protocols do with a request.
type service struct {
	Config
	body chan struct{} // one big body is read at a time
	big  chan struct{} // one big request is decoded and handled at a time
}

// defaultMaxCost is the cost of a collector's largest request, if its spans are
// typical.
const defaultMaxCost = 64 << 20

// bigCost is what a request may take without waiting for others.
const bigCost = 2 << 20

// Paths and methods. Only a spantee viewer serves those for open spans; any other
// backend answers that they do not exist.
const (
	tracesPath   = "/v1/traces"
	tracesMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	OpenPath     = "/spantee/v1/open"
	OpenMethod   = "/spantee.viewer.v1.Viewer/Open"

	// SourceHeader names the process whose spans are open.
	SourceHeader = "spantee-source"
)

func newService(cfg Config) *service {
	cfg.MaxCost = cmp.Or(cfg.MaxCost, defaultMaxCost)
	return &service{cfg, make(chan struct{}, 1), make(chan struct{}, 1)}
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tracesPath, s.serve(s.export))
	if s.Open != nil {
		mux.HandleFunc("POST "+OpenPath, s.serve(s.open))
	}
	return mux
}

// An operation handles the spans of a request from a source.
type operation func(ctx context.Context, source string, spans []*tracepb.ResourceSpans) (partial.Success, error)

func (s *service) export(ctx context.Context, _ string, spans []*tracepb.ResourceSpans) (partial.Success, error) {
	rejected, err := s.Handle(ctx, spans)
	if err != nil {
		return partial.Success{}, toStatus(err).Err()
	}
	return partial.Success{Rejected: rejected.Spans, Message: rejected.Message}, nil
}

func (s *service) open(_ context.Context, source string, spans []*tracepb.ResourceSpans) (partial.Success, error) {
	s.Open(source, spans)
	return partial.Success{}, nil
}

// A body is that of a request.
type body struct {
	io.ReadCloser
	size     int64 // -1 if it is not known
	limit    int64 // packed and unpacked
	encoding string
	packed   string     // how: gzip, or "" if it is not
	tooLarge codes.Code // of the answer to one over the limit
	waits    bool       // for others of its kind, before it is read
}

// handle reads and handles a request. Its error is a gRPC status.
func (s *service) handle(r *http.Request, b body, do operation) (partial.Success, error) {
	if b.waits {
		done, err := takeTurn(r.Context(), s.body)
		if err != nil {
			return partial.Success{}, err
		}
		defer done()
	}
	request, err := b.read()
	if err == nil && b.packed != "" {
		if !b.waits {
			done, err := takeTurn(r.Context(), s.body)
			if err != nil {
				return partial.Success{}, err
			}
			defer done()
		}
		request, err = b.unpack(request)
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return partial.Success{}, status.Error(b.tooLarge, err.Error())
	}
	if err != nil {
		return partial.Success{}, status.Error(codes.InvalidArgument, err.Error())
	}
	spans, done, err := s.decode(r.Context(), request, b.encoding)
	if err != nil {
		return partial.Success{}, err
	}
	defer done()
	return do(r.Context(), r.Header.Get(SourceHeader), spans)
}

// read reads a body.
func (b body) read() ([]byte, error) {
	var all bytes.Buffer
	if b.size > 0 && b.size <= b.limit {
		all.Grow(int(b.size) + bytes.MinRead) // a buffer that grows leaves its former selves to the collector
	}
	_, err := all.ReadFrom(b)
	if err == nil && b.size > int64(all.Len()) {
		err = io.ErrUnexpectedEOF
	}
	return all.Bytes(), err
}

// unpack unpacks a body that was read.
func (b body) unpack(packed []byte) ([]byte, error) {
	if b.packed != "gzip" {
		return nil, fmt.Errorf("unknown content encoding %q", b.packed)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(http.MaxBytesReader(nil, unpacked, b.limit))
}

// decode decodes a request that fits. Call done once nothing refers to it.
func (s *service) decode(ctx context.Context, b []byte, encoding string) (spans []*tracepb.ResourceSpans, done func(), err error) {
	if encoding == typeJSON {
		if b, err = otlpjson.ParseTraces(b); err != nil {
			return nil, nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	took, err := cost(b, exportRequest, s.MaxCost, 0)
	if err != nil {
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if took > s.MaxCost {
		return nil, nil, status.Error(codes.InvalidArgument, tooBig{s.MaxCost}.Error())
	}
	done = func() {}
	if took > bigCost {
		if done, err = takeTurn(ctx, s.big); err != nil {
			return nil, nil, err
		}
	}
	req := new(tracepb.TracesData) // encoded as an ExportTraceServiceRequest is
	if err := proto.Unmarshal(b, req); err != nil {
		done()
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return req.ResourceSpans, done, nil
}

// takeTurn waits until no other big request holds the turn. Call done to release
// it.
func takeTurn(ctx context.Context, turn chan struct{}) (done func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}
