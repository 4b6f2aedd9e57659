package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// proxied runs in a process of its own, because net/http reads the proxy's variables
// only once. It sends a request to an endpoint, and prints what became of it, how many MB
// it took, and the hint.
func proxied() {
	c, err := New(Config{Protocol: os.Getenv("OTLP_TEST_PROTOCOL"), Endpoint: os.Getenv("OTLP_TEST_ENDPOINT")})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = errors.Join(c.UploadTraces(ctx, encodeRequest(&tracepb.ResourceSpans{})), c.Stop(ctx))
	}
	if failed, ok := errors.AsType[*exporter.UploadError](err); ok {
		fmt.Println(verdictOf(failed), failed)
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		fmt.Fprintln(os.Stderr, memory.Sys>>20, hintOf(failed))
	} else {
		fmt.Println(err)
	}
}

// proxy answers CONNECT, and passes everything on to address.
func proxy(t *testing.T, address, answer string, secure bool) (url string, asked <-chan *http.Request) {
	t.Helper()
	got := make(chan *http.Request, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		server, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		io.WriteString(client, "HTTP/1.1 "+answer+"\r\n\r\n")
		go io.Copy(server, client)
		io.Copy(client, server)
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL, got
}

// sendThrough sends a request through a proxy, in a process of its own. It returns what
// became of the request, the hint, and how many MB the process took.
func sendThrough(t *testing.T, proxy, protocol, endpoint string) (result, hint string, memory int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OTLP_TEST_CHILD=proxied", "HTTPS_PROXY="+proxy, "OTLP_TEST_PROTOCOL="+protocol, "OTLP_TEST_ENDPOINT="+endpoint)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	megabytes, hint, _ := strings.Cut(stderr.String(), " ")
	memory, _ = strconv.Atoi(megabytes)
	return strings.TrimSpace(string(out)), hint, memory
}

func TestDeadProxy(t *testing.T) {
	for _, protocol := range protocols {
		got, hint, _ := sendThrough(t, "http://127.0.0.1:1", protocol, "https://collector.invalid")
		if want := fmt.Sprintf("verdict %d connection refused", exporter.Unreachable); got != want || !strings.Contains(hint, "nothing listens on http://127.0.0.1:1, the proxy") {
			t.Errorf("%s: %q (%s), want %q", protocol, got, hint, want)
		}
	}
}

// A proxy may never end its answer.
func TestEndlessProxy(t *testing.T) {
	for name, start := range map[string]string{"headers": "HTTP/1.1 200 OK\r\n", "a refusal's headers": "HTTP/1.1 407 No\r\n", "a refusal": "HTTP/1.1 400 No\r\n\r\n", "a status": "HTTP/1.1 200 "} {
		address := serveConns(t, func(conn net.Conn) {
			defer conn.Close()
			_, _ = io.ReadFull(conn, make([]byte, 10))
			_, err := io.WriteString(conn, start)
			line := strings.Repeat("Name: value\r\n", 5000)
			if name == "a status" {
				line = strings.Repeat("x", 50_000)
			}
			for err == nil {
				_, err = io.WriteString(conn, line)
			}
		})
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			got, _, memory := sendThrough(t, "http://"+address, protocol, "https://collector.invalid")
			if !strings.HasPrefix(got, fmt.Sprintf("verdict %d ", exporter.Retryable)) || strings.Contains(got, endpoint.ErrTimeout.Error()) {
				t.Errorf("%s, %s: %s", name, protocol, got)
			}
			if memory == 0 || memory > 64 {
				t.Errorf("%s, %s: %d MB", name, protocol, memory)
			}
		}
	}
}

func TestProxyOverGRPC(t *testing.T) {
	r := receivertest.Start(t)
	address := strings.TrimPrefix(r.GRPCEndpoint(), "http://")
	through := func(proxy, endpoint string) string {
		t.Helper()
		got, _, _ := sendThrough(t, proxy, "grpc", endpoint)
		return got
	}

	url, asked := proxy(t, address, "200 OK", false)
	if got := through(strings.Replace(url, "//", "//me:secret@", 1), "http://collector.invalid:4317"); got != "<nil>" {
		t.Error(got)
	}
	if request := <-asked; request.Method != http.MethodConnect || request.Host != "collector.invalid:4317" || request.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" {
		t.Errorf("%s %s %v", request.Method, request.Host, request.Header)
	}
	if n := r.Attempts(); n != 1 {
		t.Errorf("%d requests arrived", n)
	}

	url, _ = proxy(t, address, "407 Proxy Authentication Required", false)
	if got, want := through(url, "http://collector.invalid:4317"), fmt.Sprintf("verdict %d the proxy answers 407 Proxy Authentication Required", exporter.Misconfigured); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	url, _ = proxy(t, address, "400 Bad Request", false)
	if got, want := through(url, "http://collector.invalid:4317"), fmt.Sprintf("verdict %d the proxy answers 400 Bad Request", exporter.Retryable); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	url, _ = proxy(t, address, "200 OK", true)
	if got, want := through(url, "http://collector.invalid:4317"), fmt.Sprintf("verdict %d a https:// proxy is not supported over gRPC", exporter.Misconfigured); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := through("socks5://127.0.0.1:1", "http://collector.invalid:4317"), fmt.Sprintf("verdict %d a socks5:// proxy is not supported over gRPC", exporter.Misconfigured); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := through("http://127.0.0.1:1", r.GRPCEndpoint()); got != "<nil>" { // no proxy for loopback
		t.Error(got)
	}
}
