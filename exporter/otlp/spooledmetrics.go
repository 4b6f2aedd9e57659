package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc/metadata"
)

// encodeKey is the key of where to encode a request to, instead of sending it.
type encodeKey struct{}

func encodingInto(ctx context.Context) *[]byte {
	into, _ := ctx.Value(encodeKey{}).(*[]byte)
	return into
}

// Encode returns metrics as an ExportMetricsServiceRequest, for a spool. Only
// OpenTelemetry's exporter can encode them, and only to send them: the connection
// takes the request from it.
func (e *MetricExporter) Encode(data *metricdata.ResourceMetrics) (request []byte, err error) {
	err = e.Exporter.Export(context.WithValue(context.Background(), encodeKey{}, &request), data)
	return request, err
}

// captureBody takes the request's body, and answers that it was accepted.
func captureBody(req *http.Request, into *[]byte) (*http.Response, error) {
	defer req.Body.Close()
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	*into = b
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// UploadMetrics sends metrics from a spool. The client must be started.
func (c *client) UploadMetrics(ctx context.Context, request []byte) error {
	to, err := c.connect()
	if err != nil {
		return err
	}
	return c.settings.uploadMetrics(ctx, to, request)
}

// uploadMetrics sends a request as it is: OpenTelemetry's exporters take no encoded
// one.
func (s *Settings) uploadMetrics(ctx context.Context, to *connection, request []byte) error {
	var got answer
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, answerKey{}, &got), s.timeout)
	defer cancel()
	send := s.postMetrics
	if to.grpc != nil {
		send = s.callMetrics
	}
	return s.metricsError(send(ctx, to, request), got)
}

func (s *Settings) callMetrics(ctx context.Context, to *connection, request []byte) error {
	message := new(colmetricpb.ExportMetricsServiceRequest)
	message.ProtoReflect().SetUnknown(request) // encoded verbatim
	_, err := colmetricpb.NewMetricsServiceClient(to.grpc).Export(metadata.NewOutgoingContext(ctx, metadata.New(s.headers)), message)
	return err
}

func (s *Settings) postMetrics(ctx context.Context, to *connection, request []byte) error {
	encoding := ""
	if s.compression == "gzip" {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(request) // to memory
		_ = w.Close()
		request, encoding = packed.Bytes(), "gzip"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), bytes.NewReader(request))
	if err != nil {
		return err
	}
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := s.httpClient(to).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
