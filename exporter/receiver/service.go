package receiver

import (
	"cmp"
	"context"
	"net/http"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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
	tracesPath = "/v1/traces"
	OpenPath   = "/spantee/v1/open"
	OpenMethod = "/" + openService + "/Open"

	openService = "spantee.viewer.v1.Viewer"

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

// An operation handles a request from a source.
type operation func(ctx context.Context, source string, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error)

func (s *service) export(ctx context.Context, _ string, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	resp, err := s.Handle(ctx, req)
	if err != nil {
		return nil, toStatus(err).Err()
	}
	if resp == nil {
		resp = new(coltracepb.ExportTraceServiceResponse)
	}
	return resp, nil
}

func (s *service) open(_ context.Context, source string, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	s.Open(source, req.GetResourceSpans())
	return new(coltracepb.ExportTraceServiceResponse), nil
}

// decode decodes a request that fits. Call done once nothing refers to it.
func (s *service) decode(ctx context.Context, b []byte, encoding string) (req *coltracepb.ExportTraceServiceRequest, done func(), err error) {
	var took int
	if encoding == typeJSON {
		took = jsonCost(b)
	} else if took, err = cost(b, exportRequest, s.MaxCost, 0); err != nil {
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
	req = new(coltracepb.ExportTraceServiceRequest)
	if encoding == typeJSON {
		err = unmarshalJSON(b, req)
	} else {
		err = proto.Unmarshal(b, req)
	}
	if err != nil {
		done()
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return req, done, nil
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
