// Package otlpjson converts spans between OTLP's protobuf encoding and its [JSON], by
// way of the collector's pdata.
//
// [JSON]: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
package otlpjson

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Traces returns an ExportTraceServiceRequest as JSON.
func Traces(request []byte) ([]byte, error) {
	traces, err := new(ptrace.ProtoUnmarshaler).UnmarshalTraces(request)
	if err != nil {
		return nil, err
	}
	text, err := new(ptrace.JSONMarshaler).MarshalTraces(traces)
	if err == nil && !utf8.Valid(text) {
		err = errors.New("text that is not UTF-8")
	}
	return text, err
}

// ParseTraces returns the ExportTraceServiceRequest that JSON stands for. It is lenient
// as the specification wants it: it skips unknown fields, and accepts names of enums,
// and integers in strings or not.
func ParseTraces(b []byte) (request []byte, err error) {
	if !json.Valid(b) { // which bounds how deeply values are nested
		var v any
		return nil, json.Unmarshal(b, &v) // says what is wrong
	}
	traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(b)
	if err != nil {
		return nil, err
	}
	return new(ptrace.ProtoMarshaler).MarshalTraces(traces)
}
