package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spantee/spantee/exporter"
)

const (
	causeTooLarge = "a request exceeds the receiver's limit"
	hintHeaders   = "check OTEL_EXPORTER_OTLP_HEADERS"
)

var errTimeout = errors.New("the collector did not answer in time")

func uploadError(v exporter.Verdict, cause, hint string) *exporter.UploadError {
	err := errors.New(cause)
	if hint != "" {
		err = &exporter.Error{Err: err, Hint: hint}
	}
	return &exporter.UploadError{Verdict: v, Err: err}
}

// partialSuccess returns an UploadError if a response says that a part was rejected.
func partialSuccess(response any) error {
	switch r := response.(type) {
	case *coltracepb.ExportTraceServiceResponse:
		return rejected(r.GetPartialSuccess().GetRejectedSpans(), r.GetPartialSuccess().GetErrorMessage())
	case *colmetricpb.ExportMetricsServiceResponse:
		return rejected(r.GetPartialSuccess().GetRejectedDataPoints(), r.GetPartialSuccess().GetErrorMessage())
	}
	return nil
}

func rejected(n int64, message string) error {
	if n == 0 && message == "" {
		return nil
	}
	e := uploadError(exporter.Partial, "rejected by the collector: "+oneLine(message), "")
	e.Rejected = int(n)
	return e
}

// A grpcError is unwrapped by hand: status.FromError would repeat the text of every
// wrapping error.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// classify says what a server's answer means.
func (s *Settings) classify(ctx context.Context, err error) *exporter.UploadError {
	if e, ok := errors.AsType[*exporter.UploadError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return s.classifyHTTP(ctx, e)
	}
	if e, ok := errors.AsType[grpcError](err); ok {
		return s.classifyGRPC(e.GRPCStatus())
	}
	if ctx.Err() != nil {
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: errTimeout}
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

func (s *Settings) classifyHTTP(ctx context.Context, e *statusError) *exporter.UploadError {
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
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return refused(delayed(uploadError(exporter.Retryable, e.Error(), ""), e.retryAfter))
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusBadGateway, http.StatusGatewayTimeout:
		return delayed(uploadError(exporter.Retryable, e.Error(), ""), e.retryAfter)
	case http.StatusBadRequest:
		if failed := s.probe(ctx); failed != nil { // a TLS server may answer plain gRPC in HTTP
			return failed
		}
		return uploadError(exporter.Permanent, e.Error(), "")
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMisdirectedRequest, http.StatusNetworkAuthenticationRequired,
		http.StatusLengthRequired, http.StatusUpgradeRequired: // no collector sends the last two, but a proxy may
		return uploadError(exporter.Misconfigured, e.Error(), s.hintAddress())
	default:
		if e.code/100 == 3 {
			return uploadError(exporter.Misconfigured, e.Error(), s.hintAddress())
		}
		return uploadError(exporter.Permanent, e.Error(), "")
	}
}

func (s *Settings) classifyGRPC(st *status.Status) *exporter.UploadError {
	message := oneLine(st.Message())
	if message == "" {
		message = st.Code().String()
	}
	var after time.Duration
	mayRetry := false
	for _, detail := range st.Details() {
		if info, ok := detail.(interface{ GetRetryDelay() *durationpb.Duration }); ok { // a RetryInfo
			after, mayRetry = info.GetRetryDelay().AsDuration(), true
			break
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: errTimeout}
	case codes.ResourceExhausted, codes.OutOfRange:
		// Servers agree neither on the code nor on the words.
		for _, words := range []string{"larger than max", "too large", "exceeds maximum"} {
			if strings.Contains(message, words) {
				return uploadError(exporter.TooLarge, causeTooLarge, "")
			}
		}
		if st.Code() == codes.ResourceExhausted && !mayRetry {
			return uploadError(exporter.Misconfigured, "refused: "+message, "")
		}
		return delayed(uploadError(exporter.Retryable, message, ""), after)
	case codes.Unavailable, codes.Aborted, codes.DataLoss:
		return delayed(uploadError(exporter.Retryable, message, ""), after)
	case codes.Unauthenticated:
		return uploadError(exporter.Misconfigured, "unauthenticated: "+message, hintHeaders)
	case codes.PermissionDenied:
		return uploadError(exporter.Misconfigured, "not permitted: "+message, hintHeaders)
	case codes.Unimplemented:
		return uploadError(exporter.Misconfigured, "no traces are accepted there: "+message, s.hintAddress())
	default:
		return uploadError(exporter.Permanent, message, "")
	}
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
