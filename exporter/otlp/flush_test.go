package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
)

// waitFor puts spans into the spool, a request each, for where cfg leads.
func waitFor(t *testing.T, s *spool.Spool, c Client, from, to int) {
	t.Helper()
	for _, span := range numbered(from, to, 300) {
		body, err := request{spans: frames(span)}.body()
		if err == nil {
			_, err = s.Put(c.Destination(), body, "it was down")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// flushAll flushes, and checks that done was told of what became of the spans.
func flushAll(t *testing.T, s *spool.Spool, cfg OTLP) []Flushed {
	t.Helper()
	told := 0
	all, err := Flush(context.Background(), *s, cfg, func(spans int) { told += spans })
	if err != nil {
		t.Fatal(err)
	}
	sum, failed := 0, false
	for _, f := range all {
		sum += f.Delivered + f.Rejected
		failed = failed || f.Err != nil
	}
	if told > sum || told < sum && !failed {
		t.Errorf("told of %d spans, of %d", told, sum)
	}
	return all
}

func TestFlushSendsEachToItsOwn(t *testing.T) {
	s := newSpool(t)
	one, two, down := receivertest.Start(t), receivertest.Start(t), receivertest.Start(t)
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	fc, err := NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fc.Stop(context.Background())
	waitFor(t, s, newClient(t, OTLP{Endpoint: one.GRPCEndpoint()}), 0, 3)
	waitFor(t, s, newClient(t, OTLP{Protocol: "http/protobuf", Endpoint: two.HTTPEndpoint()}), 3, 5)
	waitFor(t, s, newClient(t, OTLP{Protocol: "http/json", Endpoint: two.HTTPEndpoint()}), 5, 6)
	waitFor(t, s, newClient(t, OTLP{Endpoint: down.GRPCEndpoint()}), 6, 8)
	waitFor(t, s, fc, 8, 12)
	down.Stop()

	all := flushAll(t, s, OTLP{})
	delivered := []int{}
	for _, f := range all {
		delivered = append(delivered, f.Delivered)
		e, hinted := errors.AsType[*Error](f.Err)
		if (f.Err != nil) != (f.Delivered == 0) || f.Err != nil && !hinted || hinted && e.Hint == "" {
			t.Errorf("%+v", f)
		}
	}
	if want := []int{3, 2, 1, 0, 4}; !slices.Equal(delivered, want) {
		t.Errorf("delivered %v, want %v", delivered, want)
	}
	names1, names2 := namesOf(one.Spans()), namesOf(two.Spans())
	if got := fmt.Sprint(names1, names2); got != "[0000 0001 0002] [0003 0004 0005]" {
		t.Errorf("arrived %s", got)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for spans, err := range ReadFile(f) {
		if lines++; err != nil || spans[0].ScopeSpans[0].Spans[0].Name != fmt.Sprintf("%04d", 7+lines) {
			t.Errorf("line %d: %v, %v", lines, spans, err)
		}
	}
	waiting, _ := kept(t, s, spool.Waiting)
	if got := namesOf(waiting); lines != 4 || !slices.Equal(got, []string{"0006", "0007"}) {
		t.Errorf("%d lines, %q wait", lines, got)
	}

	down.Restart()
	if all := flushAll(t, s, OTLP{}); len(all) != 1 || all[0].Delivered != 2 || all[0].Err != nil {
		t.Errorf("then %+v", all)
	}
	if all := flushAll(t, s, OTLP{}); len(all) != 0 {
		t.Errorf("and then %+v", all)
	}
}

func TestFlushToAnEndpointTakesAll(t *testing.T) {
	s := newSpool(t)
	r, gone := receivertest.Start(t), receivertest.Start(t)
	file, err := NewFile(filepath.Join(t.TempDir(), "spans.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	file.Stop(context.Background())
	waitFor(t, s, newClient(t, OTLP{Endpoint: gone.GRPCEndpoint()}), 0, 2)
	waitFor(t, s, newClient(t, OTLP{Protocol: "http/json", Endpoint: gone.HTTPEndpoint()}), 2, 4)
	waitFor(t, s, file, 4, 6)
	gone.Stop()
	for _, f := range flushAll(t, s, OTLP{Protocol: "http/protobuf", Endpoint: r.HTTPEndpoint()}) {
		if f.Delivered != 2 || f.Err != nil {
			t.Errorf("%+v", f)
		}
	}
	if got := fmt.Sprint(namesOf(r.Spans())); got != "[0000 0001 0002 0003 0004 0005]" {
		t.Errorf("arrived %s", got)
	}
}

// A web server that notes the headers it gets.
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
	return server.URL, func() []http.Header { return all }
}

func TestHeadersGoToTheirEndpointOnly(t *testing.T) {
	own, ownGot := headers(t)
	foreign, foreignGot := headers(t)
	mine := OTLP{Protocol: "http/protobuf", Endpoint: own, Headers: map[string]string{"authorization": "secret"}}
	for _, byVariable := range []bool{true, false} {
		s := newSpool(t)
		waitFor(t, s, newClient(t, mine), 0, 1)
		waitFor(t, s, newClient(t, OTLP{Protocol: "http/protobuf", Endpoint: foreign}), 1, 2)
		waitFor(t, s, newClient(t, OTLP{Protocol: "http/protobuf", Endpoint: own + "/other"}), 2, 3)
		waitFor(t, s, newClient(t, OTLP{Protocol: "http/json", Endpoint: own}), 3, 4)
		cfg := OTLP{Headers: mine.Headers}
		if byVariable {
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
			cfg = OTLP{}
		}
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", mine.Protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", own)
		for _, f := range flushAll(t, s, cfg) {
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

// A destination tells no secrets, and is still the one that is configured.
func TestFlushKnowsADestinationWithoutItsSecrets(t *testing.T) {
	s := newSpool(t)
	url, _ := headers(t)
	withUser := "http://user:pass@" + url[len("http://"):]
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", withUser+"/v1/traces?token=secret")
	c := newClient(t, OTLP{})
	if to := c.Destination(); to.Endpoint != url+"/v1/traces" {
		t.Errorf("destination %+v", to)
	}
	waitFor(t, s, c, 0, 1)
	if all := flushAll(t, s, OTLP{}); len(all) != 1 || all[0].Delivered != 1 {
		t.Errorf("%+v", all)
	}
}

func TestFlushRecoversAndRejects(t *testing.T) {
	s := newSpool(t)
	r := receivertest.Start(t)
	client := newClient(t, OTLP{Endpoint: r.GRPCEndpoint()})
	dead := newExporter(t, Config{Client: client, Spool: s})
	if err := dead.Checkpoint(numbered(0, 3, 300)); err != nil {
		t.Fatal(err)
	}
	dead.journal.Close(true)
	defer dead.Close(context.Background())
	refuse(1, codes.InvalidArgument, "bad name")(r)
	waitFor(t, s, client, 3, 4)

	all := flushAll(t, s, OTLP{})
	if len(all) != 2 || all[0].Recovered != 3 || all[1].Delivered != 3 || all[1].Rejected != 1 || all[1].Err != nil {
		t.Errorf("%+v", all)
	}
	rejected, why := kept(t, s, spool.Rejected)
	if diff := cmp.Diff([]string{"bad name"}, why); len(rejected) != 1 || diff != "" {
		t.Errorf("%d rejected, %s", len(rejected), diff)
	}
	if all := flushAll(t, s, OTLP{}); len(all) != 0 {
		t.Errorf("then %+v", all)
	}
}

func TestFlushStopsWhenTold(t *testing.T) {
	s := newSpool(t)
	r := receivertest.Start(t)
	r.Hang()
	waitFor(t, s, newClient(t, OTLP{Endpoint: r.GRPCEndpoint()}), 0, 3)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		r.Await(func() bool { return r.Attempts() > 0 })
		cancel()
	}()
	all, err := Flush(ctx, *s, OTLP{}, func(int) {})
	if err != nil || len(all) != 1 || all[0].Err == nil || all[0].Delivered != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if waiting, _ := kept(t, s, spool.Waiting); len(waiting) != 3 {
		t.Errorf("%d wait", len(waiting))
	}
}

func TestFlushLeavesWhatAnotherSends(t *testing.T) {
	s := newSpool(t)
	r := receivertest.Start(t)
	c := newClient(t, OTLP{Endpoint: r.GRPCEndpoint()})
	waitFor(t, s, c, 0, 3)
	box, err := s.Outbox(c.Destination())
	if err != nil {
		t.Fatal(err)
	}
	if all := flushAll(t, s, OTLP{}); len(all) != 1 || !errors.Is(all[0].Err, spool.ErrBusy) {
		t.Errorf("%+v", all)
	}
	box.Close()
	if all := flushAll(t, s, OTLP{Timeout: time.Second}); len(all) != 1 || all[0].Delivered != 3 {
		t.Errorf("%+v", all)
	}
}

func TestFlushOfNonsense(t *testing.T) {
	s := newSpool(t)
	for _, to := range []spool.Destination{
		{Protocol: "grpc", Endpoint: "http://a b"},
		{Protocol: "grpc", Endpoint: "%"},
		{Protocol: "http/json", Endpoint: "nowhere"},
		{Protocol: "file", Endpoint: filepath.Join(s.Dir, "missing", "file")},
		{Protocol: "", Endpoint: "http://127.0.0.1:0"},
	} {
		if _, err := s.Put(to, spool.Request{}, ""); err != nil {
			t.Fatal(err)
		}
		body, err := request{spans: frames(numbered(0, 1, 300)...)}.body()
		if err == nil {
			_, err = s.Put(to, body, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range flushAll(t, s, OTLP{}) {
		if f.Delivered > 0 || f.Err == nil && f.Rejected == 0 {
			t.Errorf("%+v", f)
		}
		t.Log(f.To, f.Err)
	}
}
