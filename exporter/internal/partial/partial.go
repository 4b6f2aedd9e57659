// Package partial encodes and decodes the responses of OTLP receivers. The package of
// the generated types imports google.golang.org/grpc, which takes long to initialize.
package partial

import (
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A Success is what a response says of a request that was accepted: an
// ExportTraceServiceResponse or an ExportMetricsServiceResponse.
type Success struct {
	Rejected int64  // spans or data points
	Message  string // why they were rejected, or a warning
}

// The numbers of the fields are the same for all signals.
const (
	partialSuccess = 1

	rejected     = 1
	errorMessage = 2
)

// Append appends the encoded response to b.
func (s Success) Append(b []byte) []byte {
	if s == (Success{}) {
		return b
	}
	var inner []byte
	if s.Rejected != 0 {
		inner = protowire.AppendTag(inner, rejected, protowire.VarintType)
		inner = protowire.AppendVarint(inner, uint64(s.Rejected)) //nolint:gosec // this is how protobuf encodes an int64
	}
	if s.Message != "" {
		inner = protowire.AppendTag(inner, errorMessage, protowire.BytesType)
		inner = protowire.AppendString(inner, s.Message)
	}
	b = protowire.AppendTag(b, partialSuccess, protowire.BytesType)
	return protowire.AppendBytes(b, inner)
}

// JSON returns the response to spans as OTLP JSON.
func (s Success) JSON() ([]byte, error) {
	var response struct {
		PartialSuccess struct {
			RejectedSpans int64  `json:"rejectedSpans,string,omitempty"`
			ErrorMessage  string `json:"errorMessage,omitempty"`
		} `json:"partialSuccess,omitzero"`
	}
	response.PartialSuccess.RejectedSpans, response.PartialSuccess.ErrorMessage = s.Rejected, s.Message
	return json.Marshal(response)
}

// Decode decodes a response.
func Decode(b []byte) (s Success, err error) {
	var inner []byte
	err = field.Each(b, func(number protowire.Number, v field.Value) {
		if number == partialSuccess {
			inner = append(inner, v.Bytes...) // protobuf merges a message that is repeated
		}
	})
	if err != nil {
		return s, err
	}
	err = field.Each(inner, func(number protowire.Number, v field.Value) {
		switch number {
		case rejected:
			s.Rejected = int64(v.Number) //nolint:gosec // this is how protobuf encodes an int64
		case errorMessage:
			s.Message = string(v.Bytes)
		}
	})
	if err != nil {
		return Success{}, err
	}
	return s, nil
}

// DecodeJSON decodes a response in OTLP JSON.
func DecodeJSON(b []byte) (Success, error) {
	var response struct {
		PartialSuccess struct {
			RejectedSpans, RejectedDataPoints count
			ErrorMessage                      string
		}
	}
	err := json.Unmarshal(b, &response)
	p := response.PartialSuccess
	return Success{int64(p.RejectedSpans + p.RejectedDataPoints), p.ErrorMessage}, err
}

// A count is an int64, in JSON a number or a string.
type count int64

func (c *count) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	*c = count(n)
	return err
}
