// Package otlp provides clients for OTLP receivers over gRPC and HTTP. They read the
// standard OTEL_EXPORTER_OTLP_* variables. They never retry: they return the
// receiver's answer as an [exporter.UploadError], and the Exporter retries.
//
// Spans leave through OpenTelemetry's own clients, otlptracegrpc and otlptracehttp. Package
// endpoint finds out why a receiver does not answer.
//
// net/http and grpc-go may write to stderr. To prevent that, silence package log and
// grpclog.
package otlp

import (
	"context"
	"fmt"
	"iter"
	"sync"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
	"github.com/spantee/spantee/exporter/spool"
)

// A Config says where to send spans, and how. Empty fields are read from the
// OTEL_EXPORTER_OTLP_TRACES_* variables, then from the OTEL_EXPORTER_OTLP_*
// variables, and otherwise have the defaults of the OpenTelemetry specification.
// Only the scheme of the endpoint turns TLS on or off.
type Config struct {
	Signal   string            // Metrics, or empty for spans; each has variables of its own
	Protocol string            // grpc, http/protobuf or http/json
	Endpoint string            // http://host:port, https:// or, for grpc, unix:; over HTTP, /v1/traces or /v1/metrics is appended
	Headers  map[string]string // sent with every request
	CACert   string            // a PEM file, read for each connection

	// IgnoreEnvironment says that no standard variable counts, except for those that name
	// a proxy.
	IgnoreEnvironment bool

	// UserAgent, such as "spantee/1.2", is prepended to the client's own.
	UserAgent string
}

// Metrics is the signal of a Config for metrics.
const Metrics = "metrics"

// New returns a client for cfg. Its error may be a *[SettingError]. The first request
// makes the connection.
func New(cfg Config) (exporter.Client, error) {
	s, err := Resolve(cfg)
	if err != nil {
		return nil, err
	}
	return s.Client(), nil
}

// Client returns a client with these settings.
func (s *Settings) Client() exporter.Client {
	return &client{settings: s}
}

// ClientFor returns a client for a destination found in a spool. Headers and
// certificates are sent only to the endpoint they were set for; for any other
// endpoint the client has none.
func ClientFor(to spool.Destination, cfg Config) (exporter.Client, error) {
	s, err := Resolve(cfg)
	if err != nil || s.Destination() != to {
		cfg.Signal = Metrics
		s, err = Resolve(cfg)
	}
	if err != nil || s.Destination() != to {
		s, err = plainSettings(to)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.Endpoint, err)
	}
	s.userAgent = cfg.UserAgent
	return s.Client(), nil
}

// Diagnose checks the path to a receiver, and finally delivers request, an encoded
// ExportTraceServiceRequest.
func (s *Settings) Diagnose(ctx context.Context, request []byte) iter.Seq[endpoint.Check] {
	return s.at().Diagnose(ctx, func(ctx context.Context) error {
		c := s.Client()
		defer func() { _ = c.Stop(ctx) }()
		return c.UploadTraces(ctx, request)
	})
}

// at returns where the receiver is.
func (s *Settings) at() *endpoint.Endpoint {
	return &endpoint.Endpoint{URL: s.endpoint, Protocol: s.protocol, TLS: s.tls.load}
}

// A client sends requests to one receiver.
type client struct {
	settings *Settings

	mu   sync.Mutex
	conn *connection // nil before the first request, and after one without an answer
}

func (c *client) Stop(context.Context) error {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		c.drop(conn)
	}
	return nil
}

func (c *client) Destination() spool.Destination { return c.settings.Destination() }

func (c *client) UploadTraces(ctx context.Context, request []byte) error {
	spans, err := c.settings.resourceSpans(request)
	if err != nil {
		return endpoint.Failure(exporter.Permanent, endpoint.OneLine(err.Error()), "")
	}
	return c.upload(ctx, func(ctx context.Context, conn *connection) error { return conn.traces.UploadTraces(ctx, spans) })
}

// resourceSpans returns the parts of an encoded request. They are not decoded: each has
// its bytes as unknown fields, and is encoded to the same bytes again. Only JSON needs
// what is in them.
func (s *Settings) resourceSpans(request []byte) (parts []*tracepb.ResourceSpans, err error) {
	if s.protocol == "http/json" {
		decoded := new(tracepb.TracesData) // has the same encoding as an ExportTraceServiceRequest
		err := proto.Unmarshal(request, decoded)
		return decoded.GetResourceSpans(), err
	}
	for number, v := range field.All(request, &err) {
		if number == field.ResourceSpans {
			part := new(tracepb.ResourceSpans)
			part.ProtoReflect().SetUnknown(v.Bytes)
			parts = append(parts, part)
		}
	}
	return parts, err
}
