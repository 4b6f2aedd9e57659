package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/httpclient"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
)

// A connection is made by the first request over it.
type connection struct {
	grpc   *grpc.ClientConn // nil over HTTP
	http   *http.Client     // nil over gRPC
	traces tracesClient
	using  sync.WaitGroup // requests that have it from get
}

// A tracesClient is one of OpenTelemetry's.
type tracesClient interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error
}

// get returns the connection. The caller must call using.Done after its request.
func (c *client) get() (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		conn, err := c.settings.connect()
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	c.conn.using.Add(1)
	return c.conn, nil
}

// drop closes a connection: the next request makes another. A request without an
// answer says that the connection may be dead, which gRPC and HTTP/2 would not notice.
func (c *client) drop(conn *connection) {
	c.mu.Lock()
	if c.conn == conn {
		c.conn = nil
	}
	c.mu.Unlock()
	conn.close()
}

// close does not wait, because closing takes gRPC up to five seconds if the server does
// not read. The connection is closed after the requests that have it: OpenTelemetry's client
// fails a request that comes after Stop as if it could never be sent.
func (c *connection) close() {
	go func() {
		c.using.Wait()
		_ = c.traces.Stop(context.Background())
		if c.grpc != nil {
			_ = c.grpc.Close()
			return
		}
		c.http.CloseIdleConnections()
	}()
}

// connect returns a connection for these settings. It fails if a certificate cannot be
// read; the file may exist by the next request.
func (s *Settings) connect() (*connection, error) {
	secure, err := s.tls.load()
	if err != nil {
		return nil, err
	}
	c := new(connection)
	if s.protocol == "grpc" {
		if c.grpc, err = s.dial(secure); err != nil {
			return nil, err
		}
		c.traces = otlptracegrpc.NewClient(otlptracegrpc.WithGRPCConn(c.grpc), otlptracegrpc.WithHeaders(s.headers),
			otlptracegrpc.WithTimeout(s.timeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	} else {
		c.http = s.httpClient(secure)
		encoding, compression := otlptracehttp.EncodingProtobuf, otlptracehttp.NoCompression
		if s.protocol == "http/json" {
			encoding = otlptracehttp.EncodingJSON
		}
		if s.compression == "gzip" {
			compression = otlptracehttp.GzipCompression
		}
		c.traces = otlptracehttp.NewClient(otlptracehttp.WithHTTPClient(c.http), otlptracehttp.WithEndpointURL(s.endpoint.String()),
			otlptracehttp.WithTLSClientConfig(nil), otlptracehttp.WithHeaders(s.httpHeaders()), otlptracehttp.WithEncoding(encoding),
			otlptracehttp.WithCompression(compression), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	}
	return c, c.traces.Start(context.Background())
}

// dial returns a gRPC connection, which is made by the first request.
func (s *Settings) dial(secure *tls.Config) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithUserAgent(s.withUserAgent(exporterAgent)),
		grpc.WithChainUnaryInterceptor(s.interceptAnswer), grpc.WithStatsHandler(watcher{}), grpc.WithDisableServiceConfig(),
	}
	if s.compression == "gzip" {
		options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	}
	network, address := s.at().Target()
	if network == "unix" {
		return grpc.NewClient("unix:"+address, options...)
	}
	return grpc.NewClient("passthrough:///"+address, options...)
}

// A noAnswer is the error of a request that no server has answered.
type noAnswer struct{ error }

func (e noAnswer) Unwrap() error { return e.error }

// A progress says how far a request over gRPC has come. A cancelled request returns while
// its response may still arrive.
type progress struct{ header, trailer atomic.Bool }

type progressKey struct{}

// A watcher records the progress of a request in its context: the error of a request does
// not say whether it comes from the server.
type watcher struct{ stats.Handler }

func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (watcher) HandleConn(context.Context, stats.ConnStats)                       {}

func (watcher) HandleRPC(ctx context.Context, event stats.RPCStats) {
	got := ctx.Value(progressKey{}).(*progress)
	switch event.(type) {
	case *stats.InHeader:
		got.header.Store(true)
	case *stats.InTrailer:
		got.trailer.Store(true)
	}
}

// interceptAnswer turns a partial success into an error, and an error that does not
// come from a gRPC server into a noAnswer.
func (s *Settings) interceptAnswer(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	got := new(progress)
	err := invoke(context.WithValue(ctx, progressKey{}, got), method, request, response, conn, options...)
	code := status.Code(err)
	switch {
	case err == nil:
		return partialSuccess(response)
	case got.trailer.Load():
		return err
	case got.header.Load(), code == codes.Unavailable:
		return noAnswer{err}
	case code == codes.Unknown, code == codes.Internal: // a web page, or the server cannot take the headers
		return endpoint.Failure(exporter.Misconfigured, endpoint.OneLine(status.Convert(err).Message()), s.at().HintAddress())
	}
	return err
}

// httpClient returns a client whose answers are successes. Everything else is an error.
func (s *Settings) httpClient(secure *tls.Config) *http.Client {
	client := httpclient.New(func(t *http.Transport) {
		t.TLSClientConfig = secure
		t.IdleConnTimeout = idleTimeout
		t.OnProxyConnectResponse = endpoint.CheckProxy
	})
	client.Transport = answers{client.Transport.(*http.Transport)}
	return client
}

// idleTimeout is how long a connection is kept without a request.
const idleTimeout = 30 * time.Second

// upload makes one attempt to send a request. Its error is an *exporter.UploadError.
func (c *client) upload(ctx context.Context, send func(context.Context, *connection) error) error {
	s := c.settings
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := c.get()
	if err != nil {
		return endpoint.Failure(exporter.Misconfigured, endpoint.OneLine(err.Error()), "")
	}
	defer conn.using.Done()
	if conn.grpc != nil && s.at().Proxy() != nil && conn.grpc.GetState() != connectivity.Ready {
		// grpc-go reads without end what a proxy answers, whatever the context.
		if failed := s.at().Probe(ctx); failed != nil {
			return failed
		}
	}
	err = send(ctx, conn)
	lost, unanswered := errors.AsType[noAnswer](err)
	if unanswered || ctx.Err() != nil {
		c.drop(conn)
	}
	switch {
	case err == nil:
		return nil
	case unanswered:
		return s.explain(ctx, lost.error)
	}
	return s.classify(ctx, err)
}

// explain returns the error for a request that was not answered because of err.
func (s *Settings) explain(ctx context.Context, err error) *exporter.UploadError {
	if e, ok := errors.AsType[*exporter.UploadError](err); ok { // of a proxy
		return e
	}
	failed := s.at().Probe(ctx)
	switch {
	case ctx.Err() != nil:
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: endpoint.ErrTimeout}
	case failed != nil:
		return failed
	}
	if e, ok := errors.AsType[grpcError](err); ok {
		return endpoint.Failure(exporter.Retryable, endpoint.OneLine(e.GRPCStatus().Message()), "")
	}
	return endpoint.Failure(exporter.Retryable, endpoint.OneLine(err.Error()), "")
}

// exporterAgent is the product that OpenTelemetry's exporter for Go names in its
// User-Agent, which gateways know. The specification asks for an exporter, its language
// and version.
var exporterAgent = "OTel OTLP Exporter Go/" + sdk.Version()

// withUserAgent returns a User-Agent: first the one of the Config, then product.
func (s *Settings) withUserAgent(product string) string {
	return strings.TrimSpace(s.userAgent + " " + product)
}
