package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func (s *Settings) webClient(to *connection) otlptrace.Client {
	compression, encoding := otlptracehttp.NoCompression, otlptracehttp.EncodingProtobuf
	if s.compression == "gzip" {
		compression = otlptracehttp.GzipCompression
	}
	if s.protocol == "http/json" {
		encoding = otlptracehttp.EncodingJSON
	}
	return otlptracehttp.NewClient(
		otlptracehttp.WithHTTPClient(s.httpClient(to)),
		otlptracehttp.WithEndpointURL(s.endpoint.String()),
		otlptracehttp.WithTLSClientConfig(nil), // the transport has it; over http:// the client would refuse to start
		otlptracehttp.WithHeaders(s.headers),
		otlptracehttp.WithCompression(compression),
		otlptracehttp.WithEncoding(encoding),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), // the Exporter retries
	)
}

func (s *Settings) httpClient(to *connection) *http.Client {
	return &http.Client{Transport: to.http, Timeout: s.timeout}
}

// transport returns one with connections of its own: by default all clients share
// one, and leave its connections open when they stop.
func (s *Settings) transport() transport {
	t := transport{Transport: http.DefaultTransport.(*http.Transport).Clone(), userAgent: s.userAgent}
	t.TLSClientConfig = s.tls
	return t
}

// A transport keeps what the receiver replied. It makes a *statusError of every
// answer but success.
type transport struct {
	*http.Transport
	userAgent string
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.userAgent != "" {
		req = req.Clone(req.Context()) // the caller's must not change
		req.Header.Set("User-Agent", strings.TrimSpace(t.userAgent+" "+req.Header.Get("User-Agent")))
	}
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	a := answerTo(req.Context())
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	failed := newStatusError(resp, kind, body)
	switch {
	case failed != nil:
		a.err = failed
		return nil, failed
	case err == nil:
		a.partial = partialOf(kind, body)
	}
	resp.Body = http.NoBody // or the client would report a success with an unexpected body as a failure
	return resp, nil
}

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
	e.message = oneLine(e.message)
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

// partialOf reads the body of a success.
func partialOf(kind string, body []byte) *coltracepb.ExportTracePartialSuccess {
	response := new(coltracepb.ExportTraceServiceResponse)
	switch kind {
	case "application/x-protobuf":
		if proto.Unmarshal(body, response) != nil {
			return nil
		}
	case "application/json":
		// The rejected count has the same field number for spans and data points in
		// protobuf, but different names in JSON.
		body = bytes.Replace(body, []byte(`"rejectedDataPoints"`), []byte(`"rejectedSpans"`), 1)
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, response) != nil {
			return nil
		}
	}
	return response.GetPartialSuccess()
}

// serverMessage returns the message in the body of an error, if it is safe to show.
func serverMessage(kind string, body []byte) string {
	st := new(statuspb.Status)
	switch kind {
	case "text/plain", "":
		return string(body)
	case "application/x-protobuf":
		if proto.Unmarshal(body, st) != nil {
			return ""
		}
	case "application/json":
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, st) != nil {
			return ""
		}
	}
	return st.GetMessage()
}
