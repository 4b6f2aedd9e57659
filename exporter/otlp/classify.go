package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
)

const (
	causeTooLarge = "a request exceeds the receiver's limit"
	hintHeaders   = "check OTEL_EXPORTER_OTLP_HEADERS"
)

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
	e := endpoint.Failure(exporter.Partial, "rejected by the collector: "+endpoint.OneLine(message), "")
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
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: endpoint.ErrTimeout}
	}
	return endpoint.Failure(exporter.Permanent, endpoint.OneLine(err.Error()), "")
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
		return endpoint.Failure(exporter.Misconfigured, e.Error(), endpoint.HintProxy)
	case http.StatusUnauthorized:
		return endpoint.Failure(exporter.Misconfigured, "unauthenticated: "+e.Error(), hintHeaders)
	case http.StatusForbidden:
		return endpoint.Failure(exporter.Misconfigured, "not permitted: "+e.Error(), hintHeaders)
	case http.StatusRequestEntityTooLarge:
		return endpoint.Failure(exporter.TooLarge, causeTooLarge, "")
	case http.StatusRequestHeaderFieldsTooLarge:
		return endpoint.Failure(exporter.Misconfigured, e.Error(), hintHeaders)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusBadGateway, http.StatusGatewayTimeout:
		return delayed(endpoint.Failure(exporter.Retryable, e.Error(), ""), e.retryAfter)
	case http.StatusBadRequest:
		if failed := s.at().Probe(ctx); failed != nil { // a TLS server may answer plain gRPC in HTTP
			return failed
		}
		return endpoint.Failure(exporter.Permanent, e.Error(), "")
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMisdirectedRequest, http.StatusNetworkAuthenticationRequired,
		http.StatusLengthRequired, http.StatusUpgradeRequired: // no collector sends the last two, but a proxy may
		return endpoint.Failure(exporter.Misconfigured, e.Error(), s.at().HintAddress())
	default:
		if e.code/100 == 3 {
			return endpoint.Failure(exporter.Misconfigured, e.Error(), s.at().HintAddress())
		}
		return endpoint.Failure(exporter.Permanent, e.Error(), "")
	}
}

func (s *Settings) classifyGRPC(st *status.Status) *exporter.UploadError {
	message := endpoint.OneLine(st.Message())
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
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: endpoint.ErrTimeout}
	case codes.ResourceExhausted, codes.OutOfRange:
		// Servers agree neither on the code nor on the words.
		for _, words := range []string{"larger than max", "too large", "exceeds maximum"} {
			if strings.Contains(message, words) {
				return endpoint.Failure(exporter.TooLarge, causeTooLarge, "")
			}
		}
		if st.Code() == codes.ResourceExhausted && !mayRetry {
			return endpoint.Failure(exporter.Misconfigured, "refused: "+message, "")
		}
		return delayed(endpoint.Failure(exporter.Retryable, message, ""), after)
	case codes.Unavailable, codes.Aborted, codes.DataLoss:
		return delayed(endpoint.Failure(exporter.Retryable, message, ""), after)
	case codes.Unauthenticated:
		return endpoint.Failure(exporter.Misconfigured, "unauthenticated: "+message, hintHeaders)
	case codes.PermissionDenied:
		return endpoint.Failure(exporter.Misconfigured, "not permitted: "+message, hintHeaders)
	case codes.Unimplemented:
		return endpoint.Failure(exporter.Misconfigured, "no traces are accepted there: "+message, s.at().HintAddress())
	default:
		return endpoint.Failure(exporter.Permanent, message, "")
	}
}
