package spool

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
)

func TestMain(m *testing.M) {
	if child := os.Getenv("SPOOL_TEST_CHILD"); child != "" {
		children[child]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// children are what the test binary does instead of testing, when a test
// starts it again.
var children = map[string]func(){}

var (
	here  = Destination{Protocol: "grpc", Endpoint: "http://localhost:4317"}
	there = Destination{Protocol: "http/protobuf", Endpoint: "https://otlp.example.com/v1/traces"}
)

func newSpool(t testing.TB, max int64) Spool {
	t.Helper()
	return Spool{Dir: filepath.Join(t.TempDir(), "state", "spool"), Max: max, Losses: new(LossCounter)}
}

// spanOf is a span of one trace that its name tells from all others.
func spanOf(name string) *tracepb.Span {
	id := fmt.Sprintf("%-8s", name)
	return &tracepb.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte(id[len(id)-8:]), Name: name, StartTimeUnixNano: 1, EndTimeUnixNano: 2}
}

func spansOf(names ...string) (spans []*tracepb.Span) {
	for _, name := range names {
		spans = append(spans, spanOf(name))
	}
	return spans
}

// requestOf is a request of spans of these names.
func requestOf(t testing.TB, names ...string) Request {
	t.Helper()
	return encoded(t, spansOf(names...))
}

func encoded(t testing.TB, spans []*tracepb.Span) Request {
	t.Helper()
	body, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name"}}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "spantee"},
			Spans: spans,
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return Request{Body: body, Spans: len(spans)}
}

// originOf is the resource and scope of requestOf's spans.
func originOf(t testing.TB) *Origin {
	t.Helper()
	return spansFrom(requestOf(t, "a").Body)[0].Of
}

// spansFrom are the spans of a request.
func spansFrom(body []byte) (spans []*Span) {
	for resourceSpans := range field.Of(body, field.ResourceSpans) {
		spans = appendSpans(spans, resourceSpans.Bytes)
	}
	return spans
}

// wire is what a span adds to a ScopeSpans.
func wire(t testing.TB, span *tracepb.Span) []byte {
	t.Helper()
	b, err := proto.Marshal(span)
	if err != nil {
		t.Fatal(err)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, field.Spans, protowire.BytesType), b)
}

// background never ends.
var background = context.Background()

func put(t testing.TB, s Spool, to Destination, names ...string) {
	t.Helper()
	if gaveUp, err := tryPut(s, to, requestOf(t, names...), "connection refused"); gaveUp.Others > 0 || err != nil {
		t.Fatalf("Put gave up %d spans, error %v", gaveUp, err)
	}
}

// tryPut is Put, and returns what it has evicted.
func tryPut(s Spool, to Destination, req Request, reason string) (Losses, error) {
	err := s.Put(background, to, req, reason)
	return s.Losses.Take(), err
}

// nextOf is Next, and returns how many spans or data points were set aside.
func nextOf(o *Outbox) (c *Claim, corrupt int, err error) {
	c, err = o.Next(background)
	l := o.s.Losses.Take()
	return c, l.Own + l.Others + l.OwnPoints + l.OtherPoints, err
}

func namesIn(spans ...*Span) (names []string) {
	for _, span := range decode(spans) {
		names = append(names, span.Name)
	}
	return names
}

// decode reads spans as a receiver does.
func decode(spans []*Span) (all []*tracepb.Span) {
	data := new(tracepb.TracesData)
	if err := proto.Unmarshal(Encode(spans), data); err != nil {
		panic(err)
	}
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			all = append(all, ss.Spans...)
		}
	}
	return all
}

// drained takes all that waits for a destination, as names.
func drained(t testing.TB, s Spool, to Destination) (names []string) {
	t.Helper()
	o := openBox(t, s, to)
	if o == nil {
		return nil
	}
	defer o.Close()
	for {
		c, err := o.Next(background)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			return names
		}
		names = append(names, namesIn(c.Spans...)...)
		if err := c.Done(); err != nil {
			t.Fatal(err)
		}
	}
}

func openBox(t testing.TB, s Spool, to Destination) *Outbox {
	t.Helper()
	o, err := s.Outbox(background, to)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// filesOf lists all files under a directory but the locks.
func filesOf(t testing.TB, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != lockFile && !strings.HasSuffix(path, lockExt) {
			paths = append(paths, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func states(t testing.TB, s Spool) (states []string) {
	t.Helper()
	entries, err := s.List(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		states = append(states, fmt.Sprintf("%s %d", e.State, e.Spans))
	}
	return states
}

func want(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rejected returns a request as one that the receiver has rejected.
func rejected(r Request) Request {
	r.Rejected = true
	return r
}
