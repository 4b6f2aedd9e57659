// Package otlpjson turns encoded OTLP requests into OTLP JSON. protojson cannot do
// this: it writes ids in base64, not hex.
package otlpjson

import (
	"errors"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Traces returns an ExportTraceServiceRequest as JSON.
func Traces(request []byte) ([]byte, error) {
	decoded, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(request)
	if err != nil {
		return nil, err
	}
	return valid((&ptrace.JSONMarshaler{}).MarshalTraces(decoded))
}

// Metrics returns an ExportMetricsServiceRequest as JSON.
func Metrics(request []byte) ([]byte, error) {
	decoded, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(request)
	if err != nil {
		return nil, err
	}
	return valid((&pmetric.JSONMarshaler{}).MarshalMetrics(decoded))
}

// valid checks what pdata does not.
func valid(json []byte, err error) ([]byte, error) {
	if err == nil && !utf8.Valid(json) {
		err = errors.New("text that is not UTF-8")
	}
	return json, err
}
