package otlp

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/sdk"

	"github.com/spantee/spantee/exporter/internal/partial"
)

// upload makes one attempt to send an encoded request.
func (s *Settings) upload(ctx context.Context, to *connection, request []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	send := s.post
	if s.protocol == "grpc" {
		send = s.call
	}
	answer, err := send(ctx, to, request)
	if ctx.Err() != nil { // the connection may be dead: net/http would use it again
		to.cut()
	}
	switch {
	case err != nil && s.signal == Metrics:
		return s.metricsError(err)
	case err != nil:
		return classify(err, s.shown())
	case answer != (partial.Success{}):
		return partialSuccess(answer)
	}
	return nil
}

// exporterAgent is the product that OpenTelemetry's exporter for Go names in its
// User-Agent, which gateways know. The specification asks for an exporter, its language
// and version.
var exporterAgent = "OTel OTLP Exporter Go/" + sdk.Version()

// withUserAgent returns a User-Agent: first the one of the Config, then product.
func (s *Settings) withUserAgent(product string) string {
	return strings.TrimSpace(s.userAgent + " " + product)
}
