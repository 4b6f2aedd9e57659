package otlp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

func TestRetryAfterHeader(t *testing.T) {
	for _, tt := range []struct {
		code    int
		header  string
		atLeast time.Duration
		atMost  time.Duration
	}{
		{429, "7", 7 * time.Second, 7 * time.Second},
		{503, "120", 2 * time.Minute, 2 * time.Minute},
		{502, "1", time.Second, time.Second},
		{504, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 59 * time.Minute, time.Hour},
		{503, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0, 0},
		{503, "", 0, 0},
		{503, "soon", 0, 0},
		{503, "-5", 0, 0},
		{503, "99999999999999999999", 24 * time.Hour, 1 << 62},
		{400, "7", 0, 0}, // it will never be accepted
	} {
		t.Run(fmt.Sprint(tt.code, tt.header), func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.code)
			}))
			defer s.Close()
			failed := errorOf(t, Config{Protocol: "http/protobuf", Endpoint: s.URL})
			if failed.RetryAfter < tt.atLeast || failed.RetryAfter > tt.atMost {
				t.Errorf("retry after %v, want %v", failed.RetryAfter, tt.atLeast)
			}
			if (failed.Verdict == exporter.Retryable) != (tt.code != 400) {
				t.Errorf("verdict %d", failed.Verdict)
			}
			if strings.Contains(failed.Error(), "retry after") != (tt.atLeast > 0) {
				t.Errorf("cause %q", failed)
			}
		})
	}
}

func TestRetryInfo(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Aborted} {
		r := receivertest.Start(t)
		st, err := status.New(code, "slow down").WithDetails(
			&errdetails.ErrorInfo{Reason: "BUSY"}, &errdetails.RetryInfo{RetryDelay: durationpb.New(9 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		r.Refuse(1, st.Err())
		failed := errorOf(t, Config{Endpoint: r.GRPCEndpoint()})
		if failed == nil || failed.Verdict != exporter.Retryable || failed.RetryAfter != 9*time.Second || failed.Error() != "slow down; retry after 9s" {
			t.Errorf("%v: %#v", code, failed)
		}
	}
}

// A receiver that wants no requests for longer than Close may take gets none.
func TestARetryAfterIsObeyed(t *testing.T) {
	requests := make(chan time.Time, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests <- time.Now()
		w.Header().Set("Retry-After", "1")
		if len(requests) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer s.Close()
	for _, tt := range []struct {
		within    time.Duration
		delivered int
	}{{20 * time.Second, 1}, {500 * time.Millisecond, 0}} {
		e := exporter.New(exporter.Config{Client: newClient(t, Config{Protocol: "http/protobuf", Endpoint: s.URL})})
		export(e, encode(sized("a", 100)), nobody)
		wantReport(t, closeWithin(t, e, tt.within), tt.delivered, 1-tt.delivered, "429 Too Many Requests; retry after 1s")
		if len(requests) != 1+tt.delivered {
			t.Errorf("%d requests within %v", len(requests), tt.within)
		}
		first := <-requests
		if tt.delivered == 1 {
			if second := <-requests; second.Sub(first) < time.Second {
				t.Errorf("again after %v", second.Sub(first))
			}
		}
	}
}

// The words of a partial success are the receiver's: they decide nothing.
func TestPartialSuccessIsRead(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := receivertest.Start(t)
			message := "bad\nOTLP partial success: no (77 spans rejected)"
			r.Partial(3, message)
			failed := errorOf(t, Config{Protocol: protocol, Endpoint: endpointOf(r, protocol)})
			if failed == nil || failed.Verdict != exporter.Partial || failed.Rejected != 3 ||
				failed.Error() != "rejected by the collector: bad OTLP partial success: no (77 spans rejected)" {
				t.Errorf("%#v", failed)
			}
		})
	}
}

// A body that makes no sense does not undo a success.
func TestSuccessWithAnyBody(t *testing.T) {
	for kind, body := range map[string]string{
		"application/x-protobuf": "\xff", "application/json": "{", "text/plain": "thank you",
		"application/octet-stream": strings.Repeat("x", 1<<20), "": "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, body)
		}))
		if failed := errorOf(t, Config{Protocol: "http/protobuf", Endpoint: s.URL}); failed != nil {
			t.Errorf("%q: %v", kind, failed)
		}
		s.Close()
	}
}

func TestUserAgent(t *testing.T) {
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.UserAgent() }))
	defer s.Close()
	url, requests := grpcServer(t)
	for want, userAgent := range map[string]string{"spantee/1.2 OTel OTLP Exporter Go/": "spantee/1.2", "OTel OTLP Exporter Go/": ""} {
		errorOf(t, Config{Protocol: "http/protobuf", Endpoint: s.URL, UserAgent: userAgent})
		if agent := <-got; !strings.HasPrefix(agent, want) {
			t.Errorf("over HTTP %q, want %q", agent, want)
		}
		errorOf(t, Config{Endpoint: url, UserAgent: userAgent})
		if agent := (<-requests).Get("user-agent")[0]; !strings.HasPrefix(agent, want) {
			t.Errorf("over gRPC %q, want %q", agent, want)
		}
	}
}

// Headers that belong to HTTP or to gRPC change nothing, and keep no others from being sent.
func TestReservedHeaders(t *testing.T) {
	url, requests := grpcServer(t)
	for name, value := range map[string]string{
		"connection": "close", "content-length": "3", "content-type": "text/plain", "expect": "100-continue", "grpc-encoding": "snappy",
		"grpc-status": "3", "grpc-timeout": "1n", "host": "evil.example", "te": "gzip", "trailer": "x", "transfer-encoding": "gzip",
		"upgrade": "h2c", "user-agent": "me",
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "before=1,"+name+"="+value+",after=1")
		if failed := errorOf(t, Config{Endpoint: url}); failed != nil {
			t.Errorf("%s: %v", name, failed)
			continue
		}
		request := <-requests
		if got := request.Get(name); slices.Contains(got, value) {
			t.Errorf("%s was sent", name)
		}
		if len(request.Get("before")) != 1 || len(request.Get("after")) != 1 {
			t.Errorf("%s: others were not sent", name)
		}
	}
}

// TestRequestsOverGRPC looks at what another implementation of gRPC makes of them.
func TestRequestsOverGRPC(t *testing.T) {
	url, requests := grpcServer(t)
	for signal, method := range map[string]string{
		"":      "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		Metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	} {
		errorOf(t, Config{Signal: signal, Endpoint: url, Headers: map[string]string{"key": "1", "key-bin": "café"}})
		request := <-requests
		for name, want := range map[string]string{
			":path":        method,
			"content-type": "application/grpc", // receivers need not know application/grpc+proto
			"key":          "1",
			"key-bin":      "café",
		} {
			if got := request.Get(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", signal, name, got, want)
			}
		}
		if left, err := time.ParseDuration(request.Get("timeout")[0]); err != nil || left <= 0 || left > 10*time.Second {
			t.Errorf("%s: %v left, %v", signal, left, err)
		}
	}
}
