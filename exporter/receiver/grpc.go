package receiver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

func (s *service) grpcServer() *grpc.Server {
	server := grpc.NewServer(
		grpc.ConnectionTimeout(headerTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
		grpc.ForceServerCodecV2(rawCodec{encoding.GetCodecV2(proto.Name)}),
	)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Export", Handler: s.method(s.export)}},
	}, s)
	if s.Open != nil {
		server.RegisterService(&grpc.ServiceDesc{
			ServiceName: openService,
			HandlerType: (*any)(nil),
			Methods:     []grpc.MethodDesc{{MethodName: "Open", Handler: s.method(s.open)}},
		}, s)
	}
	return server
}

// method does what generated code does, except that a request is weighed
// before it is decoded.
func (s *service) method(do operation) grpc.MethodHandler {
	return func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var raw rawRequest
		if err := read(&raw); err != nil {
			return nil, err
		}
		req, done, err := s.decode(ctx, raw, "")
		if err != nil {
			return nil, err
		}
		defer done()
		source := ""
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			if v := md.Get(SourceHeader); len(v) > 0 {
				source = v[0]
			}
		}
		return do(ctx, source, req)
	}
}

// A rawRequest is one that is not decoded yet.
type rawRequest []byte

// A rawCodec leaves requests encoded.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*rawRequest); ok {
		*raw = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
