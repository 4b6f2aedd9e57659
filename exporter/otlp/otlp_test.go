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
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// errorOf is what a request with cfg fails with, nil if it is accepted.
func errorOf(t *testing.T, cfg Config) *exporter.UploadError {
	t.Helper()
	c := newClient(t, cfg)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // a DNS server may lose a question, which is repeated after 5 s
	defer cancel()
	defer c.Stop(ctx)
	var err error
	if cfg.Signal == Metrics {
		err = c.(exporter.MetricsClient).UploadMetrics(ctx, nil)
	} else {
		err = c.UploadTraces(ctx, encodeRequest(&tracepb.ResourceSpans{}))
	}
	failed, ok := errors.AsType[*exporter.UploadError](err)
	if err != nil && !ok {
		t.Errorf("%#v is no UploadError", err)
	}
	return failed
}

func verdictOf(failed *exporter.UploadError) string {
	if failed == nil {
		return "accepted"
	}
	return fmt.Sprintf("verdict %d", failed.Verdict)
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*exporter.Error](err); ok {
		return e.Hint
	}
	return ""
}

func TestWrongAddress(t *testing.T) {
	r := receivertest.Start(t)
	google, _ := grpcServer(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	page := answerAnything(t, "<!DOCTYPE HTML>")
	free, err := receivertest.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + free[0]
	tlsOf := func(url string) string { return "https" + strings.TrimPrefix(url, "http") }
	plainOf := func(url string) string { return "http" + strings.TrimPrefix(url, "https") }

	tests := []struct {
		name, protocol, endpoint string
		verdict                  exporter.Verdict
		cause, hint              string
	}{
		{"nobody", "grpc", dead, exporter.Unreachable, "connection refused", "nothing listens on http://127.0.0.1"},
		{"nobody", "http/protobuf", dead, exporter.Unreachable, "connection refused", "nothing listens on http://127.0.0.1"},
		{"no socket", "grpc", "unix:///nonexistent/otel.sock", exporter.Unreachable, "no such socket", "unix:///nonexistent/otel.sock"},
		{"no such host", "grpc", "http://collector.invalid:4317", exporter.Unreachable, "no such host", "is http://collector.invalid:4317 the right"},
		{"no such host", "http/protobuf", "http://collector.invalid:4318", exporter.Unreachable, "no such host", "is http://collector.invalid:4318/v1/traces the right"},
		{"HTTP port", "grpc", plain.URL, exporter.Unreachable, "speaks HTTP, not gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
		{"HTTP port of a receiver", "grpc", r.HTTPEndpoint(), exporter.Unreachable, "speaks HTTP, not gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
		{"TLS there, with an alert", "grpc", answerAnything(t, "\x15\x03\x01\x00\x02\x02\x46"), exporter.Unreachable, "the server wants TLS", "try https://"},
		{"a page without a header", "grpc", page, exporter.Unreachable, "does not speak gRPC", "right address"},
		{"gRPC port", "http/protobuf", google, exporter.Unreachable, "speaks gRPC, not HTTP", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		{"gRPC port of a receiver", "http/protobuf", r.GRPCEndpoint(), exporter.Unreachable, "speaks gRPC, not HTTP", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		{"no TLS there", "grpc", tlsOf(google), exporter.Unreachable, "does not speak TLS", "try http://"},
		{"no TLS at a receiver", "grpc", tlsOf(r.GRPCEndpoint()), exporter.Unreachable, "does not speak TLS", "try http://"},
		{"no TLS there", "http/protobuf", tlsOf(r.HTTPEndpoint()), exporter.Unreachable, "does not speak TLS", "try http://"},
		{"gRPC port, and no TLS", "http/protobuf", tlsOf(google), exporter.Unreachable, "does not speak TLS", "try http://"},
		{"TLS there", "grpc", plainOf(secure.URL), exporter.Unreachable, "wants TLS", "try https://"},
		{"TLS there", "http/protobuf", plainOf(secure.URL), exporter.Unreachable, "wants TLS", "try https://"},
		{"not gRPC", "grpc", secure.URL, exporter.Unreachable, "", ""},
		{"unknown authority", "http/protobuf", secure.URL, exporter.Unreachable, "x509: certificate signed by unknown authority", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
	}
	for _, tt := range tests {
		t.Run(tt.protocol+"/"+tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(tt.endpoint, "unix:") {
				t.Skip("unix sockets are of another kind there")
			}
			failed := errorOf(t, Config{Protocol: tt.protocol, Endpoint: tt.endpoint})
			if failed == nil || failed.Verdict != tt.verdict {
				t.Fatalf("got %s (%v), want verdict %d", verdictOf(failed), failed, tt.verdict)
			}
			t.Logf("%v; hint: %s", failed, hintOf(failed))
			if got := failed.Error(); !strings.Contains(got, tt.cause) {
				t.Errorf("cause is %q, want %q", got, tt.cause)
			}
			if got := hintOf(failed); !strings.Contains(got, tt.hint) {
				t.Errorf("hint is %q, want %q", got, tt.hint)
			}
		})
	}
}

// answerAnything runs a server that reads a few bytes, answers them, whatever they are,
// and hangs up. It runs until the test ends.
func answerAnything(t *testing.T, answer string) (url string) {
	t.Helper()
	return "http://" + serveConns(t, func(conn net.Conn) {
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, 24))
		_, _ = io.WriteString(conn, answer)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	})
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
	arrived := map[string]string{"grpc": verdictOf(&exporter.UploadError{Verdict: exporter.Misconfigured}), "http/protobuf": "accepted"}
	for protocol, want := range arrived {
		t.Run(protocol, func(t *testing.T) {
			url, cert, _ := secureCollector(t, tls.NoClientCert)
			if failed := errorOf(t, Config{Protocol: protocol, Endpoint: url, CACert: cert}); verdictOf(failed) != want {
				t.Errorf("by field: %s %v", verdictOf(failed), failed)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true") // the scheme decides
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", cert)
			if failed := errorOf(t, Config{Protocol: protocol, Endpoint: url}); verdictOf(failed) != want {
				t.Errorf("by variable: %s %v", verdictOf(failed), failed)
			}

			url, cert, key := secureCollector(t, tls.RequireAnyClientCert)
			if failed := errorOf(t, Config{Protocol: protocol, Endpoint: url, CACert: cert}); verdictOf(failed) == want {
				t.Error("arrived without a client certificate")
			}
			t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert)
			t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
			if failed := errorOf(t, Config{Protocol: protocol, Endpoint: url, CACert: cert}); verdictOf(failed) != want {
				t.Errorf("with a client certificate: %s %v", verdictOf(failed), failed)
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
		if failed := errorOf(t, Config{Endpoint: endpointOf(r, protocol)}); failed != nil {
			t.Errorf("%s: %v", protocol, failed)
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
	if failed := errorOf(t, Config{Endpoint: "unix://" + socket}); failed == nil || !strings.Contains(failed.Error(), "no traces are accepted there") {
		t.Errorf("got %v, want the server's answer", failed)
	}
}

func TestHeadersAreSent(t *testing.T) {
	got := make(chan http.Header, 2)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x,x-scope=a")
	errorOf(t, Config{Protocol: "http/protobuf", Endpoint: s.URL})
	errorOf(t, Config{Protocol: "http/protobuf", Endpoint: s.URL, Headers: map[string]string{"x-scope": "b"}})
	first, second := <-got, <-got
	if diff := cmp.Diff([]string{"Bearer x", "a", "Bearer x", "b"},
		[]string{first.Get("Authorization"), first.Get("X-Scope"), second.Get("Authorization"), second.Get("X-Scope")}); diff != "" {
		t.Errorf("headers (-want +got)\n%s", diff)
	}
}

// sink runs in a process of its own: a collector that reads and forgets.
func sink() {
	r, err := receiver.Start(receiver.Config{
		Handle: func(context.Context, []byte) (none receiver.Rejected, err error) { return },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.GRPCEndpoint())
	io.Copy(io.Discard, os.Stdin) // until the benchmark ends
	r.Close()
}
