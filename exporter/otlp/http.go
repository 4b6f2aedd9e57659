package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/otlp/endpoint"
)

const (
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

// answers is a transport whose only response is a success without a body. Any other
// answer is an error: a *statusError, or an UploadError for a partial success. A request
// without an answer ends with a noAnswer.
type answers struct{ *http.Transport }

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.Transport.RoundTrip(req)
	if err != nil {
		return nil, noAnswer{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body is the connection: reading it would not end with the context
		return nil, newStatusError(resp, "", nil)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if failed := newStatusError(resp, kind, body); failed != nil {
		return nil, failed
	}
	if err == nil { // otherwise it is a success all the same
		if err = readSuccess(kind, body); err != nil {
			return nil, err
		}
	}
	resp.Body, resp.ContentLength = http.NoBody, 0
	return resp, nil
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// newStatusError returns nil for a success.
func newStatusError(resp *http.Response, kind string, body []byte) *statusError {
	e := &statusError{code: resp.StatusCode}
	switch {
	case resp.StatusCode/100 == 2 && kind != "text/html":
		return nil
	case resp.StatusCode/100 == 2: // a login page, for example
		e.message = "a web page, not a collector"
	case resp.StatusCode/100 == 3: // not followed: spans are for the configured endpoint only
		e.message = resp.Header.Get("Location")
	default:
		e.message = serverMessage(kind, body)
		e.retryAfter = retryAfter(resp.Header.Get("Retry-After"))
	}
	e.message = endpoint.OneLine(e.message)
	return e
}

// A statusError is an HTTP answer other than success.
type statusError struct {
	code       int
	message    string
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	if e.message != "" {
		s += ": " + e.message
	}
	return s
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(v string) time.Duration {
	if seconds, err := strconv.ParseInt(v, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if date, err := http.ParseTime(v); err == nil {
		return max(time.Until(date), 0)
	}
	return 0
}

// readSuccess returns an UploadError if the body of a success says that a part was
// rejected. A body that cannot be decoded is ignored.
func readSuccess(kind string, body []byte) error {
	switch kind {
	case typeProtobuf:
		response := new(coltracepb.ExportTraceServiceResponse) // a response for metrics has the same field numbers
		if proto.Unmarshal(body, response) == nil {
			return partialSuccess(response)
		}
	case typeJSON:
		var response struct {
			PartialSuccess struct {
				RejectedSpans, RejectedDataPoints json.Number // in a string or not
				ErrorMessage                      string
			}
		}
		if p := &response.PartialSuccess; json.Unmarshal(body, &response) == nil {
			spans, _ := p.RejectedSpans.Int64()
			points, _ := p.RejectedDataPoints.Int64()
			return rejected(spans+points, p.ErrorMessage)
		}
	}
	return nil
}

// serverMessage returns the message in the body of an error, if it is safe to show. In
// protobuf and in JSON the body is a google.rpc.Status.
func serverMessage(kind string, body []byte) string {
	switch kind {
	case "text/plain", "":
		return string(body)
	case typeProtobuf:
		st := status.New(codes.OK, "").Proto()
		if proto.Unmarshal(body, st) == nil {
			return st.GetMessage()
		}
	case typeJSON:
		var st struct{ Message string }
		if json.Unmarshal(body, &st) == nil {
			return st.Message
		}
	}
	return ""
}

// httpHeaders returns the headers of each request.
func (s *Settings) httpHeaders() map[string]string {
	headers := map[string]string{"User-Agent": s.withUserAgent(exporterAgent)}
	for name, value := range s.headers {
		if name == "user-agent" {
			name, value = "User-Agent", s.withUserAgent(value)
		}
		headers[name] = value
	}
	return headers
}
