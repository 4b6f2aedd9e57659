package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
)

func newSpool(t *testing.T) *spool.Spool {
	t.Helper()
	return &spool.Spool{Dir: filepath.Join(t.TempDir(), "spool"), Max: 64 << 20}
}

// A deaf client accepts nothing, for a destination.
type deaf struct{ exporter.Client }

func (deaf) UploadTraces(context.Context, []byte) error {
	return &exporter.UploadError{Verdict: exporter.Misconfigured, Err: errors.New("it was down")}
}

// leave puts a span into the spool for where cfg leads.
func leave(t *testing.T, s *spool.Spool, name string, cfg Config) {
	t.Helper()
	e := exporter.New(exporter.Config{Client: deaf{newClient(t, cfg)}, Spool: s})
	export(e, encode(sized(name, 100)), nobody)
	if r := closeWithin(t, e, 5*time.Second); r.Spooled != 1 {
		t.Fatalf("%+v", r)
	}
}

func flush(t *testing.T, s *spool.Spool, cfg Config) []*exporter.Flushed {
	t.Helper()
	all, err := exporter.Flush(t.Context(), *s, func(to spool.Destination) (exporter.Client, error) { return ClientFor(to, cfg) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFlushSendsEachToItsOwn(t *testing.T) {
	s := newSpool(t)
	one, two, down := receivertest.Start(t), receivertest.Start(t), receivertest.Start(t)
	leave(t, s, "0", Config{Endpoint: one.GRPCEndpoint()})
	leave(t, s, "1", Config{Protocol: "http/protobuf", Endpoint: two.HTTPEndpoint()})
	leave(t, s, "2", Config{Protocol: "http/json", Endpoint: two.HTTPEndpoint()})
	leave(t, s, "3", Config{Endpoint: down.GRPCEndpoint()})
	down.Stop()

	var delivered []int
	for _, f := range flush(t, s, Config{}) {
		delivered = append(delivered, f.Delivered)
		if (f.Err != nil) != (f.Delivered == 0) || f.Err != nil && hintOf(f.Err) == "" {
			t.Errorf("%+v", f)
		}
	}
	if want := []int{1, 1, 1, 0}; !slices.Equal(delivered, want) {
		t.Errorf("delivered %v, want %v", delivered, want)
	}
	if got := fmt.Sprint(namesOf(one), namesOf(two)); got != "[0] [1 2]" {
		t.Errorf("arrived %s", got)
	}
	down.Restart()
	if all := flush(t, s, Config{}); len(all) != 1 || all[0].Delivered != 1 || all[0].Err != nil {
		t.Errorf("then %+v", all)
	}
}

func namesOf(r *receivertest.Receiver) (names []string) {
	for _, span := range r.Spans() {
		names = append(names, span.Name)
	}
	return names
}

// headers are those of the requests a web server gets.
func headers(t *testing.T) (url string, got func() []http.Header) {
	t.Helper()
	var mu sync.Mutex
	var all []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.Header)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []http.Header {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestHeadersGoToTheirEndpointOnly(t *testing.T) {
	own, ownGot := headers(t)
	foreign, foreignGot := headers(t)
	mine := Config{Protocol: "http/protobuf", Endpoint: own, Headers: map[string]string{"authorization": "secret"}}
	for _, byVariable := range []bool{true, false} {
		s := newSpool(t)
		leave(t, s, "0", mine)
		leave(t, s, "1", Config{Protocol: "http/protobuf", Endpoint: foreign})
		leave(t, s, "2", Config{Protocol: "http/protobuf", Endpoint: own + "/other"})
		leave(t, s, "3", Config{Protocol: "http/json", Endpoint: own})
		cfg := Config{Headers: mine.Headers}
		if byVariable {
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
			cfg = Config{}
		}
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", mine.Protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", own)
		for _, f := range flush(t, s, cfg) {
			if f.Err != nil || f.Delivered != 1 {
				t.Errorf("%+v", f)
			}
		}
	}
	var got []string
	for _, h := range slices.Concat(ownGot(), foreignGot()) {
		got = append(got, h.Get("Authorization"))
	}
	if want := []string{"secret", "", "", "secret", "", "", "", ""}; !slices.Equal(got, want) {
		t.Errorf("authorization %q, want %q", got, want)
	}
}

// A spool knows a key in the path, which cannot be sent otherwise.
func TestADestinationIsTheConfiguredEndpoint(t *testing.T) {
	s := newSpool(t)
	url, _ := headers(t)
	url += "/0key1of2somebody3"
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url+"/v1/traces")
	if to := newClient(t, Config{}).Destination(); to.Endpoint != url+"/v1/traces" {
		t.Errorf("destination %+v", to)
	}
	leave(t, s, "0", Config{})
	if all := flush(t, s, Config{}); len(all) != 1 || all[0].Delivered != 1 {
		t.Errorf("%+v", all)
	}
}

func TestFlushOfNonsense(t *testing.T) {
	s := newSpool(t)
	for _, to := range []spool.Destination{
		{Protocol: "grpc", Endpoint: "http://a b"},
		{Protocol: "grpc", Endpoint: "%"},
		{Protocol: "http/json", Endpoint: "nowhere"},
		{Protocol: "file", Endpoint: "/etc/passwd"},
		{Protocol: "", Endpoint: "http://127.0.0.1:0"},
	} {
		log := s.NewLog(to, nil)
		_ = log.Append([]*spool.Span{{Wire: spool.AppendSpan(nil, encode(sized("a", 100))), Of: new(spool.Origin)}}, nil)
		log.Close("it was down", nil)
	}
	all := flush(t, s, Config{})
	if len(all) != 5 {
		t.Errorf("%+v", all)
	}
	for _, f := range all {
		if f.Delivered > 0 || f.Err == nil && f.Rejected == 0 {
			t.Errorf("%+v", f)
		}
	}
}
