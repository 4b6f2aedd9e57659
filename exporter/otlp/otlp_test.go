package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

func TestSettings(t *testing.T) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	type env map[string]string
	tests := []struct {
		name string
		env  env
		cfg  OTLP
		want string // protocol, endpoint, compression, timeout, headers
		err  string
		hint string
	}{
		{name: "defaults", want: "grpc http://localhost:4317 - 10s map[]"},
		{name: "defaults over HTTP", env: env{"PROTOCOL": "http/protobuf"}, want: "http/protobuf http://localhost:4318/v1/traces - 10s map[]"},
		{name: "JSON", env: env{"TRACES_PROTOCOL": "HTTP/JSON"}, want: "http/json http://localhost:4318/v1/traces - 10s map[]"},
		{
			name: "all by variables",
			env:  env{"ENDPOINT": " https://otlp.example.com ", "HEADERS": "Authorization=Bearer%20a=b, x = 1 ,", "COMPRESSION": "gzip", "TIMEOUT": "250"},
			want: "grpc https://otlp.example.com gzip 250ms map[authorization:Bearer a=b x:1]",
		},
		{
			name: "variables for traces win",
			env: env{
				"PROTOCOL": "nonsense", "TRACES_PROTOCOL": "grpc",
				"ENDPOINT": "nonsense", "TRACES_ENDPOINT": "http://b:1",
				"HEADERS": "nonsense", "TRACES_HEADERS": "k=v",
				"COMPRESSION": "nonsense", "TRACES_COMPRESSION": "none",
				"TIMEOUT": "nonsense", "TRACES_TIMEOUT": "0",
			},
			want: "grpc http://b:1 none 0s map[k:v]",
		},
		{
			name: "fields win",
			env:  env{"TRACES_PROTOCOL": "grpc", "TRACES_ENDPOINT": "http://b:1", "TRACES_HEADERS": "k=v", "TRACES_COMPRESSION": "gzip", "TRACES_TIMEOUT": "1"},
			cfg: OTLP{
				Protocol: "http/protobuf", Endpoint: "https://c:2", Headers: map[string]string{"h": "1"},
				Compression: "none", Timeout: time.Minute,
			},
			want: "http/protobuf https://c:2/v1/traces none 1m0s map[h:1 k:v]",
		},

		{name: "the path is appended to", env: env{"PROTOCOL": "http/protobuf", "ENDPOINT": "http://a:4318/base/"}, want: "http/protobuf http://a:4318/base/v1/traces - 10s map[]"},
		{name: "the path for traces is kept", env: env{"PROTOCOL": "http/protobuf", "TRACES_ENDPOINT": "http://a:4318/x"}, want: "http/protobuf http://a:4318/x - 10s map[]"},
		{name: "IPv6", cfg: OTLP{Endpoint: "http://[::1]:4317"}, want: "grpc http://[::1]:4317 - 10s map[]"},
		{name: "unix socket", cfg: OTLP{Endpoint: "unix:///run/otel.sock"}, want: "grpc unix:///run/otel.sock - 10s map[]"},

		{name: "no scheme", cfg: OTLP{Endpoint: "localhost:4317"}, err: `endpoint "localhost:4317" has no scheme`, hint: "try http://localhost:4317"},
		{
			name: "no scheme in a variable", env: env{"ENDPOINT": "127.0.0.1:4317"},
			err: `OTEL_EXPORTER_OTLP_ENDPOINT "127.0.0.1:4317" has no scheme`, hint: "try http://127.0.0.1:4317",
		},
		{name: "unknown scheme", cfg: OTLP{Endpoint: "grpc://localhost:4317"}, err: `endpoint: scheme "grpc" is not known`, hint: "use http:// or https://"},
		{name: "no host", cfg: OTLP{Endpoint: "http://:4317"}, err: `endpoint "http://:4317" has no host`},
		{name: "no URL", cfg: OTLP{Endpoint: "http://a:b@c:port"}, err: `endpoint: invalid port ":port" after host`},
		{
			name: "unix socket over HTTP", cfg: OTLP{Endpoint: "unix:///run/otel.sock", Protocol: "http/protobuf"},
			err: "endpoint: a unix socket cannot be reached by http/protobuf", hint: "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		},
		{name: "unknown protocol", env: env{"PROTOCOL": "http"}, err: `OTEL_EXPORTER_OTLP_PROTOCOL "http" is not known`, hint: "use grpc, http/protobuf or http/json"},
		{name: "unknown compression", cfg: OTLP{Compression: "zstd"}, err: `compression "zstd" is not known`, hint: "use gzip or none"},
		{name: "bad timeout", env: env{"TIMEOUT": "10s"}, err: `OTEL_EXPORTER_OTLP_TIMEOUT "10s" is not a number of milliseconds`, hint: "10000 is ten seconds"},
		{
			name: "bad headers", env: env{"HEADERS": "token secret"}, err: "OTEL_EXPORTER_OTLP_HEADERS is malformed",
			hint: "write it as key=value,key=value, with special characters as %20",
		},
		{
			name: "bad escape in headers", env: env{"HEADERS": "token=secret%zz"}, err: "OTEL_EXPORTER_OTLP_HEADERS is malformed",
			hint: "write it as key=value,key=value, with special characters as %20",
		},
		{name: "impossible header", cfg: OTLP{Headers: map[string]string{"token": "sec\nret"}}, err: `headers: "token" cannot be sent as a header`},
		{
			name: "certificate without TLS", cfg: OTLP{Endpoint: "http://a:1", CACert: "ca.pem"},
			err: "a certificate is of no use with http://a:1", hint: "try https://a:1",
		},
		{name: "certificate in a variable without TLS", env: env{"ENDPOINT": "http://a:1", "CERTIFICATE": "missing.pem"}, want: "grpc http://a:1 - 10s map[]"},
		{
			name: "missing certificate", env: env{"ENDPOINT": "https://a:1", "CERTIFICATE": "missing.pem"},
			err: "OTEL_EXPORTER_OTLP_CERTIFICATE: open missing.pem: ",
		},
		{name: "no certificate", cfg: OTLP{Endpoint: "https://a:1", CACert: os.DevNull}, err: "certificate: no certificate in " + os.DevNull},
		{
			name: "certificate without key", cfg: OTLP{Endpoint: "https://a:1", ClientCert: "c.pem"},
			err: "client certificate: a client certificate and its key go together, and the other is missing",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(prefix+name, value)
			}
			s, err := tt.cfg.settings()
			if got := fmt.Sprint(err); tt.err != "" && !strings.HasPrefix(got, tt.err) || tt.err == "" && err != nil {
				t.Errorf("error is %q, want %q", got, tt.err)
			}
			hint := ""
			if e, ok := errors.AsType[*Error](err); ok {
				hint = e.Hint
			}
			if hint != tt.hint {
				t.Errorf("hint is %q, want %q", hint, tt.hint)
			}
			if err != nil {
				return
			}
			compression := s.compression
			if compression == "" {
				compression = "-"
			}
			if got := fmt.Sprint(s.protocol, " ", s.endpoint, " ", compression, " ", s.timeout, " ", s.headers); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// failureOf is what becomes of one span sent with cfg.
func failureOf(t *testing.T, cfg OTLP) (verdict, Report) {
	t.Helper()
	c := newClient(t, cfg)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer c.Stop(ctx)
	f, ok := errors.AsType[*failure](c.UploadTraces(ctx, request{}.resourceSpans()))
	if !ok {
		return -1, Report{}
	}
	return f.verdict, Report{Cause: f.cause, Hint: f.hint}
}

// Each of the signs, provoked: an update of gRPC or net/http that words them
// differently fails here.
func TestWrongAddress(t *testing.T) {
	r := receivertest.Start(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	tlsOf := func(url string) string { return "https" + strings.TrimPrefix(url, "http") }
	plainOf := func(url string) string { return "http" + strings.TrimPrefix(url, "https") }

	tests := []struct {
		name, protocol, endpoint string
		verdict                  verdict
		cause, hint              string
	}{
		{"nobody", "grpc", "http://" + dead.Addr().String(), unreachable, "connection refused", "nothing listens on http://127.0.0.1"},
		{"nobody", "http/protobuf", "http://" + dead.Addr().String(), unreachable, "connection refused", "nothing listens on http://127.0.0.1"},
		{"no socket", "grpc", "unix:///nonexistent/otel.sock", unreachable, "no such socket", "unix:///nonexistent/otel.sock"},
		{"no such host", "grpc", "http://collector.invalid:4317", unreachable, "no such host", "is http://collector.invalid:4317 the right"},
		{"no such host", "http/protobuf", "http://collector.invalid:4318", unreachable, "no such host", "is http://collector.invalid:4318/v1/traces the right"},
		{"HTTP port", "grpc", plain.URL, unreachable, "speaks HTTP, not gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
		{"HTTP port of a receiver", "grpc", r.HTTPEndpoint(), unreachable, "speaks HTTP, not gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
		{"gRPC port", "http/protobuf", r.GRPCEndpoint(), unreachable, "speaks gRPC, not HTTP", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		{"no TLS there", "grpc", tlsOf(r.GRPCEndpoint()), unreachable, "does not speak TLS", "try http://"},
		{"no TLS there", "http/protobuf", tlsOf(r.HTTPEndpoint()), unreachable, "does not speak TLS", "try http://"},
		{"gRPC port, and no TLS", "http/protobuf", tlsOf(r.GRPCEndpoint()), unreachable, "does not speak TLS", "try http://"},
		{"TLS there", "grpc", plainOf(secure.URL), unreachable, "closed the connection", "and scheme?"},
		{"TLS there", "http/protobuf", plainOf(secure.URL), unreachable, "wants TLS", "try https://"},
		{"not gRPC", "grpc", secure.URL, unreachable, "", ""},
		{"unknown authority", "http/protobuf", secure.URL, unreachable, "x509: certificate signed by unknown authority", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
	}
	for _, tt := range tests {
		t.Run(tt.protocol+"/"+tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(tt.endpoint, "unix:") {
				t.Skip("unix sockets are of another kind there")
			}
			v, report := failureOf(t, OTLP{Protocol: tt.protocol, Endpoint: tt.endpoint})
			if v != tt.verdict {
				t.Errorf("verdict is %d, want %d", v, tt.verdict)
			}
			t.Logf("%v; hint: %s", report.Cause, report.Hint)
			if got := fmt.Sprint(report.Cause); !strings.Contains(got, tt.cause) {
				t.Errorf("cause is %q, want %q", got, tt.cause)
			}
			if !strings.Contains(report.Hint, tt.hint) {
				t.Errorf("hint is %q, want %q", report.Hint, tt.hint)
			}
		})
	}
}

// A secure collector speaks both protocols on one port, and may ask for a
// client certificate.
func secureCollector(t *testing.T, clientAuth tls.ClientAuthType) (url string, certFile, keyFile string) {
	t.Helper()
	gs := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(gs, coltracepb.UnimplementedTraceServiceServer{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			gs.ServeHTTP(w, r)
		}
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: clientAuth}
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(gs.Stop)

	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certFile, "CERTIFICATE", pair.Certificate[0])
	writePEM(t, keyFile, "PRIVATE KEY", key)
	return s.URL, certFile, keyFile
}

func writePEM(t *testing.T, file, kind string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	// The gRPC service answers Unimplemented: with that, TLS has done its part.
	arrived := map[string]verdict{"grpc": refusing, "http/protobuf": -1}
	for protocol, want := range arrived {
		t.Run(protocol, func(t *testing.T) {
			url, cert, _ := secureCollector(t, tls.NoClientCert)
			if v, report := failureOf(t, OTLP{Protocol: protocol, Endpoint: url, CACert: cert}); v != want {
				t.Errorf("by field: %d %v", v, report.Cause)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true") // the scheme decides
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", cert)
			if v, report := failureOf(t, OTLP{Protocol: protocol, Endpoint: url}); v != want {
				t.Errorf("by variable: %d %v", v, report.Cause)
			}

			url, cert, key := secureCollector(t, tls.RequireAnyClientCert)
			if v, _ := failureOf(t, OTLP{Protocol: protocol, Endpoint: url, CACert: cert}); v == want {
				t.Error("arrived without a client certificate")
			}
			if v, report := failureOf(t, OTLP{Protocol: protocol, Endpoint: url, CACert: cert, ClientCert: cert, ClientKey: key}); v != want {
				t.Errorf("with a client certificate: %d %v", v, report.Cause)
			}
		})
	}
}

// A variable meant for another endpoint must not turn a plain one to TLS.
func TestPlainInSpiteOfACertificate(t *testing.T) {
	_, cert, _ := secureCollector(t, tls.NoClientCert)
	r := receivertest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", cert)
	t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "false")
	for _, protocol := range protocols {
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		if v, report := failureOf(t, OTLP{Endpoint: endpointOf(r, protocol)}); v != -1 {
			t.Errorf("%s: %v", protocol, report.Cause)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its paths are no URLs there")
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(gs, coltracepb.UnimplementedTraceServiceServer{})
	go gs.Serve(l)
	defer gs.Stop()
	if _, report := failureOf(t, OTLP{Endpoint: "unix://" + socket}); !strings.Contains(fmt.Sprint(report.Cause), "no traces are taken there") {
		t.Errorf("got %v, want the answer of the server", report.Cause)
	}
}

func TestHeadersAreSent(t *testing.T) {
	got := make(chan http.Header, 2)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x,x-scope=a")
	failureOf(t, OTLP{Protocol: "http/protobuf", Endpoint: s.URL})
	failureOf(t, OTLP{Protocol: "http/protobuf", Endpoint: s.URL, Headers: map[string]string{"x-scope": "b"}})
	first, second := <-got, <-got
	if diff := cmp.Diff([]string{"Bearer x", "a", "Bearer x", "b"},
		[]string{first.Get("Authorization"), first.Get("X-Scope"), second.Get("Authorization"), second.Get("X-Scope")}); diff != "" {
		t.Errorf("headers (-want +got)\n%s", diff)
	}
}

// misconfigured runs in a process of its own. It gives the SDK all it would
// complain about on stderr.
func misconfigured() {
	for _, kv := range []string{"TIMEOUT=junk", "CERTIFICATE=/nonexistent", "COMPRESSION=junk", "PROTOCOL=http/json", "ENDPOINT=127.0.0.1:1"} {
		name, value, _ := strings.Cut(kv, "=")
		os.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	os.Setenv("OTEL_RESOURCE_ATTRIBUTES", "a=%zz,junk")
	Resource(context.Background(), "agent", "")
	r, err := receiver.Start(receiver.Config{})
	if err != nil {
		panic(err)
	}
	wrong := map[string]string{"grpc": r.HTTPEndpoint(), "http/protobuf": r.GRPCEndpoint()}
	for protocol, endpoint := range wrong {
		for range 20 { // net/http complains only when the server speaks first
			c, err := NewOTLP(OTLP{
				Protocol: protocol, Endpoint: endpoint, Compression: "none",
				Headers: map[string]string{"a": "b"}, Timeout: time.Second,
			})
			if err != nil {
				panic(err)
			}
			e := New(Config{Client: c})
			e.Export(sized("a", 100))
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			e.Close(ctx)
			cancel()
		}
	}
}

func TestTheSDKIsSilent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXPORTER_TEST_CHILD=misconfigured")
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v, output:\n%s", err, out)
	}
}

// sink runs in a process of its own: a collector that reads and forgets.
func sink() {
	r, err := receiver.Start(receiver.Config{
		Handle: func(context.Context, *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
			return nil, nil
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.GRPCEndpoint())
	io.Copy(io.Discard, os.Stdin) // until the benchmark ends
	r.Close()
}
