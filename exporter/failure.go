package exporter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A verdict says what to do about a request that failed.
type verdict int

const (
	retryable   verdict = iota // try again, it may pass
	unreachable                // try again, but do not wait for it at the end
	refusing                   // nothing will be taken until somebody has mended something
	permanent                  // this request will never be taken
	tooLarge                   // nor will this one, but its halves may
	partial                    // taken, but for some of its spans
)

// A failure is what a Client returns to have its errors understood; any other
// error is permanent.
type failure struct {
	verdict  verdict
	rejected int    // spans, of a partial one
	cause    error  // for a person to read
	hint     string // what to try, if there is something
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

func newFailure(v verdict, cause, hint string) *failure {
	return &failure{verdict: v, cause: errors.New(cause), hint: hint}
}

// A statusError is an HTTP answer other than success.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	if e.message != "" {
		s += ": " + e.message
	}
	return s
}

// signs are found in the text of errors, where gRPC leaves the only trace of
// what went wrong below it. The tests provoke each of them.
var signs = []struct {
	text        string
	cause, hint string // a %s in the hint is the endpoint; an empty cause is the text
}{
	{"connection refused", "connection refused", hintNobody},
	{"actively refused", "connection refused", hintNobody}, // Windows
	{"connect: no such file", "no such socket", hintNobody},
	{"no such host", "no such host", hintAddress},
	{"produced zero addresses", "no such host", hintAddress},
	{"network is unreachable", "network is unreachable", hintAddress},

	{
		"looked like an HTTP/1.1 header", "the server speaks HTTP, not gRPC",
		"4318 is the HTTP port: use 4317, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
	},
	{"malformed HTTP response", "the server speaks gRPC, not HTTP", hintGRPC},
	{"readLoopPeekFailLocked: %!w(<nil>)", "the server speaks gRPC, not HTTP", hintGRPC}, // the same, when it spoke first

	{"HTTP request to an HTTPS server", "the server wants TLS", "try https://"},
	{"HTTP response to HTTPS client", "the server does not speak TLS", "try http://"},
	{"look like a TLS handshake", "the server does not speak TLS", "try http://"},
	{"error reading server preface", "the server closed the connection", "is %s the right address, and scheme?"},
	{"no application protocol", "the server does not speak gRPC", hintAddress},
	{"x509:", "", "set OTEL_EXPORTER_OTLP_CERTIFICATE to the certificate of its authority"},
}

// partialSuccess is how both of the SDK's clients say it; their type is internal.
var partialSuccess = regexp.MustCompile(`(?s)OTLP partial success: (.*) \((-?\d+) spans rejected\)`)

// A grpcError is looked for by hand: status.FromError would repeat the whole
// text of whatever wraps it.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// classify reads an error of one of the SDK's clients, which sends to endpoint.
func classify(err error, endpoint string) *failure {
	text := err.Error()
	if m := partialSuccess.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[2])
		return &failure{verdict: partial, rejected: n, cause: errors.New("rejected by the collector: " + oneLine(m[1]))}
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return classifyHTTP(e, endpoint)
	}
	if e, ok := errors.AsType[grpcError](err); ok {
		return classifyGRPC(e.GRPCStatus(), endpoint)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errTimeout
	}
	if f := readSigns(text, endpoint); f != nil {
		return f
	}
	if e, ok := errors.AsType[*url.Error](err); ok { // no answer: a connection that broke
		return newFailure(retryable, oneLine(e.Err.Error()), "")
	}
	return newFailure(permanent, oneLine(text), "")
}

func classifyHTTP(e *statusError, endpoint string) *failure {
	switch e.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return newFailure(refusing, "unauthenticated: "+e.Error(), hintHeaders)
	case http.StatusRequestEntityTooLarge:
		return newFailure(tooLarge, causeTooLarge, "")
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return newFailure(retryable, e.Error(), "")
	case http.StatusBadRequest:
		if f := readSigns(e.message, endpoint); f != nil {
			return f
		}
		return newFailure(permanent, e.Error(), "")
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed:
		return newFailure(refusing, e.Error(), fmt.Sprintf(hintAddress, endpoint))
	default:
		return newFailure(permanent, e.Error(), "")
	}
}

func classifyGRPC(st *status.Status, endpoint string) *failure {
	message := oneLine(st.Message())
	if message == "" {
		message = st.Code().String()
	}
	switch st.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return errTimeout
	case codes.Unavailable:
		if f := readSigns(st.Message(), endpoint); f != nil {
			return f
		}
		return newFailure(retryable, message, "")
	case codes.ResourceExhausted, codes.OutOfRange:
		// Servers agree neither on the code nor on the words.
		for _, words := range []string{"larger than max", "too large", "exceeds maximum"} {
			if strings.Contains(message, words) {
				return newFailure(tooLarge, causeTooLarge, "")
			}
		}
		if st.Code() == codes.ResourceExhausted && !slices.ContainsFunc(st.Details(), isRetryInfo) {
			return newFailure(refusing, "refused: "+message, "")
		}
		return newFailure(retryable, message, "")
	case codes.Aborted, codes.DataLoss:
		return newFailure(retryable, message, "")
	case codes.Unauthenticated, codes.PermissionDenied:
		return newFailure(refusing, "unauthenticated: "+message, hintHeaders)
	case codes.Unimplemented:
		return newFailure(refusing, "no traces are taken there: "+message, fmt.Sprintf(hintAddress, endpoint))
	default:
		return newFailure(permanent, message, "")
	}
}

const (
	causeTooLarge = "a request is larger than the receiver takes"
	hintNobody    = "nothing listens on %s"
	hintGRPC      = "4317 is the gRPC port: use 4318, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	hintHeaders   = "check OTEL_EXPORTER_OTLP_HEADERS"
	hintAddress   = "is %s the right address?"
)

func isRetryInfo(detail any) bool {
	_, ok := detail.(*errdetails.RetryInfo)
	return ok
}

func readSigns(text, endpoint string) *failure {
	for _, s := range signs {
		i := strings.Index(text, s.text)
		if i < 0 {
			continue
		}
		if s.cause == "" {
			s.cause = oneLine(text[i:])
		}
		hint := strings.ReplaceAll(s.hint, "%s", endpoint)
		if u, err := url.Parse(endpoint); s.hint == hintNobody && err == nil && isLoopback(u.Hostname()) {
			hint += `; try "docker compose up -d"`
		}
		return newFailure(unreachable, s.cause, hint)
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// oneLine makes what a server said fit for a terminal.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "..."
	}
	return s
}
