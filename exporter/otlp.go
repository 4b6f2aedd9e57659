package exporter

import (
	"context"
	"io"
	"log"
	"mime"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// The SDK, gRPC and net/http report some errors on stderr by themselves, in the
// middle of what the agent says there. Whatever matters comes back as an error
// as well. gRPC's logger must be set before anything runs, hence init.
func init() {
	log.SetOutput(io.Discard) // net/http: "Unsolicited response received on idle HTTP channel"
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}

// OTLP says where to send spans, and how. What is left empty comes from the
// OTEL_EXPORTER_OTLP_TRACES_* and OTEL_EXPORTER_OTLP_* variables, in this order,
// or else is what the OpenTelemetry specification sets. The scheme of the
// endpoint alone decides about TLS.
type OTLP struct {
	Protocol    string            // grpc, http/protobuf or http/json
	Endpoint    string            // http://host:port, https:// or, for grpc, unix:; over HTTP, /v1/traces is appended
	Headers     map[string]string // sent with every request
	Compression string            // gzip or none
	Timeout     time.Duration     // of one attempt

	CACert, ClientCert, ClientKey string // PEM files
}

// An Error is one that knows what to try.
type Error struct {
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// NewOTLP returns a client for cfg, or says what is wrong with it; that may be
// an *Error. Nothing is dialled before the first request.
func NewOTLP(cfg OTLP) (Client, error) {
	s, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	return s.client(), nil
}

func (s *settings) client() Client {
	if s.protocol == "grpc" {
		return newGRPC(s)
	}
	return newHTTP(s)
}

// A client is one of the SDK's that returns failures.
type client struct {
	otlptrace.Client
	settings *settings
	http     *http.Client // nil for gRPC
}

func (c *client) Destination() spool.Destination { return c.settings.destination() }

func newGRPC(s *settings) *client {
	creds, target := insecure.NewCredentials(), s.endpoint.Host
	switch s.endpoint.Scheme {
	case "https":
		creds = credentials.NewTLS(s.tls)
	case "unix":
		target = s.endpoint.String()
	}
	opts := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(target),
		otlptracegrpc.WithTLSCredentials(creds),
		otlptracegrpc.WithHeaders(s.headers),
		otlptracegrpc.WithTimeout(s.timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}), // retrying is the Exporter's
		// By itself gRPC would not dial again for up to two minutes, and fail
		// every attempt in between without trying.
		otlptracegrpc.WithDialOption(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minWait, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 20 * time.Second, // gRPC's default
		})),
	}
	if s.compression != "" { // to say "none" without a need makes the SDK complain
		opts = append(opts, otlptracegrpc.WithCompressor(s.compression))
	}
	return &client{Client: otlptracegrpc.NewClient(opts...), settings: s}
}

func newHTTP(s *settings) *client {
	// The SDK shares one transport among its clients, and leaves its
	// connections open when they stop.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	hc := &http.Client{Transport: statusTransport{transport}, Timeout: s.timeout}

	compression, encoding := otlptracehttp.NoCompression, otlptracehttp.EncodingProtobuf
	if s.compression == "gzip" {
		compression = otlptracehttp.GzipCompression
	}
	if s.protocol == "http/json" {
		encoding = otlptracehttp.EncodingJSON
	}
	return &client{
		Client: otlptracehttp.NewClient(
			otlptracehttp.WithHTTPClient(hc),
			otlptracehttp.WithEndpointURL(s.endpoint.String()),
			otlptracehttp.WithTLSClientConfig(nil), // the transport has it; over http:// the SDK would refuse to start
			otlptracehttp.WithHeaders(s.headers),
			otlptracehttp.WithCompression(compression),
			otlptracehttp.WithEncoding(encoding),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
		),
		settings: s,
		http:     hc,
	}
}

func (c *client) UploadTraces(ctx context.Context, request []*tracepb.ResourceSpans) error {
	if c.settings.protocol == "http/json" { // which would leave out what is in unknown fields
		full := make([]*tracepb.ResourceSpans, len(request))
		for i, rs := range request {
			full[i] = new(tracepb.ResourceSpans)
			if err := reread(rs, full[i]); err != nil {
				return err
			}
		}
		request = full
	}
	if err := c.Client.UploadTraces(ctx, request); err != nil {
		return classify(err, c.settings.endpoint.Redacted())
	}
	return nil
}

func (c *client) Stop(ctx context.Context) error {
	err := c.Client.Stop(ctx)
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	return err
}

// A statusTransport makes every answer but success a statusError: the SDK's
// own errors keep the status in prose, and tell apart what may be retried by a
// type nobody else can see.
type statusTransport struct{ *http.Transport }

func (t statusTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	success := resp.StatusCode/100 == 2
	if success && kind != "text/html" {
		return resp, nil
	}
	defer resp.Body.Close()

	e := &statusError{code: resp.StatusCode}
	switch {
	case success: // the SDK would take it for a delivery
		e.message = "a web page, not a collector"
	case resp.StatusCode/100 == 3: // not followed: the span's secrets are for the endpoint only
		e.message = resp.Header.Get("Location")
	default:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		e.message = serverMessage(kind, body)
	}
	e.message = oneLine(e.message)
	return nil, e
}

// serverMessage is what the body of an error says, if it is fit to be shown.
func serverMessage(kind string, body []byte) string {
	st := new(statuspb.Status)
	switch kind {
	case "text/plain", "":
		return string(body)
	case "application/x-protobuf":
		if proto.Unmarshal(body, st) != nil {
			return ""
		}
	case "application/json":
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, st) != nil {
			return ""
		}
	}
	return st.GetMessage()
}
