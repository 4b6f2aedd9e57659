package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxBody is what the OpenTelemetry Collector takes in a request over HTTP,
// unpacked.
const maxBody = 20 << 20

const maxHeader = 64 << 10

const (
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

// serve serves HTTP; the reply is encoded as the request was.
func (s *service) serve(do operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, do) }
}

func (s *service) answer(w http.ResponseWriter, r *http.Request, do operation) {
	// No web page has a reason to send spans here, but a page could under a domain
	// of its own (DNS rebinding). Browsers set Origin on every POST.
	if r.Header.Get("Origin") != "" {
		http.Error(w, "spans from web pages are not accepted", http.StatusForbidden)
		return
	}
	encoding, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	marshal := func(st *status.Status) ([]byte, error) { return proto.Marshal(st.Proto()) }
	switch encoding {
	case typeProtobuf:
	case typeJSON:
		marshal = statusJSON
	default:
		http.Error(w, "use "+typeProtobuf+" or "+typeJSON, http.StatusUnsupportedMediaType)
		return
	}
	reply := func(code int, b []byte, err error) {
		if err != nil { // a message of the handler's that is not UTF-8
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", encoding)
		w.WriteHeader(code)
		_, _ = w.Write(b) // the client may be gone
	}
	answer, err := s.handle(r, body{
		ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), size: r.ContentLength, limit: maxBody,
		encoding: encoding, packed: r.Header.Get("Content-Encoding"), tooLarge: codes.InvalidArgument,
		waits: r.ContentLength < 0 || r.ContentLength > bigCost,
	}, do)
	switch {
	case err != nil:
		st := status.Convert(err)
		b, err := marshal(st)
		reply(httpCode(st.Code()), b, err)
	case encoding == typeJSON:
		b, err := answer.JSON()
		reply(http.StatusOK, b, err)
	default:
		reply(http.StatusOK, answer.Append(nil), nil)
	}
}

// statusJSON returns a google.rpc.Status without details. protojson takes long to
// initialize.
func statusJSON(st *status.Status) ([]byte, error) {
	return json.Marshal(struct {
		Code    codes.Code `json:"code"`
		Message string     `json:"message,omitempty"`
	}{st.Code(), st.Message()})
}

// toStatus returns the gRPC status in err, or one made from err.
func toStatus(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err)
	}
	return status.New(codes.Internal, err.Error())
}

// httpCode returns the HTTP status for a gRPC code. Clients retry after 429 and
// 503.
func httpCode(c codes.Code) int {
	switch c {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unimplemented:
		return http.StatusNotFound
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
