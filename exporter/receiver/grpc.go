package receiver

import (
	"context"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

const (
	// maxMessage is gRPC's default, compressed and uncompressed.
	maxMessage = 4 << 20

	// maxStreams is how many requests of a connection are read at a time, and maxRequests
	// of all: a client that stalls keeps what it has sent in memory.
	maxStreams  = 8
	maxRequests = 32
)

// grpcServer returns a server of OTLP/gRPC.
func (s *service) grpcServer() *grpc.Server {
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.InTapHandle(s.limit),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(greetingTimeout), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: coltracepb.TraceService_ServiceDesc.ServiceName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: s.export}},
	}, s)
	return server
}

func (s *service) export(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request []byte
	if err := read(&request); err != nil {
		return nil, err
	}
	return s.handle(ctx, request)
}

// limit refuses a request while too many others are read, and ends one that takes too
// long.
func (s *service) limit(ctx context.Context, _ *tap.Info) (context.Context, error) {
	select {
	case s.requests <- struct{}{}:
	default:
		return nil, status.Error(codes.Unavailable, "too many requests at a time")
	}
	context.AfterFunc(ctx, func() { <-s.requests })
	ctx, cancel := context.WithTimeout(ctx, bodyTimeout)
	context.AfterFunc(ctx, cancel)
	return ctx, nil
}

// A codec leaves requests encoded: what they take in memory is estimated first.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(response any) (mem.BufferSlice, error) {
	b, err := proto.Marshal(response.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (codec) Unmarshal(data mem.BufferSlice, request any) error {
	*request.(*[]byte) = data.Materialize()
	return nil
}
