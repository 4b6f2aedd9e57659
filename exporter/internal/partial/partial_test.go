package partial

import (
	"testing"

	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// TestGeneratedTypes compares with the generated types, in both encodings.
func TestGeneratedTypes(t *testing.T) {
	for _, s := range []Success{{}, {Rejected: 3}, {Message: "be careful"}, {Rejected: -1, Message: "\"größer\"\n"}, {Rejected: 1 << 62, Message: "x"}} {
		spans := &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: s.Rejected, ErrorMessage: s.Message}}
		points := &colmetricpb.ExportMetricsServiceResponse{PartialSuccess: &colmetricpb.ExportMetricsPartialSuccess{RejectedDataPoints: s.Rejected, ErrorMessage: s.Message}}
		for _, response := range []proto.Message{spans, points} {
			encoded, err := proto.Marshal(response)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Decode(encoded); got != s || err != nil {
				t.Errorf("%+v: decoded %+v, %v", s, got, err)
			}
			if encoded, err = protojson.Marshal(response); err != nil {
				t.Fatal(err)
			}
			if got, err := DecodeJSON(encoded); got != s || err != nil {
				t.Errorf("%s: decoded %+v, %v", encoded, got, err)
			}
		}
		inJSON, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		for name, decode := range map[string]func(proto.Message) error{
			"protobuf": func(m proto.Message) error { return proto.Unmarshal(s.Append(nil), m) },
			"JSON":     func(m proto.Message) error { return protojson.Unmarshal(inJSON, m) },
		} {
			got := new(coltracepb.ExportTraceServiceResponse)
			if err := decode(got); err != nil || got.GetPartialSuccess().GetRejectedSpans() != s.Rejected || got.GetPartialSuccess().GetErrorMessage() != s.Message {
				t.Errorf("%s of %+v: %v, %v", name, s, got, err)
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, b := range []string{"\xff", "\x0a\x05ab", "\x0a\x02\x08\x80", "\x08"} {
		if s, err := Decode([]byte(b)); err == nil {
			t.Errorf("%q: %+v", b, s)
		}
	}
	for _, b := range []string{"", "[]", `{"partialSuccess":{"rejectedSpans":"many"}}`} {
		if s, err := DecodeJSON([]byte(b)); err == nil {
			t.Errorf("%q: %+v", b, s)
		}
	}
	// Fields of another version are skipped.
	if s, err := Decode([]byte("\x15\x01\x02\x03\x04\x0a\x04\x18\x01\x08\x02")); s != (Success{Rejected: 2}) || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
