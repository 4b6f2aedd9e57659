package receiver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter/internal/otlpjson"
)

// A service is what both protocols do with a request.
type service struct {
	Config
	requests chan struct{} // are read over gRPC
	body     chan struct{} // one big body is read at a time
	big      chan struct{} // one big request is handled at a time
}

// defaultMaxCost is the cost of a collector's largest request, if its spans are
// typical.
const defaultMaxCost = 64 << 20

// bigCost is what a request may take without waiting for others.
const bigCost = 2 << 20

func newService(cfg Config) *service {
	cfg.MaxCost = cmp.Or(cfg.MaxCost, defaultMaxCost)
	return &service{cfg, make(chan struct{}, maxRequests), make(chan struct{}, 1), make(chan struct{}, 1)}
}

// handle checks a request and handles it. Its error is a gRPC status.
func (s *service) handle(ctx context.Context, request []byte) (*coltracepb.ExportTraceServiceResponse, error) {
	took, err := costOf(request, s.MaxCost)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if took > s.MaxCost {
		return nil, s.tooBig()
	}
	if took > bigCost {
		done, err := takeTurn(ctx, s.big)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	response := new(coltracepb.ExportTraceServiceResponse)
	rejected, err := s.Handle(ctx, request)
	if err == nil && rejected != (Rejected{}) {
		response.PartialSuccess = &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected.Spans, ErrorMessage: rejected.Message}
	}
	return response, toStatus(err)
}

// fromJSON returns a request in JSON as protobuf.
func (s *service) fromJSON(b []byte) ([]byte, error) {
	const perObject = 200 // about how many bytes an object takes until it is converted
	if bytes.Count(b, []byte("{"))*perObject > s.MaxCost {
		return nil, s.tooBig()
	}
	request, err := otlpjson.ParseTraces(b)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return request, nil
}

func (s *service) tooBig() error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf("the request would take more than %d MB once decoded: send fewer spans or events at once", s.MaxCost>>20))
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

// toStatus returns an error as a gRPC status.
func toStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}
