package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

func TestSettingsTellTheirSources(t *testing.T) {
	url, cert, key := secureCollector(t, 0)
	for name, tt := range map[string]struct {
		env  map[string]string
		cfg  OTLP
		want []Setting
		err  string
	}{
		"defaults": {want: []Setting{{"protocol", "grpc", "default"}, {"endpoint", "http://localhost:4317", "default"}, {"timeout", "10s", "default"}}},
		"variables": {
			env: map[string]string{
				"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://user:secret@a:1/x",
				"OTEL_EXPORTER_OTLP_HEADERS": "b=secret,a=secret", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "5",
			},
			want: []Setting{
				{"protocol", "http/json", "$OTEL_EXPORTER_OTLP_PROTOCOL"},
				{"endpoint", "http://user:xxxxx@a:1/x", "$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
				{"header", "a", "$OTEL_EXPORTER_OTLP_HEADERS"},
				{"header", "b", "$OTEL_EXPORTER_OTLP_HEADERS"},
				{"compression", "gzip", "$OTEL_EXPORTER_OTLP_COMPRESSION"},
				{"timeout", "5ms", "$OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"},
			},
		},
		"flags": {
			env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense", "OTEL_EXPORTER_OTLP_TIMEOUT": "nonsense"},
			cfg: OTLP{Protocol: "http/protobuf", Endpoint: url, Headers: map[string]string{"A": "secret"}, Compression: "none", Timeout: time.Second, CACert: cert, ClientCert: cert, ClientKey: key},
			want: []Setting{
				{"protocol", "http/protobuf", "--protocol"},
				{"endpoint", url + "/v1/traces", "--endpoint"},
				{"certificate", cert, "--certificate"},
				{"client certificate", cert, "--client-certificate"},
				{"header", "a", "--header"},
				{"compression", "none", "--compression"},
				{"timeout", "1s", "--timeout"},
			},
		},
		"as far as it makes sense": {
			cfg:  OTLP{Endpoint: "localhost:4317"},
			want: []Setting{{"protocol", "grpc", "default"}},
			err:  "has no scheme",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			got, err := tt.cfg.Settings()
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("settings (-want +got)\n%s", diff)
			}
			if strings.Contains(fmt.Sprint(got), "secret") {
				t.Error("a secret is among them")
			}
		})
	}
}

func TestDiagnose(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	mutual, cert, key := secureCollector(t, 0)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	dead := "http://" + closed.Addr().String()
	receive := func(t *testing.T, protocol string) OTLP {
		return OTLP{Protocol: protocol, Endpoint: endpointOf(receivertest.Start(t), protocol)}
	}

	for name, tt := range map[string]struct {
		cfg  func(*testing.T) OTLP
		ok   string // the checks that go well
		bad  string // those that do not
		err  string
		hint string
	}{
		"healthy":           {cfg: func(t *testing.T) OTLP { return receive(t, "grpc") }, ok: "name connection span"},
		"healthy over HTTP": {cfg: func(t *testing.T) OTLP { return receive(t, "http/protobuf") }, ok: "name connection span"},
		"healthy with JSON": {cfg: func(t *testing.T) OTLP { return receive(t, "http/json") }, ok: "name connection span"},
		"nobody listens":    {cfg: func(*testing.T) OTLP { return OTLP{Endpoint: dead} }, ok: "name", bad: "connection span", err: "connection refused", hint: "nothing listens on " + dead},
		"gRPC to HTTP":      {cfg: func(*testing.T) OTLP { return OTLP{Endpoint: plain.URL} }, ok: "name connection", bad: "span", err: "speaks HTTP, not gRPC", hint: "4317"},
		"HTTP to gRPC":      {cfg: func(t *testing.T) OTLP { c := receive(t, "grpc"); c.Protocol = "http/protobuf"; return c }, ok: "name connection", bad: "span", err: "speaks gRPC, not HTTP", hint: "4318"},
		"not a collector":   {cfg: func(*testing.T) OTLP { return OTLP{Protocol: "http/protobuf", Endpoint: plain.URL} }, ok: "name connection", bad: "span", err: "404", hint: "right address"},
		"unknown authority": {cfg: func(*testing.T) OTLP { return OTLP{Protocol: "http/protobuf", Endpoint: secure.URL} }, ok: "name connection", bad: "TLS span", err: "x509: certificate signed by unknown authority", hint: "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		"no TLS there":      {cfg: func(*testing.T) OTLP { return OTLP{Protocol: "http/protobuf", Endpoint: "https" + plain.URL[4:]} }, ok: "name connection", bad: "TLS span", err: "does not speak TLS", hint: "try http://"},
		"TLS and taken": {cfg: func(*testing.T) OTLP {
			return OTLP{Protocol: "http/protobuf", Endpoint: mutual, CACert: cert, ClientCert: cert, ClientKey: key}
		}, ok: "name connection TLS span"},
		"unknown host":     {cfg: func(*testing.T) OTLP { return OTLP{Endpoint: "http://collector.invalid:4317"} }, bad: "name span", err: "no such host", hint: "right address"},
		"wrong settings":   {cfg: func(*testing.T) OTLP { return OTLP{Endpoint: "localhost:4317"} }, bad: "span", err: "has no scheme", hint: "http://localhost:4317"},
		"the other's port": {cfg: func(*testing.T) OTLP { return OTLP{Endpoint: "http://collector.invalid:4318"} }, ok: "port", bad: "name span", err: "no such host", hint: "right address"},
		"no socket":        {cfg: func(*testing.T) OTLP { return OTLP{Endpoint: "unix:///nonexistent/otel.sock"} }, bad: "connection span", err: "no such socket", hint: "nothing listens on unix:"},
		"unauthenticated":  {cfg: func(t *testing.T) OTLP { return answering(t, refuse(1, codes.Unauthenticated, "no token")) }, ok: "name connection", bad: "span", err: "no token", hint: "OTEL_EXPORTER_OTLP_HEADERS"},
		"rejected": {cfg: func(t *testing.T) OTLP {
			return answering(t, func(r *receivertest.Receiver) { r.Partial(1, "too old") })
		}, ok: "name connection", bad: "span", err: "too old"},
		"taken, with advice": {cfg: func(t *testing.T) OTLP {
			return answering(t, func(r *receivertest.Receiver) { r.Partial(0, "be careful") })
		}, ok: "name connection span"},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "no socket" {
				t.Skip("unix sockets are of another kind there")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			var ok, bad []string
			for check := range Diagnose(ctx, tt.cfg(t), testSpans()[0], nil) {
				t.Logf("%s: %s, %v", check.Name, check.Result, check.Err)
				if check.Err == nil {
					ok = append(ok, check.Name)
					continue
				}
				bad = append(bad, check.Name)
				e, hinted := errors.AsType[*Error](check.Err)
				if !strings.Contains(check.Err.Error(), tt.err) || tt.hint != "" && (!hinted || !strings.Contains(e.Hint, tt.hint)) {
					t.Errorf("%s fails with %#v, want %q (%s)", check.Name, check.Err, tt.err, tt.hint)
				}
			}
			if got := strings.Join(ok, " "); got != tt.ok {
				t.Errorf("%q go well, want %q", got, tt.ok)
			}
			if got := strings.Join(bad, " "); got != tt.bad {
				t.Errorf("%q do not, want %q", got, tt.bad)
			}
			for range Diagnose(ctx, tt.cfg(t), testSpans()[0], nil) {
				break // whoever has seen enough
			}
		})
	}
}

func answering(t *testing.T, behave func(*receivertest.Receiver)) OTLP {
	r := receivertest.Start(t)
	behave(r)
	return OTLP{Endpoint: r.GRPCEndpoint()}
}
