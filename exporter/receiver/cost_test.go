package receiver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A request that would take too much memory once decoded is refused, whatever takes it.
func TestMaxCost(t *testing.T) {
	r, err := Start(Config{MaxCost: 100 << 10, Handle: func(context.Context, []byte) (none Rejected, err error) { return none, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list := func(format, element string, n int) []byte {
		return fmt.Appendf(nil, format, bytes.Repeat([]byte(","+element), n)[1:])
	}
	for name, request := range map[string]func(n int) []byte{
		"entities": func(n int) []byte { return list(`{"resourceSpans":[{"resource":{"entityRefs":[%s]}}]}`, `{}`, n) },
		"keys": func(n int) []byte {
			return list(`{"resourceSpans":[{"resource":{"entityRefs":[{"idKeys":[%s]}]}}]}`, `""`, n)
		},
		"events": func(n int) []byte {
			return list(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":[%s]}]}]}]}`, `{}`, n)
		},
		"resources": func(n int) []byte { return list(`{"resourceSpans":[%s]}`, `{}`, n) },
	} {
		if code, answer := post(t, r, request(100), typeJSON); code != http.StatusOK {
			t.Errorf("100 %s: %d %s", name, code, answer)
		}
		if code, answer := post(t, r, request(10_000), typeJSON); code != http.StatusBadRequest {
			t.Errorf("10,000 %s: %d %s", name, code, answer)
		}
	}
	data := &tracepb.TracesData{ResourceSpans: make([]*tracepb.ResourceSpans, 10_000)}
	for i := range data.ResourceSpans {
		data.ResourceSpans[i] = new(tracepb.ResourceSpans)
	}
	b, err := proto.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := post(t, r, b, typeProtobuf); code != http.StatusBadRequest {
		t.Errorf("protobuf: %d %s", code, answer)
	}
}

// A request is accepted if and only if it can be decoded, without decoding it.
func TestChecked(t *testing.T) {
	text := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{{Value: &commonpb.AnyValue_StringValue{StringValue: s}}}}}}
	}
	valid, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{
		TraceId: []byte("\xff\xfe"), Name: "name", Attributes: []*commonpb.KeyValue{{Key: "key", Value: text("value")}},
		Events: []*tracepb.Span_Event{{Name: "event"}}, Status: &tracepb.Status{Message: "message"},
	}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range valid {
		for _, b := range []byte{0, 0xff, valid[i] + 1} {
			request := bytes.Clone(valid)
			request[i] = b
			_, got := costOf(request, defaultMaxCost)
			if want := proto.Unmarshal(request, new(tracepb.TracesData)); (got == nil) != (want == nil) {
				t.Errorf("byte %d is %#x: %v, want %v", i, b, got, want)
			}
			if got != nil {
				refused++
			}
		}
	}
	if _, err := costOf(valid, defaultMaxCost); err != nil || refused == 0 {
		t.Errorf("%v, %d refused", err, refused)
	}
}
