package otlp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// A collector is something at the other end, and what becomes of five spans.
type collector struct {
	name      string
	behave    func(*receivertest.Receiver)
	patience  time.Duration // of Close, after the first attempt
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
	{
		name: "full", behave: refuse(1e6, codes.ResourceExhausted, "disk full"), patience: 300 * time.Millisecond,
		cause: "refused: disk full", httpCause: "429 Too Many Requests: disk full",
	},
	{name: "full for a moment", behave: func(r *receivertest.Receiver) {
		st, _ := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{})
		r.Refuse(2, st.Err())
	}, delivered: 5},
	{
		name: "unauthenticated", behave: refuse(1e6, codes.Unauthenticated, "no token"),
		cause: "unauthenticated: no token", httpCause: "unauthenticated: 401 Unauthorized: no token", hint: "OTEL_EXPORTER_OTLP_HEADERS",
	},
	{
		name: "forbidden", behave: refuse(1e6, codes.PermissionDenied, "not yours"),
		cause: "not permitted: not yours", httpCause: "403 Forbidden: not yours", hint: "OTEL_EXPORTER_OTLP_HEADERS",
	},
	{
		name: "something else", behave: refuse(1e6, codes.Unimplemented, "unknown service"),
		cause: "no traces are accepted there: unknown service", httpCause: "404 Not Found: unknown service", hint: "is http://127.0.0.1",
	},
	{
		name: "picky", behave: refuse(1e6, codes.InvalidArgument, "a\nbad\x1b[31mname"),
		cause: "a bad [31mname", httpCause: "400 Bad Request: a bad [31mname",
	},
	{name: "broken", behave: refuse(1e6, codes.Internal, ""), cause: "Internal", httpCause: "500 Internal Server Error"},
	{
		name: "partial", behave: func(r *receivertest.Receiver) { r.Partial(2, "too (old)\n") },
		delivered: 3, cause: "rejected by the collector: too (old)",
	},
	{name: "partial in name only", behave: func(r *receivertest.Receiver) { r.Partial(0, "") }, delivered: 5},
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
				cfg := exporter.Config{Client: newClient(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)})}
				patience := 20 * time.Second
				if tt.patience > 0 {
					cfg.Interval, patience = time.Millisecond, tt.patience
				}
				e := exporter.New(cfg)
				for i := range 5 {
					export(e, encode(sized(fmt.Sprint(i), 100)), nobody)
				}
				if tt.patience > 0 {
					r.Await(func() bool { return r.Attempts() > 0 })
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
				if got := hintOf(report.Cause); !strings.Contains(got, tt.hint) {
					t.Errorf("hint is %q, want %q", got, tt.hint)
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
		{403, "application/json", `{"code":7,"message":"not yours","more":1}`, 1, "not permitted: 403 Forbidden: not yours", "OTEL_EXPORTER_OTLP_HEADERS"},
		{404, "text/html", "<html>", 1, "404 Not Found", "/v1/traces the right address?"},
		{405, "text/html", "<html>", 1, "405 Method Not Allowed", "right address?"},
		{413, "", "", 3, "exceeds the receiver's limit", ""}, // two spans, then one by one
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
			cfg := exporter.Config{Client: newClient(t, Config{Protocol: "http/protobuf", Endpoint: s.URL})}
			patience := 20 * time.Second
			if tt.attempts == 0 {
				cfg.Interval, patience = time.Millisecond, 0
			}
			e := exporter.New(cfg)
			export(e, encode(sized("a", 100)), nobody)
			export(e, encode(sized("b", 100)), nobody)
			if tt.attempts == 0 {
				<-attempts
				<-attempts
			}
			report := closeWithin(t, e, patience)
			wantReport(t, report, 0, 2, tt.cause)
			if got := hintOf(report.Cause); !strings.Contains(got, tt.hint) {
				t.Errorf("hint is %q, want %q", got, tt.hint)
			}
			if n := len(attempts); tt.attempts > 0 && n != tt.attempts {
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
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000") // Close does not wait for it
			e := exporter.New(exporter.Config{Client: newClient(t, Config{Protocol: protocol, Endpoint: "http://" + l.Addr().String()})})
			export(e, encode(sized("a", 100)), nobody)
			wantReport(t, closeWithin(t, e, 300*time.Millisecond), 0, 1, "did not answer in time")
		})
	}
}

func TestAttemptsTimeOut(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			r.Hang()
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
			e := exporter.New(exporter.Config{
				Client:   newClient(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)}),
				Interval: time.Millisecond,
			})
			export(e, encode(sized("a", 100)), nobody)
			r.Await(func() bool { return r.Attempts() >= 2 })
			r.Refuse(0, nil)
			wantReport(t, closeWithin(t, e, 20*time.Second), 1, 0, "")
		})
	}
}

func TestCollectorDiesAndComesBack(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			e := exporter.New(exporter.Config{
				Client:   newClient(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)}),
				Interval: time.Millisecond,
			})
			export(e, encode(sized("before", 100)), nobody)
			r.Await(func() bool { return len(r.Spans()) == 1 })

			r.Hang() // so that it dies with a request in its hands
			export(e, encode(sized("during", 100)), nobody)
			r.Await(func() bool { return r.Attempts() == 1 })
			r.Stop()
			export(e, encode(sized("while away", 100)), nobody)
			r.Refuse(0, nil)
			r.Restart()
			r.Await(func() bool { return len(r.Spans()) == 3 })
			wantReport(t, closeWithin(t, e, 20*time.Second), 3, 0, "")
		})
	}
}
