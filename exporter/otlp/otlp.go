// Package otlp provides clients for OTLP receivers over gRPC and HTTP. They read the
// standard OTEL_EXPORTER_OTLP_* variables. The clients for spans wrap
// OpenTelemetry's own. Clients never retry: they return the receiver's answer as an
// [exporter.UploadError], and the Exporter retries.
//
// OpenTelemetry's clients, gRPC and net/http may write to stderr. To prevent that,
// silence otel's error handler, grpclog and log.
package otlp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// A Signal is what is sent: spans or metrics. Each has variables of its own.
type Signal string

// The signals, as in the path of an HTTP endpoint.
const (
	Traces  Signal = "traces"
	Metrics Signal = "metrics"
)

// prefix returns the prefix of the signal's variables.
func (s Signal) prefix() string { return "OTEL_EXPORTER_OTLP_" + strings.ToUpper(string(s)) + "_" }

// A Config says where to send spans, and how. Empty fields are read from the
// OTEL_EXPORTER_OTLP_TRACES_* variables, then from the OTEL_EXPORTER_OTLP_*
// variables, and otherwise have the defaults of the OpenTelemetry specification.
// Only the scheme of the endpoint turns TLS on or off.
type Config struct {
	Signal      Signal            // whose variables are read; "" is Traces
	Protocol    string            // grpc, http/protobuf or http/json
	Endpoint    string            // http://host:port, https:// or, for grpc, unix:; over HTTP, /v1/traces or /v1/metrics is appended
	Headers     map[string]string // sent with every request
	Compression string            // gzip or none
	Timeout     time.Duration     // of one attempt

	CACert, ClientCert, ClientKey string // PEM files

	// UserAgent, such as "spantee/1.2", is prepended to the client's own.
	UserAgent string
}

// New returns a client for cfg. Its error may be a *[SettingError]. Nothing is
// dialled before the first request.
func New(cfg Config) (exporter.Client, error) {
	s, err := Resolve(cfg)
	if err != nil {
		return nil, err
	}
	return s.Client(), nil
}

// Client returns a client with these settings. One for metrics is an
// [exporter.MetricsUploader].
func (s *Settings) Client() exporter.Client {
	return &client{settings: s, connect: sync.OnceValues(s.connect)}
}

func (s *Settings) traceClient(to *connection) otlptrace.Client {
	if to.grpc != nil {
		return s.grpcClient(to)
	}
	return s.webClient(to)
}

// ClientFor returns a client for a destination found in a spool. Headers and
// certificates are sent only to the endpoint they were set for; for any other
// endpoint the client has none.
func ClientFor(to spool.Destination, cfg Config) (exporter.Client, error) {
	cfg.Signal = signalOf(to)
	if s, err := Resolve(cfg); err == nil && s.Destination() == to {
		return s.Client(), nil
	}
	s, err := plainSettings(to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.Endpoint, err)
	}
	s.userAgent = cfg.UserAgent
	return s.Client(), nil
}

// A client wraps OpenTelemetry's client to return UploadErrors. It is made when it
// is started: a connection has goroutines from the beginning.
type client struct {
	otlptrace.Client
	settings *Settings
	connect  func() (*connection, error) // always to the same one
}

func (c *client) Start(ctx context.Context) error {
	to, err := c.connect()
	if err != nil {
		return err
	}
	c.Client = c.settings.traceClient(to)
	return c.Client.Start(ctx)
}

func (c *client) Destination() spool.Destination { return c.settings.Destination() }

// An answer is the receiver's reply to a request. OpenTelemetry's clients report it
// only in the text of an error.
type answer struct {
	partial *coltracepb.ExportTracePartialSuccess // of metrics: data points instead of spans
	err     error                                 // a grpcError or a *statusError; nil if there was no answer
}

type answerKey struct{}

// answerTo returns where to record the answer to a request with this context.
func answerTo(ctx context.Context) *answer {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		return a
	}
	return new(answer)
}

func (c *client) UploadTraces(ctx context.Context, request []*tracepb.ResourceSpans) error {
	if c.settings.protocol == "http/json" { // JSON would leave out unknown fields
		decoded, err := decode(request)
		if err != nil {
			return err
		}
		request = decoded
	}
	var got answer
	err := c.Client.UploadTraces(context.WithValue(ctx, answerKey{}, &got), request)
	if rejected, message := got.partial.GetRejectedSpans(), got.partial.GetErrorMessage(); rejected != 0 || message != "" {
		return partialSuccess(rejected, message)
	}
	if got.err != nil {
		err = got.err
	}
	if err == nil {
		return nil
	}
	return classify(err, c.settings.shown())
}

// decode returns request with its spans decoded.
func decode(request []*tracepb.ResourceSpans) ([]*tracepb.ResourceSpans, error) {
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: request})
	if err != nil {
		return nil, err
	}
	data := new(tracepb.TracesData)
	err = proto.Unmarshal(b, data)
	return data.GetResourceSpans(), err
}

func (c *client) Stop(ctx context.Context) error {
	if c.Client == nil { // not started
		return nil
	}
	err := c.Client.Stop(ctx)
	if to, _ := c.connect(); to != nil {
		to.release()
	}
	return err
}
