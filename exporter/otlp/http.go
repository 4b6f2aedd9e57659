package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/otlpjson"
	"github.com/spantee/spantee/exporter/internal/partial"
)

// post sends a request over HTTP.
func (s *Settings) post(ctx context.Context, to *connection, request []byte) (partial.Success, error) {
	kind, encoding := "application/x-protobuf", ""
	switch {
	case s.protocol == "http/json":
		var err error
		if request, err = s.asJSON(request); err != nil {
			return partial.Success{}, err
		}
		kind = "application/json"
	case s.compression != "gzip":
		request = bytes.Clone(request) // net/http may still read it after the response has come
	}
	if s.compression == "gzip" {
		request, encoding = compress(request), "gzip"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), bytes.NewReader(request))
	if err != nil {
		return partial.Success{}, err
	}
	req.Header.Set("User-Agent", exporterAgent)
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", s.withUserAgent(req.Header.Get("User-Agent")))
	req.Header.Set("Content-Type", kind)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := to.http.Do(req)
	if err != nil {
		return partial.Success{}, err
	}
	return read(resp)
}

func (s *Settings) asJSON(request []byte) ([]byte, error) {
	if s.signal == Metrics {
		return otlpjson.Metrics(request)
	}
	return otlpjson.Traces(request)
}

// compressors are reused: each takes 0.8 MB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compress(b []byte) []byte {
	var packed bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer func() {
		w.Reset(nil) // else the pool keeps what it wrote
		compressors.Put(w)
	}()
	w.Reset(&packed)
	_, _ = w.Write(b) // to memory
	_ = w.Close()
	return packed.Bytes()
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// read returns what the receiver answered. Its error is a *statusError. A success
// whose body makes no sense is a success.
func read(resp *http.Response) (partial.Success, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if failed := newStatusError(resp, kind, body); failed != nil {
		return partial.Success{}, failed
	}
	if err != nil {
		return partial.Success{}, nil
	}
	return parseResponse(kind, body), nil
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

// parseResponse parses the body of a success. One that makes no sense says nothing.
func parseResponse(kind string, body []byte) (answer partial.Success) {
	switch kind {
	case "application/x-protobuf":
		answer, _ = partial.Decode(body)
	case "application/json":
		answer, _ = partial.DecodeJSON(body)
	}
	return answer
}

// serverMessage returns the message in the body of an error, if it is safe to show. In
// protobuf and in JSON the body is a google.rpc.Status.
func serverMessage(kind string, body []byte) string {
	switch kind {
	case "text/plain", "":
		return string(body)
	case "application/x-protobuf":
		st := new(statuspb.Status)
		if proto.Unmarshal(body, st) == nil {
			return st.GetMessage()
		}
	case "application/json":
		var st struct{ Message string } // protojson takes long to initialize
		if json.Unmarshal(body, &st) == nil {
			return st.Message
		}
	}
	return ""
}
