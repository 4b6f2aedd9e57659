package tree

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A trace is drawn once its root has come and something else follows.
func TestWriterDrawsCompleteTraces(t *testing.T) {
	a, b := sample{trace: 0xaa}, sample{trace: 0xbb}
	a.span(2, 1, "chat GPT-5", 0, 1000)
	a.span(1, 0, "invoke_agent cursor-agent", 0, 1000)
	a.span(3, 1, "background shell", 500, 2000)
	b.span(2, 1, "chat Auto", 500, 4000)
	b.span(1, 0, "invoke_agent cursor-agent", 500, 4000)

	var out bytes.Buffer
	w := NewWriter(&out, Style{})
	step := func(span *tracepb.Span, want ...string) {
		t.Helper()
		w.Export(runs.Of(span))
		var got []string
		for _, id := range []string{"4baa", "4bbb"} {
			if strings.Contains(out.String(), id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("drawn %q, want %q", got, want)
		}
	}
	step(a.spans[0])
	step(b.spans[0])
	step(a.spans[1])
	step(a.spans[2]) // the root was there, but this belongs to it
	step(b.spans[1], "4baa")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want := render(Style{}, a.spans) + "\n" + render(Style{}, b.spans); out.String() != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, out.String()))
	}
}

// Background work that ends after its trace was drawn is no second trace.
func TestWriterDrawsLateSpans(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, Style{})
	a, b := sample{trace: 0xaa}, sample{trace: 0xbb}
	a.span(1, 0, "invoke_agent cursor-agent", 0, 1000)
	b.span(1, 0, "invoke_agent cursor-agent", 1000, 2000)
	a.span(2, 1, "background shell", 500, 3000, fails("timeout", ""))
	for _, span := range []*tracepb.Span{a.spans[0], b.spans[0], a.spans[1]} {
		w.Export(runs.Of(span))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := render(Style{}, a.spans[:1]) + "\n" + render(Style{}, b.spans) +
		"\ntrace 4b4b4b4b4b4b4b4b4b4b4b4b4b4b4baa, after it was drawn\nbackground shell · 2.50s · ✗ timeout\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A nested agent that ends before its run does is not taken for the run's root.
func TestWriterWaitsForTheRunsRoot(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, Style{})
	nested, other := sample{trace: 1}, sample{trace: 2}
	nested.span(3, 2, "invoke_agent explore", 0, 500, func(s *tracepb.Span) { s.Flags = 0x101 })
	nested.span(1, 99, "invoke_agent cursor-agent", 0, 1000, func(s *tracepb.Span) { s.Flags = 0x301 })
	other.span(2, 1, "chat Auto", 0, 10)
	w.Export(runs.Of(nested.spans[0]))
	w.Export(runs.Of(other.spans[0]))
	if out.Len() > 0 {
		t.Fatalf("drawn before its root came:\n%s", out.String())
	}
	w.Export(runs.Of(nested.spans[1]))
	w.Export(runs.Of(other.spans[0]))
	if got := out.String(); !strings.Contains(got, "\ncursor-agent ") || !strings.Contains(got, "\n└─ explore ") {
		t.Errorf("not drawn whole:\n%s", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// However many spans and events a trace has, what is kept of it is bounded.
func TestWriterIsBounded(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, Style{})
	s := sample{trace: 30}
	s.span(1, 0, "invoke_agent cursor-agent", 0, 1_000_000)
	s.span(2, 1, "execute_tool shell", 0, 1, attr(semconv.ProcessExitCode, 9), attr(semconv.ProcessCommandLine, strings.Repeat("x", 100_000)), fails("failure", ""))
	s.span(3, 1, "chat Auto", 0, 900_000, attr(semconv.TextDeltas, 1000), streams("text.delta", 1000, 0, 900_000))
	for i := range 50_000 {
		s.span(i+4, 1, "execute_tool read", i, i+2)
	}
	for _, span := range s.spans {
		w.Export(runs.Of(span))
		if n := len(w.traces[0].nodes); n > maxNodes {
			t.Fatalf("%d spans kept", n)
		}
	}
	for _, n := range w.traces[0].nodes {
		if kept := len(n.id) + len(n.parentID) + len(n.title) + len(n.failure) + len(n.executable) + len(n.about) + len(n.folder); kept > 1000 {
			t.Errorf("%d bytes kept of a span", kept)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"50,001 tools · 1 failed", "✗ exit 9", "1,000 deltas", "… 49,803 shorter spans not shown, none failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%.2000s", want, out.String())
		}
	}
}

func TestWriterConcurrentSafe(t *testing.T) {
	w := NewWriter(io.Discard, Style{})
	var wg sync.WaitGroup
	for i := range 4 {
		s := sample{trace: byte(i)}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 1000)
		wg.Go(func() {
			w.Export(runs.Of(s.spans[0]))
			w.Close()
		})
	}
	wg.Wait()
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestWriterReportsItsWriter(t *testing.T) {
	w := NewWriter(brokenWriter{}, Style{})
	for _, span := range session() {
		w.Export(runs.Of(span))
	}
	if err := w.Close(); err == nil || err.Error() != "broken" {
		t.Errorf("got %v", err)
	}
}
