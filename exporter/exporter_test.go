package exporter

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestMain(m *testing.M) {
	if child := os.Getenv("EXPORTER_TEST_CHILD"); child != "" {
		children[child]()
		os.Exit(0)
	}
	for _, kv := range os.Environ() { // a developer's own collector is not for tests
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// children are what the test binary does instead of testing, when a test
// starts it again.
var children = map[string]func(){
	"misconfigured": misconfigured,
	"sink":          sink,
}

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

var protocols = []string{"grpc", "http/protobuf", "http/json"}

func endpointOf(r *receivertest.Receiver, protocol string) string {
	if protocol == "grpc" {
		return r.GRPCEndpoint()
	}
	return r.HTTPEndpoint()
}

func newClient(t *testing.T, cfg OTLP) *client {
	t.Helper()
	c, err := NewOTLP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*client)
}

// A collector is something at the other end, and what becomes of five spans.
type collector struct {
	name      string
	behave    func(*receivertest.Receiver)
	patience  time.Duration // of Close
	delivered int
	cause     string // over gRPC
	httpCause string // if it differs
	hint      string
}

var collectors = []collector{
	{name: "well", delivered: 5},
	{name: "absent", behave: (*receivertest.Receiver).Stop, cause: "connection refused", hint: "nothing listens on http://127.0.0.1"},
	{name: "hung", behave: (*receivertest.Receiver).Hang, patience: 300 * time.Millisecond, cause: "did not answer in time"},
	{name: "late", behave: func(r *receivertest.Receiver) { r.Delay(50 * time.Millisecond) }, delivered: 5},
	{name: "busy at first", behave: refuse(2, codes.Unavailable, "starting"), delivered: 5},
	{name: "busy", behave: refuse(1e6, codes.Unavailable, "starting"), patience: 300 * time.Millisecond, cause: "starting"},
	{name: "full", behave: refuse(1e6, codes.ResourceExhausted, "disk full"), patience: 300 * time.Millisecond,
		cause: "refused: disk full", httpCause: "429 Too Many Requests: disk full"},
	{name: "full for a moment", behave: func(r *receivertest.Receiver) {
		st, _ := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{})
		r.Refuse(2, st.Err())
	}, delivered: 5},
	{name: "unauthenticated", behave: refuse(1e6, codes.Unauthenticated, "no token"),
		cause: "unauthenticated: no token", httpCause: "unauthenticated: 401 Unauthorized: no token", hint: "OTEL_EXPORTER_OTLP_HEADERS"},
	{name: "forbidden", behave: refuse(1e6, codes.PermissionDenied, "not yours"),
		cause: "unauthenticated: not yours", httpCause: "403 Forbidden: not yours", hint: "OTEL_EXPORTER_OTLP_HEADERS"},
	{name: "something else", behave: refuse(1e6, codes.Unimplemented, "unknown service"),
		cause: "no traces are taken there: unknown service", httpCause: "404 Not Found: unknown service", hint: "is http://127.0.0.1"},
	{name: "picky", behave: refuse(1e6, codes.InvalidArgument, "a\nbad\x1b[31mname"),
		cause: "a bad [31mname", httpCause: "400 Bad Request: a bad [31mname"},
	{name: "broken", behave: refuse(1e6, codes.Internal, ""), cause: "Internal", httpCause: "500 Internal Server Error"},
	{name: "partial", behave: func(r *receivertest.Receiver) { r.Partial(2, "too (old)\n") },
		delivered: 3, cause: "rejected by the collector: too (old)"},
	{name: "partial in words only", behave: func(r *receivertest.Receiver) { r.Partial(0, "be careful") }, delivered: 5},
}

func refuse(n int, code codes.Code, message string) func(*receivertest.Receiver) {
	return func(r *receivertest.Receiver) { r.Refuse(n, status.Error(code, message)) }
}

func TestCollectors(t *testing.T) {
	for _, protocol := range protocols {
		for _, tt := range collectors {
			t.Run(protocol+"/"+tt.name, func(t *testing.T) {
				r := receivertest.Start(t)
				if tt.behave != nil {
					tt.behave(r)
				}
				e := New(Config{Client: newClient(t, OTLP{Protocol: protocol, Endpoint: endpointOf(r, protocol)})})
				for i := range 5 {
					e.Export(sized(fmt.Sprint(i), 100))
				}
				patience := 20 * time.Second
				if tt.patience > 0 {
					patience = tt.patience
				}
				start := time.Now()
				report := closeWithin(t, e, patience)
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("Close took %v", took)
				}
				if protocol != "grpc" && tt.httpCause != "" {
					tt.cause = tt.httpCause
				}
				wantReport(t, report, tt.delivered, 5-tt.delivered, tt.cause)
				if !strings.Contains(report.Hint, tt.hint) {
					t.Errorf("hint is %q, want %q", report.Hint, tt.hint)
				}
				if want := tt.delivered; want == 5 && len(r.Spans()) != want {
					t.Errorf("%d spans arrived, want %d", len(r.Spans()), want)
				}
			})
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	tests := []struct {
		code              int
		contentType, body string
		attempts          int // 0 is many
		cause, hint       string
	}{
		{400, "text/plain", "bad wire\n", 1, "400 Bad Request: bad wire", ""},
		{401, "", "", 1, "unauthenticated: 401", "OTEL_EXPORTER_OTLP_HEADERS"},
		{403, "application/json", `{"code":7,"message":"not yours","more":1}`, 1, "unauthenticated: 403 Forbidden: not yours", "OTEL_EXPORTER_OTLP_HEADERS"},
		{404, "text/html", "<html>", 1, "404 Not Found", "/v1/traces the right address?"},
		{405, "text/html", "<html>", 1, "405 Method Not Allowed", "right address?"},
		{413, "", "", 3, "larger than the receiver takes", ""}, // two spans, then one by one
		{429, "", "", 0, "429 Too Many Requests", ""},
		{500, "application/x-protobuf", "\xff", 1, "500 Internal Server Error", ""},
		{502, "", "", 0, "502 Bad Gateway", ""},
		{503, "text/plain", "later", 0, "503 Service Unavailable: later", ""},
		{504, "", "", 0, "504 Gateway Timeout", ""},
		{301, "", "", 1, "301 Moved Permanently: /login", ""},
		{307, "", "", 1, "307 Temporary Redirect: /login", ""},
		{200, "text/html; charset=utf-8", "<html>", 1, "a web page, not a collector", "right address?"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.code), func(t *testing.T) {
			attempts := make(chan int, 100)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				attempts <- 1
				w.Header().Set("Content-Type", tt.contentType)
				w.Header().Set("Location", "/login")
				w.WriteHeader(tt.code)
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			e := New(Config{Client: newClient(t, OTLP{Protocol: "http/protobuf", Endpoint: s.URL})})
			e.Export(sized("a", 100))
			e.Export(sized("b", 100))
			report := closeWithin(t, e, 300*time.Millisecond)
			wantReport(t, report, 0, 2, tt.cause)
			if !strings.Contains(report.Hint, tt.hint) {
				t.Errorf("hint is %q, want %q", report.Hint, tt.hint)
			}
			if n := len(attempts); tt.attempts == 0 && n < 2 || tt.attempts > 0 && n != tt.attempts {
				t.Errorf("%d attempts, want %d", n, tt.attempts)
			}
		})
	}
}

// A listener that nobody accepts from looks like a host that froze.
func TestFrozenCollector(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			e := New(Config{Client: newClient(t, OTLP{Protocol: protocol, Endpoint: "http://" + l.Addr().String()})})
			e.Export(sized("a", 100))
			start := time.Now()
			wantReport(t, closeWithin(t, e, 300*time.Millisecond), 0, 1, "did not answer in time")
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
		})
	}
}

func TestAttemptsTimeOut(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			r.Hang()
			e := New(Config{
				Client:   newClient(t, OTLP{Protocol: protocol, Endpoint: endpointOf(r, protocol), Timeout: 50 * time.Millisecond}),
				Interval: time.Millisecond,
			})
			e.Export(sized("a", 100))
			r.Await(func() bool { return r.Attempts() >= 2 })
			r.Respond(func(int) (*coltracepb.ExportTraceServiceResponse, error) { return nil, nil })
			wantReport(t, closeWithin(t, e, 20*time.Second), 1, 0, "")
		})
	}
}

func TestCollectorDiesAndComesBack(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			e := New(Config{
				Client:   newClient(t, OTLP{Protocol: protocol, Endpoint: endpointOf(r, protocol)}),
				Interval: time.Millisecond,
			})
			e.Export(sized("before", 100))
			r.Await(func() bool { return len(r.Spans()) == 1 })

			r.Hang() // so that it dies with a request in its hands
			e.Export(sized("during", 100))
			r.Await(func() bool { return r.Attempts() == 1 })
			r.Stop()
			e.Export(sized("while away", 100))
			r.Respond(func(int) (*coltracepb.ExportTraceServiceResponse, error) { return nil, nil })
			r.Restart()
			r.Await(func() bool { return len(r.Spans()) == 3 })
			wantReport(t, closeWithin(t, e, 20*time.Second), 3, 0, "")
		})
	}
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
				resource := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "host.name"}}}
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
