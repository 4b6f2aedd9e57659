package spantee_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	spantee "github.com/spantee/spantee/cmd/spantee/lib"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/spool"
)

func fixture(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("../../../testdata/cursor/parallel-tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// session returns the fixture as a session of its own, so that it is a trace of its own.
func session(t *testing.T, n int) []byte {
	t.Helper()
	b := fixture(t)
	id := []byte(`"session_id":"`)
	i := bytes.Index(b, id) + len(id)
	old := b[i : i+bytes.IndexByte(b[i:], '"')]
	return bytes.ReplaceAll(b, old, fmt.Appendf(nil, "session-%d", n))
}

func newExporter(t *testing.T, o spantee.ExporterOptions) *spantee.Exporter {
	t.Helper()
	e, err := spantee.NewExporter(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

func newTracer(t *testing.T, o spantee.Options) *spantee.Tracer {
	t.Helper()
	tr, err := spantee.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// run traces a stream that comes in small pieces, and closes the Tracer.
func run(t *testing.T, ctx context.Context, e *spantee.Exporter, stream []byte) (*spantee.Receipt, error) {
	tr, err := spantee.New(t.Context(), spantee.Options{Exporter: e})
	if err != nil {
		t.Error(err)
		return new(spantee.Receipt), err
	}
	var out bytes.Buffer
	if _, err := io.CopyBuffer(struct{ io.Writer }{tr.Tee(&out)}, struct{ io.Reader }{bytes.NewReader(stream)}, make([]byte, 777)); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(out.Bytes(), stream) {
		t.Error("the stream was changed")
	}
	return tr.Close(ctx)
}

const agents = 200

func TestManyAgentsConcurrentSafe(t *testing.T) {
	r := receivertest.Start(t)
	for name, o := range map[string]spantee.ExporterOptions{
		"grpc": {Endpoint: r.GRPCEndpoint()}, "http": {Endpoint: r.HTTPEndpoint(), Protocol: "http/protobuf"},
		"spool": {Endpoint: r.GRPCEndpoint(), SpoolDir: filepath.Join(t.TempDir(), "spool")},
	} {
		before := len(r.Spans())
		e := newExporter(t, o)
		var delivered int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range agents {
			all.Go(func() {
				receipt, err := run(t, context.Background(), e, session(t, i))
				if err != nil || receipt.Delivered != receipt.Spans || !receipt.Succeeded || receipt.Tools == 0 {
					t.Errorf("%s: %v, %+v", name, err, receipt)
				}
				mu.Lock()
				defer mu.Unlock()
				delivered += receipt.Delivered
			})
		}
		all.Wait()
		if got := len(r.Spans()) - before; got != delivered || delivered == 0 {
			t.Errorf("%s: %d spans arrived, %d delivered", name, got, delivered)
		}
		for _, resource := range r.Resources() {
			if a := resource.Attributes[0]; len(resource.Attributes) != 1 || a.Key != "service.name" || a.Value.GetStringValue() != "cursor-agent" {
				t.Fatalf("%s: resource %v", name, resource)
			}
		}
	}
}

// Whatever the collector and the context do, Close says what became of each span.
func TestLossesAreReportedConcurrentSafe(t *testing.T) {
	ended := func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	gone := receivertest.Start(t)
	gone.Stop()
	hung := receivertest.Start(t)
	hung.Hang()
	agents := agents
	if os.Getenv("SPANTEE_THOROUGH") == "" {
		agents = 20
	}
	for name, test := range map[string]struct {
		endpoint string
		ctx      func() context.Context
	}{
		"no collector":      {gone.GRPCEndpoint(), soon},
		"a hung collector":  {hung.GRPCEndpoint(), soon},
		"a cancelled Close": {hung.GRPCEndpoint(), ended},
	} {
		for _, dir := range []string{"", filepath.Join(t.TempDir(), "spool")} {
			e := newExporter(t, spantee.ExporterOptions{Endpoint: test.endpoint, SpoolDir: dir})
			var spooled int
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range agents {
				all.Go(func() {
					receipt, err := run(t, test.ctx(), e, session(t, i))
					lost := receipt.Dropped + receipt.Rejected
					failed, ok := errors.AsType[*spantee.DeliveryError](err)
					switch {
					case !ok || failed.Lost != lost || failed.Cause == nil:
						t.Errorf("%s: %v, %+v", name, err, receipt)
					case receipt.Delivered+receipt.Spooled+lost != receipt.Spans || receipt.Delivered > 0:
						t.Errorf("%s: %d spans, %+v", name, receipt.Spans, receipt.Delivery)
					case dir == "" && lost != receipt.Spans:
						t.Errorf("%s: %d of %d spans are lost without a spool", name, lost, receipt.Spans)
					}
					mu.Lock()
					defer mu.Unlock()
					spooled += receipt.Spooled
				})
			}
			all.Wait()
			kept := 0
			entries, err := spool.Spool{Dir: dir}.List()
			for _, entry := range entries {
				kept += entry.Spans
			}
			if dir != "" && (err != nil || kept < spooled || spooled == 0) {
				t.Errorf("%s: %v, %d spans in the spool, %d said to be", name, err, kept, spooled)
			}
		}
	}
}

// A failing writer fails the agent's write, and what it took is traced.
func TestOnlyTheWriterFails(t *testing.T) {
	tr := newTracer(t, spantee.Options{})
	stream := fixture(t)
	w := &limited{room: len(stream) / 2}
	if n, err := tr.Tee(w).Write(stream); n != w.taken || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%d, %v", n, err)
	}
	receipt, err := tr.Close(t.Context())
	if err != nil || receipt.RunsTotal != 1 || receipt.Succeeded {
		t.Errorf("%v, %+v", err, receipt)
	}
	if n, err := tr.Write(stream); n != len(stream) || err != nil {
		t.Errorf("after Close: %d, %v", n, err)
	}
	if again, err := tr.Close(t.Context()); again != receipt || err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// A writer that says that it wrote more than it got is passed on like any other, and the
// stream is traced whole.
func TestAWriterThatMiscounts(t *testing.T) {
	tr := newTracer(t, spantee.Options{})
	stream := fixture(t)
	if n, err := tr.Tee(miscounting{}).Write(stream); n != len(stream)+1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if receipt, err := tr.Close(t.Context()); err != nil || receipt.RunsTotal != 1 || !receipt.Succeeded {
		t.Errorf("%v, %+v", err, receipt)
	}
}

type miscounting struct{}

func (miscounting) Write(p []byte) (int, error) { return len(p) + 1, nil }

type limited struct{ room, taken int }

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.room)
	l.room, l.taken = l.room-n, l.taken+n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func TestInvalidOptions(t *testing.T) {
	for _, o := range []spantee.Options{{Agent: "nobody"}, {Content: "some"}} {
		if _, err := spantee.New(t.Context(), o); !isOptionError(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []spantee.ExporterOptions{{Endpoint: "::"}, {Protocol: "smtp"}} {
		if _, err := spantee.NewExporter(o); !isOptionError(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func isOptionError(err error) bool {
	_, ok := errors.AsType[*spantee.OptionError](err)
	return ok
}

// The environment counts only if it is asked for.
func TestEnvironment(t *testing.T) {
	r := receivertest.Start(t)
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x")
	t.Setenv("TRACEPARENT", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if _, err := spantee.NewExporter(spantee.ExporterOptions{Environment: true}); err == nil {
		t.Error("the environment does not count")
	}
	if e, err := spantee.NewExporter(spantee.ExporterOptions{}); err != nil {
		t.Errorf("the environment counts: %v", err)
	} else {
		_ = e.Close(t.Context())
	}
	for _, environment := range []bool{false, true} {
		e := newExporter(t, spantee.ExporterOptions{Endpoint: r.GRPCEndpoint(), Protocol: "grpc", Environment: environment})
		if _, err := run(t, t.Context(), e, session(t, 1)); err != nil {
			t.Fatal(err)
		}
		resources := r.Resources()
		name := resources[len(resources)-1].Attributes[0].Value.GetStringValue()
		if want := map[bool]string{false: "cursor-agent", true: "shop"}[environment]; name != want {
			t.Errorf("service.name %q, want %q", name, want)
		}
	}
	for _, s := range r.Spans() {
		if fmt.Sprintf("%x", s.TraceId) == "0123456789abcdef0123456789abcdef" {
			t.Error("$TRACEPARENT counts")
		}
	}
	if files, _ := os.ReadDir(os.Getenv("XDG_STATE_HOME")); len(files) > 0 {
		t.Errorf("%v in the state folder", files)
	}
}
