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
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
)

func TestRequestsStayUnderTheLimit(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			resource := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: strings.Repeat("k", 200)}}}
			scope := &commonpb.InstrumentationScope{Name: "spantee"}
			from := spool.NewOrigin(resource, scope)
			e := exporter.New(exporter.Config{
				Client:   newClient(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)}),
				Patience: time.Minute,
			})
			// The lengths of the two messages around the span take four bytes each, in an empty
			// request two and one.
			empty := proto.Size(&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{
				{Resource: resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope}}},
			}})
			largest := 3<<20 - empty - 2 - 3 - 1 - 4 // the span's tag and length
			const spans = 16
			for i := range spans {
				size := 100 << 10
				if i == 9 { // alone it fits to the byte
					size = largest
				}
				export(e, encode(sized(fmt.Sprint(i), size)), from)
			}
			export(e, encode(sized("one byte more", largest+1)), from)
			wantReport(t, closeWithin(t, e, 30*time.Second), spans, 1, "exceeds the maximum request size")
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
			Events: []*tracepb.Span_Event{{TimeUnixNano: 1, Name: "text.delta"}, {TimeUnixNano: 2, Name: "thinking.delta"}},
			Links:  []*tracepb.Span_Link{{TraceId: []byte("fedcba9876543210"), SpanId: []byte("linked00")}},
			Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "timeout"},
		}
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
				from := spool.NewOrigin(resource, scope)
				t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
				e := exporter.New(exporter.Config{
					Client: newClient(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)}),
				})
				var want []*tracepb.Span
				for _, span := range testSpans() {
					export(e, encode(span), from)
					want = append(want, span)
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
		e := exporter.New(exporter.Config{Client: newClient(t, Config{Protocol: "http/protobuf", Endpoint: s.URL})})
		for _, span := range testSpans() {
			export(e, encode(span), nobody)
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
			e := exporter.New(exporter.Config{Client: newClient(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)})})
			export(e, encode(sized("good", 100)), nobody)
			export(e, bytes.ReplaceAll(encode(sized("bad", 100)), []byte("bad"), []byte("b\xffd")), nobody)
			wantReport(t, closeWithin(t, e, 20*time.Second), 1, 1, "not UTF-8")
			if len(r.Spans()) != 1 || r.Spans()[0].Name != "good" {
				t.Errorf("got %v", r.Spans())
			}
		})
	}
}
