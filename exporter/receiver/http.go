package receiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"go.opentelemetry.io/collector/pdata/ptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxBody is what the OpenTelemetry Collector takes in a request over HTTP,
// unpacked. Over gRPC the limit is gRPC's own, 4 MiB.
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
	marshal := proto.Marshal
	switch encoding {
	case typeProtobuf:
	case typeJSON:
		marshal = protojson.Marshal
	default:
		http.Error(w, "use "+typeProtobuf+" or "+typeJSON, http.StatusUnsupportedMediaType)
		return
	}
	reply := func(code int, m proto.Message) {
		b, err := marshal(m)
		if err != nil { // a message of the handler's that is not UTF-8
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", encoding)
		w.WriteHeader(code)
		_, _ = w.Write(b) // the client may be gone
	}

	fail := func(err error) {
		st := status.Convert(err)
		reply(httpCode(st.Code()), st.Proto())
	}
	// A body that is big, or may be, waits its turn before it is read.
	if r.ContentLength < 0 || r.ContentLength > bigCost || r.Header.Get("Content-Encoding") != "" {
		done, err := takeTurn(r.Context(), s.body)
		if err != nil {
			fail(err)
			return
		}
		defer done()
	}
	b, err := readBody(w, r)
	if err != nil {
		fail(status.Error(codes.InvalidArgument, err.Error()))
		return
	}
	req, done, err := s.decode(r.Context(), b, encoding)
	if err != nil {
		fail(err)
		return
	}
	defer done()
	resp, err := do(r.Context(), r.Header.Get(SourceHeader), req)
	if err != nil {
		fail(err)
		return
	}
	reply(http.StatusOK, resp)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, maxBody)
	switch v := r.Header.Get("Content-Encoding"); v {
	case "":
	case "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = http.MaxBytesReader(w, unpacked, maxBody)
	default:
		return nil, fmt.Errorf("unknown content encoding %q", v)
	}
	var b bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= maxBody {
		b.Grow(int(r.ContentLength) + bytes.MinRead) // a buffer that grows leaves its former selves to the collector
	}
	_, err := b.ReadFrom(body)
	return b.Bytes(), err
}

// unmarshalJSON leaves OTLP's JSON, which is not quite protobuf's, to the
// collector's own code.
func unmarshalJSON(b []byte, req *coltracepb.ExportTraceServiceRequest) error {
	traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		return err
	}
	b, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, req)
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
