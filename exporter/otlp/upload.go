package otlp

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/sdk"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// A response is a receiver's answer to a request it has accepted. A response to
// metrics has the same encoding.
type response = coltracepb.ExportTraceServiceResponse

// upload makes one attempt to send an encoded request.
func (s *Settings) upload(ctx context.Context, to *connection, request []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	send := s.post
	if to.grpc != nil {
		send = s.call
	}
	answer, err := send(ctx, to, request)
	partial := answer.GetPartialSuccess()
	switch {
	case err != nil && s.signal == Metrics:
		return s.metricsError(err)
	case err != nil:
		return classify(err, s.shown())
	case partial.GetRejectedSpans() != 0 || partial.GetErrorMessage() != "":
		return partialSuccess(partial.GetRejectedSpans(), partial.GetErrorMessage())
	}
	return nil
}

// saysNothing reports whether an encoded response is empty, or holds only an empty
// partial success, as the Collector's does. Preparing protobuf's reflection for it
// would take longer than sending a small request.
func saysNothing(response []byte) bool {
	return len(response) == 0 || string(response) == "\x0a\x00"
}

// exporterAgent is the product that OpenTelemetry's exporter for Go names in its
// User-Agent, which gateways know. The specification asks for an exporter, its language
// and version.
var exporterAgent = "OTel OTLP Exporter Go/" + sdk.Version()

// withUserAgent returns a User-Agent: first the one of the Config, then product.
func (s *Settings) withUserAgent(product string) string {
	return strings.TrimSpace(s.userAgent + " " + product)
}
