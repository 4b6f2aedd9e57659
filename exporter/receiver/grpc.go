package receiver

import (
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter/internal/partial"
	"github.com/spantee/spantee/exporter/internal/unary"
)

// maxMessage is the default of gRPC's own servers, packed and unpacked.
const maxMessage = 4 << 20

// grpcHandler serves OTLP/gRPC.
func (s *service) grpcHandler() http.Handler {
	methods := map[string]operation{tracesMethod: s.export}
	if s.Open != nil {
		methods[OpenMethod] = s.open
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !unary.IsRequest(r) {
			http.Error(w, "this port is for gRPC", http.StatusBadRequest)
			return
		}
		do := methods[r.URL.Path]
		if do == nil {
			unary.Refuse(w, status.Newf(codes.Unimplemented, "unknown method %s", r.URL.Path))
			return
		}
		answer, err := s.handleGRPC(r, do)
		if err != nil {
			unary.Refuse(w, status.Convert(err))
			return
		}
		unary.Respond(w, answer.Append(nil))
	})
}

func (s *service) handleGRPC(r *http.Request, do operation) (partial.Success, error) {
	length, packed, err := unary.ReadPrefix(r)
	if err != nil {
		return partial.Success{}, err
	}
	if length > maxMessage { // worded as by gRPC's own servers: clients look for these words
		return partial.Success{}, status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", length, maxMessage)
	}
	// It must not wait before it is read: requests of one connection share its window.
	return s.handle(r, body{
		ReadCloser: http.MaxBytesReader(nil, r.Body, length), size: length, limit: maxMessage,
		encoding: typeProtobuf, packed: packed, tooLarge: codes.ResourceExhausted,
	}, do)
}
