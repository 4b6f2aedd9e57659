package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/url"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/partial"
	"github.com/spantee/spantee/exporter/internal/unary"
)

// The methods of OTLP's services.
const (
	tracesMethod  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	metricsMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

// call sends a request over gRPC.
func (s *Settings) call(ctx context.Context, to *connection, request []byte) (partial.Success, error) {
	method := tracesMethod
	if s.signal == Metrics {
		method = metricsMethod
	}
	r := unary.Request{URL: s.base().String() + method, Metadata: s.headers, Message: request, UserAgent: s.withUserAgent(exporterAgent)}
	if s.compression == "gzip" {
		r.Message, r.Encoding = compress(request), "gzip"
	}
	b, err := unary.Call(ctx, &to.http, r)
	if e, ok := errors.AsType[*unary.HTTPError](err); ok {
		kind, _, _ := mime.ParseMediaType(e.Response.Header.Get("Content-Type"))
		if failed := newStatusError(e.Response, kind, e.Body); failed != nil {
			return partial.Success{}, failed
		}
		return partial.Success{}, uploadError(exporter.Misconfigured, fmt.Sprintf("an answer of type %q, not from a collector", kind), fmt.Sprintf(hintAddress, s.shown()))
	}
	if _, answered := errors.AsType[grpcError](err); err != nil && !answered && ctx.Err() == nil {
		err = cmp.Or(to.notGRPC(ctx), err)
	}
	answer, _ := partial.Decode(b) // a success is one, whatever the message says
	return answer, err
}

// base returns the URL of the receiver's root, with a name that cannot be wrong for a
// unix socket.
func (s *Settings) base() *url.URL {
	if s.endpoint.Scheme == "unix" {
		return &url.URL{Scheme: "http", Host: "localhost"}
	}
	return &url.URL{Scheme: s.endpoint.Scheme, Host: s.endpoint.Host}
}
