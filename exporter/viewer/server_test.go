package viewer

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping/semconv"
)

func start(t *testing.T, cfg Config) *Viewer {
	t.Helper()
	if cfg.Page == "" {
		cfg.Page = "127.0.0.1:0"
	}
	if cfg.Store == nil {
		cfg.Store = newStore(t).Store
	}
	v, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

type answer struct {
	StatusCode int
	Header     http.Header
}

// ask gets a path under another name of the host, if one is given.
func ask(t *testing.T, v *Viewer, method, path, host string) (answer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(v.URL(), "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	req.Header.Set("Origin", "http://evil.example")
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header}, string(b)
}

func getJSON[T any](t *testing.T, v *Viewer, path string) (got T) {
	t.Helper()
	resp, body := ask(t, v, http.MethodGet, path, "")
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s: %v", path, resp.StatusCode, body, err)
	}
	return got
}

// A page elsewhere that has its name point here gets nothing.
func TestHostIsChecked(t *testing.T) {
	v := start(t, Config{})
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(v.URL(), "http://"), "/"))
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "LOCALHOST": 200, "[::1]:" + port: 200, "192.168.1.7:1": 200,
		"evil.example": 403, "evil.example:" + port: 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "localhost.": 403, "127.1.evil": 403,
	} {
		for _, path := range []string{"/", "/api/sessions", "/api/changes/", "/main.js"} {
			resp, _ := ask(t, v, http.MethodGet, path, host)
			if (resp.StatusCode == 403) != (want == 403) {
				t.Errorf("%s as %s: %d", path, host, resp.StatusCode)
			}
		}
	}
	named := &server{host: "viewer.example"}
	if !named.knows("Viewer.Example:80") || named.knows("other.example") || (&server{}).knows("") {
		t.Error("the name it listens on")
	}
}

// A browser says which requests another page caused. Of those, only links to the page are good.
func TestOtherPagesAreRefused(t *testing.T) {
	v := start(t, Config{HTTP: "127.0.0.1:0"})
	page, otlp := strings.TrimSuffix(v.URL(), "/"), v.HTTPEndpoint()
	id := idOf(span(1, 1, 0, "", 0, 0)).String()
	on(t, v.Store).Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))
	for _, tt := range []struct {
		method, url, site, mode string
		refused                 bool
	}{
		{"GET", page + "/", "", "", false},
		{"GET", page + "/", "cross-site", "navigate", false},
		{"GET", page + "/", "same-site", "navigate", false},
		{"GET", page + "/", "cross-site", "no-cors", true},
		{"GET", page + "/api/sessions", "", "", false},
		{"GET", page + "/api/sessions", "same-origin", "cors", false},
		{"GET", page + "/api/sessions/" + id, "none", "navigate", false},
		{"GET", page + "/main.js", "same-origin", "no-cors", false},
		{"GET", page + "/main.js", "cross-site", "no-cors", true},
		{"GET", page + "/api/sessions?q=x", "cross-site", "no-cors", true},
		{"GET", page + "/api/sessions?q=x", "cross-site", "navigate", true}, // a frame
		{"GET", page + "/api/sessions?q=x", "same-site", "cors", true},      // of another port
		{"GET", page + "/api/runs", "cross-site", "navigate", true},
		{"GET", page + "/api/changes", "cross-site", "cors", true},
		{"GET", page + "/api/sessions/" + id + "/export.html", "cross-site", "navigate", true},
		{"GET", page + "/api/viewer", "cross-site", "no-cors", true},
		{"POST", page + "/v1/traces", "cross-site", "no-cors", true},
		{"POST", page + "/api/files", "cross-site", "no-cors", true},
		{"POST", page + "/api/sessions/" + id + "/delete", "cross-site", "navigate", true},
		{"POST", otlp + "/v1/traces", "cross-site", "no-cors", true},
		{"GET", otlp + "/", "cross-site", "navigate", true},
		{"POST", otlp + "/v1/traces", "", "", false},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.url, nil)
		must(t, err)
		if tt.site != "" {
			req.Header.Set("Sec-Fetch-Site", tt.site)
			req.Header.Set("Sec-Fetch-Mode", tt.mode)
		}
		req.Header.Set("Content-Type", "application/x-protobuf")
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		must(t, err)
		resp.Body.Close()
		if refused := resp.StatusCode == http.StatusForbidden; refused != tt.refused {
			t.Errorf("%+v: %d", tt, resp.StatusCode)
		}
	}
	if l := on(t, v.Store).List(Query{}); l.Total != 1 {
		t.Errorf("%d sessions", l.Total)
	}
}

// A search has a size, and what nobody waits for any more is not computed.
func TestAnswersEnd(t *testing.T) {
	v := start(t, Config{})
	s := on(t, v.Store)
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))
	id := idOf(span(1, 1, 0, "", 0, 0))
	words := func(n int) string { return url.QueryEscape(strings.TrimSpace(strings.Repeat("a ", n))) }
	phrase := func(n int) string { return url.QueryEscape(`"`) + words(n) + url.QueryEscape(`"`) }
	for q, want := range map[string]int{words(32): 200, words(33): 400, phrase(64): 200, phrase(65): 400, phrase(30_000): 400, words(30_000): 400, "-" + strings.Repeat("b-", 70): 400} {
		for _, path := range []string{"/api/sessions?q=", "/api/runs?q=", "/api/sessions/" + id.String() + "/hits?q="} {
			if resp, body := ask(t, v, http.MethodGet, path+q, ""); resp.StatusCode != want {
				t.Errorf("%s%.80s: %d %.100s", path, q, resp.StatusCode, body)
			}
		}
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, listed := s.Store.List(gone, Query{})
	_, searched := s.Store.List(gone, Query{Search: "x"})
	_, runs := s.Store.Runs(gone, RunsQuery{})
	_, _, steps := s.Steps(gone, id, 0)
	_, _, hits := s.Hits(gone, id, "x")
	_, _, spans := s.Store.Spans(gone, id, 0)
	for i, err := range []error{listed, searched, runs, steps, hits, spans} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d: %v", i, err)
		}
	}

	// While others are computed, an answer waits for its turn or for its client.
	room, begun, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	slow := bounded(room, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(done)
	})
	ctx, leave := context.WithCancel(t.Context())
	go slow(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	<-begun
	next := httptest.NewRecorder()
	bounded(room, func(http.ResponseWriter, *http.Request) { t.Error("two at a time") })(next, httptest.NewRequestWithContext(gone, "GET", "/", nil))
	leave()
	<-done
}

// Nothing else may load, run, frame or read the page.
func TestHeaders(t *testing.T) {
	v := start(t, Config{})
	for _, path := range []string{"/", "/main.js", "/api/sessions", "/api/sessions/1", "/nothing"} {
		resp, _ := ask(t, v, http.MethodGet, path, "")
		policy := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: no %s in %q", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
			resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, resp.Header)
		}
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: CORS: %s", path, name)
			}
		}
	}
	for _, method := range []string{http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if resp, _ := ask(t, v, method, "/api/sessions", ""); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
}

// The page is as it stands in the sources, and has no script or style inline.
func TestPageFiles(t *testing.T) {
	v := start(t, Config{})
	files, err := filepath.Glob("web/*.*")
	libraries, err2 := filepath.Glob("web/vendor/*")
	if err != nil || err2 != nil || len(files) < 10 || len(libraries) == 0 {
		t.Fatal(files, libraries, err, err2)
	}
	writing := slices.Clip([]string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
	for _, file := range append(files, libraries...) {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(filepath.ToSlash(file), "web")
		if path == "/index.html" {
			path = "/"
		}
		resp, got := ask(t, v, http.MethodGet, path, "")
		if got != string(want) {
			t.Errorf("%s differs", path)
		}
		if kind := resp.Header.Get("Content-Type"); strings.HasSuffix(path, ".js") && !strings.HasPrefix(kind, "text/javascript") {
			t.Errorf("%s is %s", path, kind)
		}
		banned := writing
		if !strings.HasPrefix(path, "/vendor/") { // which name their origins
			banned = append(banned, "://", "<style", "style=", " onclick=")
		}
		for _, bad := range banned {
			if strings.Contains(strings.ReplaceAll(got, "http://www.w3.org/2000/svg", ""), bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
}

func TestChangesAreTold(t *testing.T) {
	v := start(t, Config{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.URL()+"api/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"retry: 1000\n", "event: epoch\n", "data: " + v.server.epoch + "\n", "\n"} {
		if got, err := lines.ReadString('\n'); got != want {
			t.Fatalf("%q %v", got, err)
		}
	}
	s := span(7, 1, 0, "x", 0, 1)
	on(t, v.Store).Add(from("a", s))
	if got, err := lines.ReadString('\n'); got != `data: ["`+idOf(s).String()+"\"]\n" {
		t.Errorf("%q %v", got, err)
	}
}

// Nobody may hold a connection by being slow.
func TestSlowClientsAreCut(t *testing.T) {
	v := start(t, Config{})
	for name, d := range map[string]time.Duration{
		"header": v.http.ReadHeaderTimeout, "request": v.http.ReadTimeout, "answer": v.http.WriteTimeout, "idle": v.http.IdleTimeout,
	} {
		if d <= 0 || d > 5*time.Minute {
			t.Errorf("%s: %v", name, d)
		}
	}
	req := strings.NewReader("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", v.page.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.Copy(conn, req)
	if answer, _ := bufio.NewReader(conn).ReadString('\n'); answer != "" && !strings.Contains(answer, "431") {
		t.Errorf("a header of 1 MiB: %q", answer)
	}
}

func TestTooManyPages(t *testing.T) {
	v := start(t, Config{})
	for range maxStreams {
		v.server.streams <- struct{}{}
	}
	if resp, _ := ask(t, v, http.MethodGet, "/api/changes", ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d", resp.StatusCode)
	}
}

func TestSessionInParts(t *testing.T) {
	v := start(t, Config{})
	root := fails(span(1, 1, 0, "invoke_agent cursor-agent", 1, 9, str(semconv.ErrorType, "incomplete")))
	on(t, v.Store).Add(from("a", root))
	id := idOf(root).String()
	first := getJSON[Overview](t, v, "/api/sessions/"+id)
	if len(first.Spans) != 1 || first.Spans[0].Failure != "incomplete" || first.Session.Failure != "incomplete" {
		t.Errorf("%+v", first)
	}
	on(t, v.Store).Add(from("a", span(1, 2, 1, "execute_tool shell", 2, 3)))
	rest := getJSON[Overview](t, v, "/api/sessions/"+id+"?since="+jsonNumber(first.Seq))
	if len(rest.Spans) != 1 || rest.Spans[0].Tool != "shell" || rest.Spans[0].Start != 2e6 {
		t.Errorf("%+v", rest)
	}
	detail := getJSON[Detail](t, v, "/api/sessions/"+id+"/spans/0000000000000002")
	if detail.Name != "execute_tool shell" || len(detail.Attributes) != 2 || detail.Resource[0].Value != "a" {
		t.Errorf("%+v", detail)
	}
	for _, path := range []string{"/api/sessions/ffff", "/api/sessions/xyz", "/api/sessions/" + id + "/spans/ff", "/api/sessions/" + id + "/spans/zz"} {
		if resp, _ := ask(t, v, http.MethodGet, path, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

func jsonNumber(n int64) string { b, _ := json.Marshal(n); return string(b) }

// A program with the SDK and nothing configured but the endpoint.
func TestSDKShowsUp(t *testing.T) {
	v := start(t, Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	client, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(v.HTTPEndpoint()+"/v1/traces"),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(client))
	ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
	_, child := provider.Tracer("test").Start(ctx, "child")
	child.SetAttributes(attribute.Int("n", 17))
	child.AddEvent("happened")
	child.End()
	parent.End()
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	l := getJSON[List](t, v, "/api/sessions")
	if len(l.Sessions) != 1 || l.Sessions[0].Spans != 2 || l.Sessions[0].Name != "parent" || !l.Sessions[0].Ended {
		t.Fatalf("%+v", l.Sessions)
	}
	o := getJSON[Overview](t, v, "/api/sessions/"+l.Sessions[0].ID)
	for _, s := range o.Spans {
		if s.Name == "child" && len(s.Marks) != 1 {
			t.Errorf("%+v", s)
		}
	}
}

func TestTakenPort(t *testing.T) {
	v := start(t, Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	page := strings.TrimSuffix(strings.TrimPrefix(v.URL(), "http://"), "/")
	free := "127.0.0.1:0"
	for _, cfg := range []Config{
		{Page: page},
		{Page: free, GRPC: strings.TrimPrefix(v.GRPCEndpoint(), "http://"), HTTP: free},
		{Page: free, GRPC: free, HTTP: strings.TrimPrefix(v.HTTPEndpoint(), "http://")},
	} {
		_, err := Start(cfg)
		var hinted *exporter.Error
		if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "port 0") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Responses are compressed, except for events, which arrive at once.
func TestResponsesAreCompressed(t *testing.T) {
	s := newStore(t)
	for n := range 9 {
		s.Add(nth(n, 3))
	}
	v := start(t, Config{Store: s.Store})
	get := func(path, accept string) (http.Header, io.Reader) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.URL()+path, nil)
		must(t, err)
		req.Header.Set("Accept-Encoding", accept) // and the client does not decompress
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.Header, resp.Body
	}
	for _, path := range []string{"list.js", "base.css", "api/sessions", "api/runs"} {
		plain, body := get(path, "identity")
		want, err := io.ReadAll(body)
		must(t, err)
		packed, body := get(path, "gzip, br, zstd")
		if plain.Get("Content-Encoding") != "" || packed.Get("Content-Encoding") != "gzip" || packed.Get("Content-Type") != plain.Get("Content-Type") {
			t.Errorf("%s: %v, and compressed %v", path, plain, packed)
			continue
		}
		unpacked, err := gzip.NewReader(body)
		must(t, err)
		if got, err := io.ReadAll(unpacked); err != nil || string(got) != string(want) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}

	header, events := get("api/changes", "gzip")
	lines := bufio.NewReader(events)
	next := func(prefix string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			must(t, err)
			if strings.HasPrefix(line, prefix) {
				return
			}
		}
	}
	next("event: epoch")
	if kind := header.Get("Content-Encoding"); kind != "" {
		t.Errorf("events are compressed by %s", kind)
	}
	s.Add(nth(9, 3))
	next(`data: ["`)
}
