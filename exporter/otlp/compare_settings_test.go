package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A setting is a set of variables, with which our client must not be worse than
// OpenTelemetry's. In values, {grpc}, {http}, {grpcs}, {https} and {mtls} are addresses of
// servers with one more for {unix}, and {ca}, {cert}, {key}, {missing} and {garbage} are files.
type setting struct {
	name, protocol string   // of OpenTelemetry's client
	variables      []string // without OTEL_EXPORTER_OTLP_
	refused        string   // why our client does not send, on purpose
}

func settings() (rows []setting) {
	add := func(protocol, name string, variables ...string) *setting {
		rows = append(rows, setting{name: name, protocol: protocol, variables: variables})
		return &rows[len(rows)-1]
	}
	for _, protocol := range []string{"grpc", "http/protobuf", "http/json"} {
		at, secure := "{http}", "{https}"
		if protocol == "grpc" {
			at, secure = "{grpc}", "{grpcs}"
		}
		row := func(name string, variables ...string) *setting {
			return add(protocol, name, append([]string{"PROTOCOL=" + protocol}, variables...)...)
		}
		plain, base := "ENDPOINT=http://"+at, "ENDPOINT=https://"+secure

		row("endpoint", plain)
		row("endpoint for traces", "TRACES_"+plain)
		row("endpoint for traces wins", "ENDPOINT=http://127.0.0.1:1", "TRACES_"+plain)
		row("endpoint for metrics only", "METRICS_ENDPOINT=http://127.0.0.1:1", plain)
		row("endpoint with a slash", plain+"/")
		row("endpoint with a path", plain+"/base")
		row("endpoint with a path and a slash", plain+"/base/")
		row("endpoint with dots", plain+"/a/../b")
		row("endpoint for traces with a path", "TRACES_"+plain+"/otlp/v1/traces")
		row("endpoint for traces with a slash", "TRACES_"+plain+"/x/")
		row("endpoint in capitals", "ENDPOINT=HTTP://"+at)
		row("endpoint between spaces", "ENDPOINT=  http://"+at+" ")
		row("endpoint with a user", "ENDPOINT=http://me:secret@"+at)
		row("endpoint with a query", plain+"?key=secret")
		row("endpoint with a fragment", plain+"#key")
		row("endpoint with an empty query", plain+"?")
		row("endpoint empty, and for traces", "ENDPOINT=", "TRACES_"+plain)
		row("endpoint for traces empty", "TRACES_ENDPOINT=", plain)
		row("endpoint that is no URL", "ENDPOINT=http://[::1")
		row("endpoint without a port", "ENDPOINT=http://127.0.0.1:")
		row("endpoint of another scheme", "ENDPOINT=ftp://"+at)
		row("endpoint of a name", strings.ReplaceAll(plain, "127.0.0.1", "localhost"))

		row("header", plain, "HEADERS=x-a=1")
		row("headers", plain, "HEADERS=x-a=1,x-b=2")
		row("headers for traces win", plain, "HEADERS=x-a=1", "TRACES_HEADERS=x-a=2")
		row("headers in capitals", plain, "HEADERS=X-A=1")
		row("headers escaped", plain, "HEADERS=authorization=Bearer%20a%2Cb")
		row("headers between spaces", plain, "HEADERS= x-a = 1 , x-b=2 ")
		row("headers with equals signs", plain, "HEADERS=x-a=b=c==")
		row("headers with a plus", plain, "HEADERS=x-a=b+c")
		row("headers, one bad", plain, "HEADERS=x-a=1,nonsense,x-b=2")
		row("headers, one badly escaped", plain, "HEADERS=x-a=1,x-c=%zz,x-b=2")
		row("headers, one without a name", plain, "HEADERS=x-a=1,=2")
		row("headers, one without a value", plain, "HEADERS=x-a=,x-b=2")
		row("headers, one twice", plain, "HEADERS=x-a=1,x-a=2")
		row("headers, one with a line feed", plain, "HEADERS=x-a=1%0A,x-b=2")
		row("headers with commas only", plain, "HEADERS=,,,")
		row("headers that belong to HTTP", plain, "HEADERS=content-length=3,host=evil.example,x-a=1")
		row("headers with a user agent", plain, "HEADERS=user-agent=me,x-a=1")
		row("headers of 8 kB", plain, "HEADERS=x-a="+strings.Repeat("a", 8000))

		for _, value := range []string{"gzip", "none", "GZIP", "zstd", ""} {
			row("compression "+value, plain, "COMPRESSION="+value)
		}
		row("compression for traces", plain, "COMPRESSION=none", "TRACES_COMPRESSION=gzip")
		for _, value := range []string{"1000", "0", "-1", "1s", "1.5", "99999999999999999999", ""} {
			row("timeout "+value, plain, "TIMEOUT="+value)
		}
		row("timeout for traces", plain, "TIMEOUT=1", "TRACES_TIMEOUT=5000")

		row("TLS", base, "CERTIFICATE={ca}")
		row("TLS, for traces", base, "TRACES_CERTIFICATE={ca}")
		row("TLS, for traces wins", base, "CERTIFICATE={garbage}", "TRACES_CERTIFICATE={ca}")
		row("TLS, for traces missing", base, "CERTIFICATE={ca}", "TRACES_CERTIFICATE={missing}").refused = "the file may be mounted late"
		row("TLS, no authority", base)
		row("TLS, authority missing", base, "CERTIFICATE={missing}")
		row("TLS, authority garbage", base, "CERTIFICATE={garbage}")
		row("TLS, and not secure", base, "CERTIFICATE={ca}", "INSECURE=false")
		row("TLS without a scheme of it", plain, "CERTIFICATE={ca}")
		row("TLS by both", "ENDPOINT=https://{mtls}", "CERTIFICATE={ca}", "CLIENT_CERTIFICATE={cert}", "CLIENT_KEY={key}")
		row("TLS by both, for traces", "ENDPOINT=https://{mtls}", "CERTIFICATE={ca}", "TRACES_CLIENT_CERTIFICATE={cert}", "TRACES_CLIENT_KEY={key}")
		row("TLS by both, and not asked for", base, "CERTIFICATE={ca}", "CLIENT_CERTIFICATE={cert}", "CLIENT_KEY={key}")
		row("TLS by both, no certificate", "ENDPOINT=https://{mtls}", "CERTIFICATE={ca}")
		row("TLS with a key only", base, "CERTIFICATE={ca}", "CLIENT_KEY={key}")
		row("TLS with a certificate only", base, "CERTIFICATE={ca}", "CLIENT_CERTIFICATE={cert}")
		row("TLS with a client's certificate missing", base, "CERTIFICATE={ca}", "CLIENT_CERTIFICATE={missing}", "CLIENT_KEY={key}").refused = "the file may be mounted late"
		row("TLS with a client's key that is garbage", base, "CERTIFICATE={ca}", "CLIENT_CERTIFICATE={cert}", "CLIENT_KEY={garbage}").refused = "the file may be replaced"
		row("not TLS, and a client's certificate", plain, "CLIENT_CERTIFICATE={cert}", "CLIENT_KEY={key}")
	}

	for _, value := range []string{"nonsense", "http", "GRPC", "grpc ", ""} {
		add("grpc", "protocol "+value, "ENDPOINT=http://{grpc}", "PROTOCOL="+value)
	}
	add("grpc", "protocol for traces", "ENDPOINT=http://{grpc}", "PROTOCOL=http/protobuf", "TRACES_PROTOCOL=grpc")
	add("grpc", "insecure", "ENDPOINT=http://{grpc}", "INSECURE=true")
	add("grpc", "insecure, without a scheme", "ENDPOINT=localhost:{port}", "INSECURE=true")
	add("grpc", "insecure for traces, without a scheme", "TRACES_ENDPOINT=localhost:{port}", "INSECURE=false", "TRACES_INSECURE=TRUE")
	add("grpc", "without a scheme", "ENDPOINT=localhost:{tlsport}", "CERTIFICATE={ca}")
	add("grpc", "without a scheme, for traces", "TRACES_ENDPOINT=localhost:{tlsport}", "CERTIFICATE={ca}", "INSECURE=false")
	add("grpc", "without a scheme, an address", "ENDPOINT={grpcs}", "CERTIFICATE={ca}")
	add("grpc", "a name and nothing else", "ENDPOINT=localhost")
	add("grpc", "headers gRPC reserves", "ENDPOINT=http://{grpc}", "HEADERS=grpc-timeout=1n,x-a=1")
	add("grpc", "binary headers", "ENDPOINT=http://{grpc}", "HEADERS=x-bin=caf%C3%A9")
	add("grpc", "headers that are not ASCII", "ENDPOINT=http://{grpc}", "HEADERS=x-a=caf%C3%A9,x-b=2")
	add("grpc", "a resolver of gRPC's", "ENDPOINT=dns:///{grpc}", "INSECURE=true").refused = "the specification knows http and https only"
	if runtime.GOOS != "windows" {
		add("grpc", "a socket", "ENDPOINT=unix://{unix}")
		add("grpc", "a socket by its path", "ENDPOINT=unix:{unix}")
		add("grpc", "a socket that is missing", "ENDPOINT=unix:///nonexistent/socket")
	}
	return rows
}

// seen is what a server saw of a request.
type seen struct {
	path, kind, encoding string
	headers              http.Header
}

// A witness accepts requests of both protocols, and records them by the name of their
// span.
type witness struct {
	mu   sync.Mutex
	seen map[string][]seen
}

func (r *witness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	got := seen{req.URL.Path, req.Header.Get("Content-Type"), req.Header.Get("Content-Encoding") + req.Header.Get("Grpc-Encoding"), req.Header}
	overGRPC := strings.HasPrefix(got.kind, "application/grpc")
	if overGRPC {
		body = body[min(5, len(body)):]
	}
	if got.encoding == "gzip" {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(unpacked)
		}
		if err != nil {
			body = nil
		}
	}
	for _, whose := range []string{"span of ours", "span of theirs"} {
		if bytes.Contains(body, []byte(whose)) {
			r.mu.Lock()
			r.seen[whose] = append(r.seen[whose], got)
			r.mu.Unlock()
		}
	}
	w.Header().Set("Content-Type", got.kind)
	if overGRPC {
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(make([]byte, 5))
		w.Header().Set("Grpc-Status", "0")
	}
}

// take returns what was seen since it was last called.
func (r *witness) take(whose string) []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.seen[whose]
	delete(r.seen, whose)
	return got
}

// start serves every way to reach it, and returns what stands for it in settings.
func (r *witness) start(t *testing.T) *strings.Replacer {
	t.Helper()
	serve := func(secure *tls.Config, l net.Listener) string {
		s := httptest.NewUnstartedServer(r)
		s.EnableHTTP2, s.TLS = true, secure
		if l != nil {
			s.Listener.Close()
			s.Listener = l
		}
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetHTTP2(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		if secure != nil {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	cert := certificate(authority, func(c *x509.Certificate) {
		c.DNSNames = []string{"localhost"}
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	})
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.Leaf)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	writePEM(t, file("cert.pem"), "CERTIFICATE", cert.Certificate[0])
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, file("key.pem"), "PRIVATE KEY", key)
	if err := os.WriteFile(file("garbage.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := serve(nil, nil)
	secure := serve(&tls.Config{Certificates: []tls.Certificate{*cert}}, nil)
	mutual := serve(&tls.Config{Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted}, nil)
	socket := ""
	if runtime.GOOS != "windows" {
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", file("s"))
		if err != nil {
			t.Fatal(err)
		}
		socket = serve(nil, l)
	}
	port := func(address string) string { _, port, _ := net.SplitHostPort(address); return port }
	return strings.NewReplacer("{grpc}", plain, "{http}", plain, "{grpcs}", secure, "{https}", secure, "{mtls}", mutual, "{unix}", socket, "{port}", port(plain), "{tlsport}", port(secure),
		"{ca}", authorityFile, "{cert}", file("cert.pem"), "{key}", file("key.pem"), "{missing}", file("missing.pem"), "{garbage}", file("garbage.pem"))
}

// TestSettingsNeverWorse sends a request by either client with the same variables.
func TestSettingsNeverWorse(t *testing.T) {
	rows := settings()
	if len(rows) < 92 {
		t.Errorf("%d settings, want at least 92", len(rows))
	}
	r := &witness{seen: map[string][]seen{}}
	values := r.start(t)
	delivered := 0
	for _, row := range rows {
		t.Run(row.protocol+"/"+row.name, func(t *testing.T) {
			for _, v := range row.variables {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv("OTEL_EXPORTER_OTLP_"+name, values.Replace(value))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			theirError := row.sendTheirs(ctx)
			ourError := row.sendOurs(ctx)
			theirs, ours := r.take("span of theirs"), r.take("span of ours")
			if ctx.Err() != nil {
				t.Error("late")
			}
			if (ourError == nil) != (len(ours) == 1) || len(ours) > 1 {
				t.Errorf("our client says %v, and %d requests came", ourError, len(ours))
			}
			if row.refused != "" {
				if ourError == nil {
					t.Errorf("sent, although %s", row.refused)
				}
				return
			}
			if theirError != nil || len(theirs) != 1 {
				t.Logf("theirs: %v; ours: %v", theirError, ourError)
				return
			}
			if len(ours) != 1 {
				t.Fatalf("lost: %v", ourError)
			}
			delivered++
			a, b := ours[0], theirs[0]
			if a.path != b.path || a.kind != b.kind || a.encoding != b.encoding && a.encoding != "gzip" {
				t.Errorf("%s, %s, %q; want %s, %s, %q", a.path, a.kind, a.encoding, b.path, b.kind, b.encoding)
			}
			for name, want := range b.headers {
				if strings.HasPrefix(name, "X-") || name == "Authorization" {
					if got := a.headers[name]; fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
			}
		})
	}
	if delivered < len(rows)/2 {
		t.Errorf("only %d of %d settings were compared", delivered, len(rows))
	}
}

func (s *setting) sendTheirs(ctx context.Context) error {
	client := tracesClient(otlptracegrpc.NewClient(otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{})))
	if s.protocol != "grpc" {
		client = otlptracehttp.NewClient(otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	defer client.Stop(ctx)
	return client.UploadTraces(ctx, oneSpan("span of theirs"))
}

func (s *setting) sendOurs(ctx context.Context) error {
	client, err := New(Config{})
	if err != nil {
		return err
	}
	defer client.Stop(ctx)
	return client.UploadTraces(ctx, encodeRequest(oneSpan("span of ours")...))
}

func oneSpan(name string) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{Name: name}}}}}}
}
