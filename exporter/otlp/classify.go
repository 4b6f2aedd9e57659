package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/internal/partial"
)

const (
	causeTooLarge = "a request exceeds the receiver's limit"
	causeNotGRPC  = "the server does not speak gRPC"
	causeWantsTLS = "the server wants TLS"
	hintTLS       = "try https://"
	hintNobody    = "nothing listens on %s"
	hintHTTP      = "4318 is the HTTP port: use 4317, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	hintGRPC      = "4317 is the gRPC port: use 4318, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	hintHeaders   = "check OTEL_EXPORTER_OTLP_HEADERS"
	hintAddress   = "is %s the right address?"
	hintProxy     = "check the user and password in $HTTPS_PROXY or $HTTP_PROXY"
)

var errTimeout = errors.New("the collector did not answer in time")

// errorPatterns are searched for in the text of errors, because the cause of a
// connection failure is often nowhere else. The tests provoke each of them.
var errorPatterns = []struct {
	text        string
	cause, hint string // a %s in the hint is the endpoint; an empty cause is the text
}{
	{"connection refused", "connection refused", hintNobody},
	{"actively refused", "connection refused", hintNobody}, // Windows
	{"connect: no such file", "no such socket", hintNobody},
	{"no such host", "no such host", hintAddress},
	{"network is unreachable", "network is unreachable", hintAddress},

	{"malformed HTTP response", "the server speaks gRPC, not HTTP", hintGRPC},
	{"this port is for gRPC", "the server speaks gRPC, not HTTP", hintGRPC},              // spantee's viewer
	{"readLoopPeekFailLocked: %!w(<nil>)", "the server speaks gRPC, not HTTP", hintGRPC}, // the same, if the server spoke first

	{"HTTP request to an HTTPS server", causeWantsTLS, hintTLS},
	{"HTTP response to HTTPS client", "the server does not speak TLS", "try http://"},
	{"look like a TLS handshake", "the server does not speak TLS", "try http://"},
	{noALPN, causeNotGRPC, hintAddress},
	{"no application protocol", causeNotGRPC, hintAddress},
	{"does not support unencrypted HTTP/2", "", "unset GODEBUG=http2client=0"},
	{"x509:", "", "set OTEL_EXPORTER_OTLP_CERTIFICATE to its CA certificate"},
}

func uploadError(v exporter.Verdict, cause, hint string) *exporter.UploadError {
	err := errors.New(cause)
	if hint != "" {
		err = &exporter.Error{Err: err, Hint: hint}
	}
	return &exporter.UploadError{Verdict: v, Err: err}
}

func partialSuccess(answer partial.Success) *exporter.UploadError {
	e := uploadError(exporter.Partial, "rejected by the collector: "+oneLine(answer.Message), "")
	e.Rejected = int(answer.Rejected)
	return e
}

// A grpcError is unwrapped by hand: status.FromError would repeat the text of every
// wrapping error.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// classify says what an error means for the requests to endpoint.
func classify(err error, endpoint string) *exporter.UploadError {
	if e, ok := errors.AsType[*exporter.UploadError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return classifyHTTP(e, endpoint)
	}
	if e, ok := errors.AsType[grpcError](err); ok {
		return classifyGRPC(e.GRPCStatus(), endpoint)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: errTimeout}
	}
	if e := readSigns(err.Error(), endpoint); e != nil {
		return e
	}
	if e, ok := errors.AsType[*url.Error](err); ok { // no answer: the connection broke
		return uploadError(exporter.Retryable, oneLine(e.Err.Error()), "")
	}
	return uploadError(exporter.Permanent, oneLine(err.Error()), "")
}

// delayed adds the delay that the receiver asked for.
func delayed(e *exporter.UploadError, by time.Duration) *exporter.UploadError {
	if by > 0 {
		e.RetryAfter = by
		e.Err = fmt.Errorf("%w; retry after %v", e.Err, by.Round(time.Second))
	}
	return e
}

func classifyHTTP(e *statusError, endpoint string) *exporter.UploadError {
	switch e.code {
	case http.StatusProxyAuthRequired:
		return uploadError(exporter.Misconfigured, e.Error(), hintProxy)
	case http.StatusUnauthorized:
		return uploadError(exporter.Misconfigured, "unauthenticated: "+e.Error(), hintHeaders)
	case http.StatusForbidden:
		return uploadError(exporter.Misconfigured, "not permitted: "+e.Error(), hintHeaders)
	case http.StatusRequestEntityTooLarge:
		return uploadError(exporter.TooLarge, causeTooLarge, "")
	case http.StatusRequestHeaderFieldsTooLarge:
		return uploadError(exporter.Misconfigured, e.Error(), hintHeaders)
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return delayed(uploadError(exporter.Retryable, e.Error(), ""), e.retryAfter)
	case http.StatusBadRequest:
		if signed := readSigns(e.message, endpoint); signed != nil {
			return signed
		}
		return uploadError(exporter.Permanent, e.Error(), "")
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMisdirectedRequest, http.StatusNetworkAuthenticationRequired,
		http.StatusLengthRequired, http.StatusUpgradeRequired: // no collector sends the last two, but a proxy may
		return uploadError(exporter.Misconfigured, e.Error(), fmt.Sprintf(hintAddress, endpoint))
	default:
		if e.code/100 == 3 {
			return uploadError(exporter.Misconfigured, e.Error(), fmt.Sprintf(hintAddress, endpoint))
		}
		return uploadError(exporter.Permanent, e.Error(), "")
	}
}

func classifyGRPC(st *status.Status, endpoint string) *exporter.UploadError {
	message := oneLine(st.Message())
	if message == "" {
		message = st.Code().String()
	}
	retryAfter, retry := retryInfo(st)
	switch st.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: errTimeout}
	case codes.Unavailable:
		if signed := readSigns(st.Message(), endpoint); signed != nil {
			return signed
		}
		return delayed(uploadError(exporter.Retryable, message, ""), retryAfter)
	case codes.ResourceExhausted, codes.OutOfRange:
		// Servers agree neither on the code nor on the words.
		for _, words := range []string{"larger than max", "too large", "exceeds maximum"} {
			if strings.Contains(message, words) {
				return uploadError(exporter.TooLarge, causeTooLarge, "")
			}
		}
		if st.Code() == codes.ResourceExhausted && !retry {
			return uploadError(exporter.Misconfigured, "refused: "+message, "")
		}
		return delayed(uploadError(exporter.Retryable, message, ""), retryAfter)
	case codes.Aborted, codes.DataLoss:
		return delayed(uploadError(exporter.Retryable, message, ""), retryAfter)
	case codes.Unauthenticated:
		return uploadError(exporter.Misconfigured, "unauthenticated: "+message, hintHeaders)
	case codes.PermissionDenied:
		return uploadError(exporter.Misconfigured, "not permitted: "+message, hintHeaders)
	case codes.Unimplemented:
		return uploadError(exporter.Misconfigured, "no traces are accepted there: "+message, fmt.Sprintf(hintAddress, endpoint))
	default:
		return uploadError(exporter.Permanent, message, "")
	}
}

// retryInfo reports whether the server says that a retry may succeed, and after
// which delay. Package errdetails could decode it, but initializes a dozen other types
// at every start.
func retryInfo(st *status.Status) (after time.Duration, ok bool) {
	const fieldRetryDelay = 1
	for _, detail := range st.Proto().GetDetails() {
		if detail.MessageName() != "google.rpc.RetryInfo" {
			continue
		}
		delay := new(durationpb.Duration)
		err := field.Each(detail.GetValue(), func(number protowire.Number, v field.Value) {
			if number == fieldRetryDelay {
				_ = proto.Unmarshal(v.Bytes, delay) // a delay that cannot be read is none
			}
		})
		if err != nil {
			return 0, false
		}
		return delay.AsDuration(), true
	}
	return 0, false
}

func readSigns(text, endpoint string) *exporter.UploadError {
	for _, s := range errorPatterns {
		i := strings.Index(text, s.text)
		if i < 0 {
			continue
		}
		if s.cause == "" {
			s.cause = oneLine(text[i:])
		}
		hint := strings.ReplaceAll(s.hint, "%s", endpoint)
		if u, err := url.Parse(endpoint); s.hint == hintNobody && err == nil && isLoopback(u.Hostname()) {
			hint += `; try "spantee view"`
		}
		return uploadError(exporter.Unreachable, s.cause, hint)
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// oneLine makes a server's message safe to print on a terminal.
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
