package receiver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"net/http"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxBody is what the OpenTelemetry Collector takes in a request over HTTP,
// unpacked.
const maxBody = 20 << 20

const maxHeader = 64 << 10

const (
	tracesPath   = "/v1/traces"
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

// OfAnotherSite reports whether a browser says that another site's page caused a request.
// Other programs say nothing.
func OfAnotherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// handler serves OTLP/HTTP.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if OfAnotherSite(r) {
			http.Error(w, "requests of web pages are not accepted", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST "+tracesPath, s.serve)
	return guarded
}

// serve serves HTTP; the reply is encoded as the request was.
func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	// No web page has a reason to send spans here, but a page could under a domain
	// of its own (DNS rebinding). Browsers set Origin on every POST.
	if r.Header.Get("Origin") != "" {
		http.Error(w, "spans from web pages are not accepted", http.StatusForbidden)
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encode := proto.Marshal
	switch kind {
	case typeProtobuf:
	case typeJSON:
		encode = protojson.Marshal
	default:
		http.Error(w, "use "+typeProtobuf+" or "+typeJSON, http.StatusUnsupportedMediaType)
		return
	}
	code, reply := http.StatusOK, proto.Message(nil)
	response, err := s.respond(w, r, kind)
	if reply = response; err != nil {
		st := status.Convert(err)
		code, reply = httpCode(st.Code()), st.Proto()
	}
	b, err := encode(reply)
	if err != nil { // the handler's message is not UTF-8
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write(b) // the client may be gone
}

// respond reads and handles a request. Its error is a gRPC status.
func (s *service) respond(w http.ResponseWriter, r *http.Request, kind string) (*coltracepb.ExportTraceServiceResponse, error) {
	request, done, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	defer done()
	if kind == typeJSON {
		if request, err = s.fromJSON(request); err != nil {
			return nil, err
		}
	}
	return s.handle(r.Context(), request)
}

// readBody reads a body of at most maxBody bytes, compressed and uncompressed. Call done
// when the body is not needed any more.
func (s *service) readBody(w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	packed := r.Header.Get("Content-Encoding")
	isBig := r.ContentLength < 0 || r.ContentLength > bigCost
	done = func() {}
	if isBig {
		if done, err = takeTurn(r.Context(), s.body); err != nil {
			return nil, nil, err
		}
	}
	var all bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= maxBody {
		all.Grow(int(r.ContentLength) + bytes.MinRead) // a growing buffer would leave its former arrays to the garbage collector
	}
	_, err = all.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	body = all.Bytes()
	if err == nil && packed != "" {
		if !isBig { // else a client that stalls would stop others
			if done, err = takeTurn(r.Context(), s.body); err != nil {
				return nil, nil, err
			}
		}
		body, err = unpack(body, packed)
	}
	if err != nil {
		done()
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return body, done, nil
}

func unpack(packed []byte, how string) ([]byte, error) {
	if how != "gzip" {
		return nil, fmt.Errorf("unknown content encoding %q", how)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(http.MaxBytesReader(nil, unpacked, maxBody))
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
