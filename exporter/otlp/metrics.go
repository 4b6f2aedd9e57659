package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
)

// A MetricExporter sends metrics to one endpoint.
//
// OpenTelemetry's exporter encodes them. It does not send them, because what is not
// delivered is kept encoded.
type MetricExporter struct {
	client
	encoder *otlpmetricgrpc.Exporter
	conn    *grpc.ClientConn // of the encoder; it is never connected
	encoded []byte           // by the encoder
}

// MetricExporter returns an exporter with these settings, which must be for metrics.
//
// If spans go to the same receiver, by a client of this package, both share its
// connection.
func (s *Settings) MetricExporter(spans exporter.Client) *MetricExporter {
	e := &MetricExporter{client: client{s, &link{settings: s, users: 1}}}
	if of, _ := spans.(*client); of != nil && s.sameReceiver(of.settings) && of.link.share() {
		e.link = of.link
	}
	// Errors could only be about options, or about the encoder's own metrics.
	e.conn, _ = grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(e.keep))
	e.encoder, _ = otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithGRPCConn(e.conn))
	return e
}

// Temporality returns what the environment prefers.
func (e *MetricExporter) Temporality(kind metric.InstrumentKind) metricdata.Temporality {
	return e.encoder.Temporality(kind)
}

// Aggregation returns what the environment prefers.
func (e *MetricExporter) Aggregation(kind metric.InstrumentKind) metric.Aggregation {
	return e.encoder.Aggregation(kind)
}

// keep keeps a request instead of sending it.
func (e *MetricExporter) keep(_ context.Context, _ string, request, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) (err error) {
	e.encoded, err = proto.Marshal(request.(proto.Message))
	return err
}

// Encode returns an ExportMetricsServiceRequest.
func (e *MetricExporter) Encode(data *metricdata.ResourceMetrics) ([]byte, error) {
	err := e.encoder.Export(context.Background(), data)
	return e.encoded, err
}

// Close closes the connection, unless spans use it.
func (e *MetricExporter) Close() {
	_ = e.conn.Close()
	e.link.release()
}

func (s *Settings) sameReceiver(as *Settings) bool {
	return s.protocol == as.protocol && s.endpoint.Scheme == as.endpoint.Scheme && s.endpoint.Host == as.endpoint.Host &&
		(s.endpoint.Scheme != "unix" || s.endpoint.String() == as.endpoint.String()) &&
		s.compression == as.compression && s.userAgent == as.userAgent && s.tls == as.tls
}

// checkPreferences reports the variables that only metrics have, if they are invalid. As
// the specification says, they are ignored.
func (s *Settings) checkPreferences() {
	for _, preference := range []struct {
		name   string
		values []string
	}{
		{"TEMPORALITY_PREFERENCE", []string{"cumulative", "delta", "lowmemory"}},
		{"DEFAULT_HISTOGRAM_AGGREGATION", []string{"explicit_bucket_histogram", "base2_exponential_bucket_histogram"}},
	} {
		variable := s.prefix() + preference.name
		from := source{variable: variable, value: strings.TrimSpace(os.Getenv(variable))}
		if _, invalid := from.oneOf(preference.values...); invalid != nil {
			s.ignored = append(s.ignored, invalid)
		}
	}
}

// UploadMetrics makes one attempt to send an ExportMetricsServiceRequest. It returns an
// *exporter.UploadError.
func (c *client) UploadMetrics(ctx context.Context, request []byte) error {
	return c.upload(ctx, func(ctx context.Context, conn *connection) error {
		if conn.http != nil {
			return c.settings.post(ctx, conn.http, request)
		}
		encoded := new(colmetricpb.ExportMetricsServiceRequest)
		encoded.ProtoReflect().SetUnknown(request)
		_, err := colmetricpb.NewMetricsServiceClient(conn.grpc).Export(metadata.NewOutgoingContext(ctx, metadata.New(c.settings.headers)), encoded)
		return err
	})
}

// post sends metrics over HTTP.
func (s *Settings) post(ctx context.Context, client *http.Client, request []byte) error {
	kind := typeProtobuf
	if s.protocol == "http/json" {
		kind = typeJSON
		data, err := new(pmetric.ProtoUnmarshaler).UnmarshalMetrics(request)
		if err != nil {
			return err
		}
		if request, err = new(pmetric.JSONMarshaler).MarshalMetrics(data); err != nil {
			return err
		}
	}
	if s.compression == "gzip" {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(request) // to memory
		_ = w.Close()
		request = packed.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), bytes.NewReader(bytes.Clone(request))) // net/http may read it later
	if err != nil {
		return err
	}
	for name, value := range s.httpHeaders() {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", kind)
	if s.compression == "gzip" {
		req.Header.Set("Content-Encoding", "gzip")
	}
	_, err = client.Do(req) //nolint:bodyclose // the transport has closed it
	return err
}

// isNoMetrics reports whether an error is the answer of a receiver without metrics.
func isNoMetrics(err error) bool {
	if answer, ok := errors.AsType[*statusError](err); ok {
		return answer.code == http.StatusNotFound
	}
	answer, ok := errors.AsType[grpcError](err)
	return ok && answer.GRPCStatus().Code() == codes.Unimplemented
}
