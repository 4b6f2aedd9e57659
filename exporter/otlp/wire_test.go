package otlp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
)

// rawEvents are events as the mapping writes them: field 11, already encoded.
func rawEvents(names ...string) []byte {
	var raw []byte
	for i, name := range names {
		var event []byte
		event = protowire.AppendTag(event, 1, protowire.Fixed64Type)
		event = protowire.AppendFixed64(event, uint64(i))
		event = protowire.AppendTag(event, 2, protowire.BytesType)
		event = protowire.AppendString(event, name)
		raw = protowire.AppendTag(raw, 11, protowire.BytesType)
		raw = protowire.AppendBytes(raw, event)
	}
	return raw
}

func TestRequestsStayUnderTheLimit(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			e := New(Config{
				Client:   newClient(t, OTLP{Protocol: protocol, Endpoint: endpointOf(r, protocol)}),
				Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: strings.Repeat("k", 200)}}},
				Scope:    &commonpb.InstrumentationScope{Name: "spantee"},
				Wait:     true,
			})
			const spans = 16
			for i := range spans {
				size := 700 << 10
				if i == 9 { // alone it fits to the byte
					size = 3<<20 - e.overhead - 1 - 4
				}
				e.Export(sized(fmt.Sprint(i), size))
			}
			e.Export(sized("one byte more", 3<<20-e.overhead-1-4+1))
			wantReport(t, closeWithin(t, e, 30*time.Second), spans, 1, "larger than a request may be")
			if got := r.Largest(); got > 3<<20 || got < 3<<20-16 {
				t.Errorf("the largest request is %d bytes, want just under %d", got, 3<<20)
			}
			if got := len(r.Requests()); got > spans/4+3 {
				t.Errorf("%d requests for %d spans", got, spans)
			}
		})
	}
}

// testSpans are spans with everything in them that could come out in another order.
func testSpans() []*tracepb.Span {
	var spans []*tracepb.Span
	for i := range 10 {
		span := &tracepb.Span{
			TraceId:           []byte("0123456789abcdef"),
			SpanId:            []byte("abcdefg" + string(rune('0'+i))),
			ParentSpanId:      []byte("parent00"),
			Name:              fmt.Sprint("chat ", i),
			Kind:              tracepb.Span_SPAN_KIND_CLIENT,
			StartTimeUnixNano: 1_700_000_000_000_000_001,
			EndTimeUnixNano:   1_700_000_000_123_456_789,
			Attributes: []*commonpb.KeyValue{
				{Key: "b", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1<<53 + 1}}},
				{Key: "a", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "ü"}}},
			},
			Links:  []*tracepb.Span_Link{{TraceId: []byte("fedcba9876543210"), SpanId: []byte("linked00")}},
			Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "timeout"},
		}
		span.ProtoReflect().SetUnknown(rawEvents("text.delta", "thinking.delta", "text.delta"))
		spans = append(spans, span)
	}
	return spans
}

func TestSpansArriveWhole(t *testing.T) {
	for _, protocol := range protocols {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(protocol+"/"+compression, func(t *testing.T) {
				r := receivertest.Start(t)
				resource := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
					{Key: "host.name", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "here"}}},
				}}
				scope := &commonpb.InstrumentationScope{Name: "spantee", Version: "1"}
				e := New(Config{
					Client:   newClient(t, OTLP{Protocol: protocol, Endpoint: endpointOf(r, protocol), Compression: compression}),
					Resource: resource,
					Scope:    scope,
				})
				var want []*tracepb.Span
				for _, span := range testSpans() {
					e.Export(span)
					resolved := Resolve(span)
					if n := len(resolved.Events); n != 3 {
						t.Fatalf("%d events, want 3", n)
					}
					want = append(want, resolved)
				}
				wantReport(t, closeWithin(t, e, 20*time.Second), len(want), 0, "")
				if diff := cmp.Diff(want, r.Spans(), protocmp.Transform()); diff != "" {
					t.Errorf("spans (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff([]*resourcepb.Resource{resource}, r.Resources(), protocmp.Transform()); diff != "" {
					t.Errorf("resources (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(scope, r.Requests()[0].ResourceSpans[0].ScopeSpans[0].Scope, protocmp.Transform()); diff != "" {
					t.Errorf("scope (-want +got)\n%s", diff)
				}
			})
		}
	}
}

func TestTheSameSpansAreTheSameBytes(t *testing.T) {
	var bodies [][]byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, b)
		if len(bodies) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // a retry is to be the same, too
		}
	}))
	defer s.Close()
	for range 2 {
		e := New(Config{Client: newClient(t, OTLP{Protocol: "http/protobuf", Endpoint: s.URL})})
		for _, span := range testSpans() {
			e.Export(span)
		}
		wantReport(t, closeWithin(t, e, 20*time.Second), 10, 0, "")
	}
	if len(bodies) != 3 || !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[0], bodies[2]) {
		t.Errorf("%d requests, not the same three times", len(bodies))
	}
}

func TestNotUTF8OverTheWire(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			e := New(Config{Client: newClient(t, OTLP{Protocol: protocol, Endpoint: endpointOf(r, protocol)})})
			e.Export(sized("good", 100))
			bad := sized("bad", 100)
			bad.Name = "\xff"
			e.Export(bad)
			hidden := sized("hidden", 100)
			hidden.ProtoReflect().SetUnknown(rawEvents("\xff"))
			e.Export(hidden)
			report := closeWithin(t, e, 20*time.Second)
			if protocol != "http/json" { // which replaces what is not UTF-8
				wantReport(t, report, 1, 2, "not UTF-8")
			}
			if len(r.Spans()) == 0 || r.Spans()[0].Name != "good" {
				t.Errorf("got %v", r.Spans())
			}
		})
	}
}
