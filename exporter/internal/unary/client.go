package unary

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Request is a request for a unary method.
type Request struct {
	URL       string // of the method
	UserAgent string
	Metadata  map[string]string // names in lower case
	Message   []byte            // in wire format
	Encoding  string            // how Message is compressed: gzip, or "" if it is not
}

// A Client is an [http.Client] or something that shares one. It must speak only HTTP/2,
// see [Protocols].
type Client interface {
	Do(*http.Request) (*http.Response, error)
}

// An HTTPError is an answer that does not come from a gRPC server, but for example from
// a proxy.
type HTTPError struct {
	Response *http.Response
	Body     []byte // the first maxAnswer bytes
}

func (e *HTTPError) Error() string { return e.Response.Status }

// maxAnswer is how much of an answer is kept.
const maxAnswer = 64 << 10

// Call sends a request, and returns the encoded message of the response. That is nil if
// the server accepted the request, but its message cannot be read, or is longer than
// maxAnswer. Nobody reads r.Message any more once Call has returned without an error.
//
// The error is a gRPC status from the server, an *[HTTPError], or an error from the
// client.
func Call(ctx context.Context, client Client, r Request) ([]byte, error) {
	sent := &uses{freed: make(chan struct{}, 1)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, r.body(sent))
	if err != nil {
		return nil, err
	}
	req.ContentLength = prefixSize + int64(len(r.Message))
	req.GetBody = func() (io.ReadCloser, error) { return r.body(sent), nil }
	r.setHeaders(ctx, req.Header)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	message, err := readResponse(resp)
	if err != nil {
		return nil, err
	}
	return message, sent.end(ctx)
}

func (r *Request) setHeaders(ctx context.Context, h http.Header) {
	for name, value := range r.Metadata {
		if slices.Contains(reserved, name) || strings.HasPrefix(name, "grpc-") {
			continue
		}
		if strings.HasSuffix(name, "-bin") {
			value = base64.RawStdEncoding.EncodeToString([]byte(value))
		}
		h.Set(name, value)
	}
	h.Set("User-Agent", r.UserAgent)
	h.Set("Content-Type", contentType)
	h.Set("Te", "trailers")
	h.Set("Grpc-Accept-Encoding", "gzip") // servers answer as they were asked, whatever this says
	if r.Encoding != "" {
		h.Set("Grpc-Encoding", r.Encoding)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline).Milliseconds(), 1)
		h.Set("Grpc-Timeout", fmt.Sprintf("%dm", min(left, 99_999_999))) // eight digits are allowed
	}
}

// reserved are the headers that belong to HTTP. net/http refuses most of them, or does
// something else because of them.
var reserved = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// readResponse returns the message of a response.
func readResponse(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body) // the status comes last
	}
	var st *status.Status
	if isGRPC(resp.Header) {
		if st = readStatus(resp.Trailer); st == nil {
			st = readStatus(resp.Header) // of a response without a message
		}
	}
	switch {
	case st != nil && st.Code() != codes.OK:
		return nil, st.Err()
	case resp.StatusCode != http.StatusOK || !isGRPC(resp.Header):
		return nil, &HTTPError{resp, b}
	case err != nil:
		return nil, &url.Error{Op: "Post", URL: resp.Request.URL.String(), Err: err} // as the client's other errors
	case st == nil:
		return nil, status.Error(codes.Unavailable, "the server broke off its answer")
	}
	return readMessage(b, resp.Header.Get("Grpc-Encoding")), nil
}

// readMessage returns the message that b holds with its prefix, nil if it cannot be read.
func readMessage(b []byte, encoding string) []byte {
	if len(b) < prefixSize {
		return nil
	}
	message, length := b[prefixSize:], binary.BigEndian.Uint32(b[1:])
	if uint64(length) > uint64(len(message)) {
		return nil
	}
	message = message[:length]
	switch {
	case b[0] == 0:
		return message
	case encoding != "gzip":
		return nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(message))
	if err != nil {
		return nil
	}
	if message, err = io.ReadAll(io.LimitReader(unpacked, maxAnswer)); err != nil {
		return nil
	}
	return message
}

// body returns a reader of the message, with its prefix.
func (r *Request) body(of *uses) *body {
	return &body{prefix: prefixOf(len(r.Message), r.Encoding != ""), message: r.Message, of: of}
}

type body struct {
	of *uses

	mu      sync.Mutex // so that nobody reads once Close has returned
	prefix  [prefixSize]byte
	message []byte
	read    int // of both
	used    bool
	closed  bool
}

func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.used && !b.of.begin() {
		return 0, errors.New("unary: read of a closed body")
	}
	b.used = true
	if b.read < prefixSize {
		n = copy(p, b.prefix[b.read:])
	}
	b.read += n
	if b.read >= prefixSize {
		more := copy(p[n:], b.message[b.read-prefixSize:])
		n, b.read = n+more, b.read+more
	}
	if b.read == prefixSize+len(b.message) {
		err = io.EOF
	}
	return n, err
}

// Close is called when the client does not read the body any more, which may be after
// the response has come.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used && !b.closed {
		b.of.free()
	}
	b.closed = true
	return nil
}

// uses counts the bodies that read the same message: a client may send it again over
// another connection. net/http makes more bodies than it reads, and does not close those.
type uses struct {
	mu    sync.Mutex
	n     int
	over  bool // a body that has not begun to read the message must not
	freed chan struct{}
}

// begin reports whether one more body may read the message.
func (u *uses) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		u.n++
	}
	return !u.over
}

func (u *uses) free() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	select {
	case u.freed <- struct{}{}:
	default:
	}
}

// end waits until nobody reads the message any more.
func (u *uses) end(ctx context.Context) error {
	for !u.ended() {
		select {
		case <-u.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// ended reports whether nobody reads the message, and keeps others from beginning to.
func (u *uses) ended() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	return u.n == 0
}
