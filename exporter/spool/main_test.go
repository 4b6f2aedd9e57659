package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/standstill"
)

func TestMain(m *testing.M) {
	standstill.Used = func() time.Duration { return 0 } // the tests' clock does not follow the processor's
	if child := os.Getenv("SPOOL_TEST_CHILD"); child != "" {
		children[child]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// children are what the test binary does instead of testing, when a test
// starts it again.
var children = map[string]func(){}

var here = Destination{Protocol: "grpc", Endpoint: "http://localhost:4317"}

func newSpool(t testing.TB, max int64) Spool {
	t.Helper()
	return Spool{Dir: filepath.Join(t.TempDir(), "state", "spool"), Max: max}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// spanOf is a span of one trace that its name tells from all others.
func spanOf(name string) *tracepb.Span {
	id := fmt.Sprintf("%-8s", name)
	return &tracepb.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte(id[len(id)-8:]), Name: name, StartTimeUnixNano: 1, EndTimeUnixNano: 2}
}

func spansOf(t testing.TB, names ...string) (spans []*Span) {
	t.Helper()
	for _, name := range names {
		spans = append(spans, wired(t, spanOf(name)))
	}
	return spans
}

func wired(t testing.TB, span *tracepb.Span) *Span {
	t.Helper()
	b, err := proto.Marshal(span)
	must(t, err)
	return &Span{Wire: AppendSpan(nil, b), Of: origin}
}

var origin = &Origin{Resource: []byte{}, Scope: []byte{}}

func decoded(t testing.TB, s *Span) *tracepb.Span {
	t.Helper()
	span := new(tracepb.Span)
	must(t, proto.Unmarshal(s.Encoded(), span))
	return span
}

func namesOf(t testing.TB, spans []*Span) (names []string) {
	t.Helper()
	for _, s := range spans {
		names = append(names, decoded(t, s).Name)
	}
	return names
}

// leave leaves spans as a process does that ends, and returns the name of their log.
func leave(t testing.TB, s Spool, names ...string) string {
	t.Helper()
	l := s.NewLog(here, nil)
	must(t, l.Append(spansOf(t, names...), nil))
	if !l.Close("connection refused", nil) {
		t.Fatal(l.Err())
	}
	return l.name
}

// kill ends a process without a word: the system drops its lock.
func kill(t testing.TB, l *Log) {
	t.Helper()
	must(t, l.file.Close())
}

// take claims all logs, marks their spans as delivered, and returns their names.
func take(t testing.TB, s Spool) (names []string) {
	t.Helper()
	for c, err := range s.Claims(1000) {
		must(t, err)
		names = append(names, namesOf(t, c.Spans)...)
		must(t, c.Done(c.Spans))
		must(t, c.Close())
	}
	return names
}

func filesOf(t testing.TB, s Spool) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if !os.IsNotExist(err) {
		must(t, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// states has each state and how many spans are in it.
func states(t testing.TB, s Spool) (states []string) {
	t.Helper()
	entries, err := s.List()
	must(t, err)
	for _, e := range entries {
		states = append(states, fmt.Sprint(e.State, " ", e.Spans))
	}
	return states
}

// rejectedIn returns the names of the spans in files of rejected ones.
func rejectedIn(t testing.TB, s Spool) (names []string) {
	t.Helper()
	dir, err := s.enter(false)
	must(t, err)
	defer closeFolder(dir)
	for _, name := range filesOf(t, s) {
		if strings.HasSuffix(name, RejectedExt) {
			c, err := read(dir, name)
			must(t, err)
			names = append(names, namesOf(t, c.ended)...)
		}
	}
	return names
}
