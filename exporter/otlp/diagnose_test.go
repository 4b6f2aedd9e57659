package otlp

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

func TestDiagnose(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	mutual, cert, key := secureCollector(t, 0)
	demanding, authority, _ := secureCollector(t, tls.RequireAnyClientCert)
	free, err := receivertest.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + free[0]
	receive := func(t *testing.T, protocol string) Config {
		return Config{Protocol: protocol, Endpoint: endpointOf(receivertest.Start(t), protocol)}
	}

	for name, tt := range map[string]struct {
		cfg  func(*testing.T) Config
		ok   string // the checks that go well
		bad  string // those that do not
		err  string
		hint string
	}{
		"healthy":           {cfg: func(t *testing.T) Config { return receive(t, "grpc") }, ok: "name connection span"},
		"healthy over HTTP": {cfg: func(t *testing.T) Config { return receive(t, "http/protobuf") }, ok: "name connection span"},
		"healthy with JSON": {cfg: func(t *testing.T) Config { return receive(t, "http/json") }, ok: "name connection span"},
		"nobody listens":    {cfg: func(*testing.T) Config { return Config{Endpoint: dead} }, ok: "name", bad: "connection span", err: "connection refused", hint: "nothing listens on " + dead},
		"gRPC to HTTP":      {cfg: func(*testing.T) Config { return Config{Endpoint: plain.URL} }, ok: "name connection", bad: "span", err: "speaks HTTP, not gRPC", hint: "4317"},
		"HTTP to gRPC": {cfg: func(t *testing.T) Config {
			url, _ := grpcServer(t)
			return Config{Protocol: "http/protobuf", Endpoint: url}
		}, ok: "name connection", bad: "span", err: "speaks gRPC, not HTTP", hint: "4318"},
		"not a collector":   {cfg: func(*testing.T) Config { return Config{Protocol: "http/protobuf", Endpoint: plain.URL} }, ok: "name connection", bad: "span", err: "404", hint: "right address"},
		"unknown authority": {cfg: func(*testing.T) Config { return Config{Protocol: "http/protobuf", Endpoint: secure.URL} }, ok: "name connection", bad: "TLS span", err: "x509: certificate signed by unknown authority", hint: "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		"no TLS there":      {cfg: func(*testing.T) Config { return Config{Protocol: "http/protobuf", Endpoint: "https" + plain.URL[4:]} }, ok: "name connection", bad: "TLS span", err: "does not speak TLS", hint: "try http://"},
		"TLS and taken": {cfg: func(t *testing.T) Config {
			t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert)
			t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
			return Config{Protocol: "http/protobuf", Endpoint: mutual, CACert: cert}
		}, ok: "name connection TLS span"},
		"no client certificate": {cfg: func(*testing.T) Config { return Config{Endpoint: demanding, CACert: authority} }, ok: "name connection", bad: "TLS span", err: "certificate required", hint: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
		"no client certificate over HTTP": {cfg: func(*testing.T) Config {
			return Config{Protocol: "http/protobuf", Endpoint: demanding, CACert: authority}
		}, ok: "name connection", bad: "TLS span", err: "certificate required", hint: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
		"another name": {cfg: func(*testing.T) Config {
			return Config{Endpoint: strings.Replace(mutual, "127.0.0.1", "localhost", 1), CACert: cert}
		}, ok: "name connection", bad: "TLS span", err: "x509: certificate is valid for", hint: "use a name of the certificate"},
		"unknown host":     {cfg: func(*testing.T) Config { return Config{Endpoint: "http://collector.invalid:4317"} }, bad: "name span", err: "no such host", hint: "right address"},
		"the other's port": {cfg: func(*testing.T) Config { return Config{Endpoint: "http://collector.invalid:4318"} }, ok: "port", bad: "name span", err: "no such host", hint: "right address"},
		"Langfuse":         {cfg: func(*testing.T) Config { return Config{Endpoint: "https://langfuse.invalid"} }, ok: "port", bad: "name span", err: "no such host", hint: "right address"},
		"no socket":        {cfg: func(*testing.T) Config { return Config{Endpoint: "unix:///nonexistent/otel.sock"} }, bad: "connection span", err: "no such socket", hint: "nothing listens on unix:"},
		"unauthenticated":  {cfg: func(t *testing.T) Config { return answering(t, refuse(1, codes.Unauthenticated, "no token")) }, ok: "name connection", bad: "span", err: "no token", hint: "OTEL_EXPORTER_OTLP_HEADERS"},
		"rejected": {cfg: func(t *testing.T) Config {
			return answering(t, func(r *receivertest.Receiver) { r.Partial(1, "too old") })
		}, ok: "name connection", bad: "span", err: "too old"},
		"taken, with advice": {cfg: func(t *testing.T) Config {
			return answering(t, func(r *receivertest.Receiver) { r.Partial(0, "be careful") })
		}, ok: "name connection span"},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "no socket" {
				t.Skip("unix sockets are of another kind there")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			settings, err := Resolve(tt.cfg(t))
			if err != nil {
				t.Fatal(err)
			}
			request := encodeRequest(&tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{Spans: testSpans()[:1]}}})
			var ok, bad []string
			for check := range settings.Diagnose(ctx, request) {
				t.Logf("%s: %s, %v", check.Name, check.Result, check.Err)
				if check.Err == nil {
					ok = append(ok, check.Name)
					continue
				}
				bad = append(bad, check.Name)
				if !strings.Contains(check.Err.Error(), tt.err) || !strings.Contains(hintOf(check.Err), tt.hint) {
					t.Errorf("%s fails with %#v, want %q (%s)", check.Name, check.Err, tt.err, tt.hint)
				}
			}
			if got := strings.Join(ok, " "); got != tt.ok {
				t.Errorf("%q go well, want %q", got, tt.ok)
			}
			if got := strings.Join(bad, " "); got != tt.bad {
				t.Errorf("%q do not, want %q", got, tt.bad)
			}
			for range settings.Diagnose(ctx, request) {
				break // whoever has seen enough
			}
		})
	}
}

func TestHintLangfuse(t *testing.T) {
	for protocol, want := range map[string]string{"grpc": "Langfuse takes no gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "http/protobuf": "is https://cloud.langfuse.com/v1/traces the right address?"} {
		s, err := Resolve(Config{Protocol: protocol, Endpoint: "https://cloud.langfuse.com"})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.at().HintAddress(); got != want {
			t.Errorf("%s: %q, want %q", protocol, got, want)
		}
	}
}

func answering(t *testing.T, behave func(*receivertest.Receiver)) Config {
	r := receivertest.Start(t)
	behave(r)
	return Config{Endpoint: r.GRPCEndpoint()}
}
