package mapping_test

import (
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// TestConserved checks every fixture, split over many spans and whole: counts
// add up, siblings do not touch, children lie within their parents.
func TestConserved(t *testing.T) {
	for name, in := range fixtures(t) {
		for _, opts := range []mapping.Options{{}, {MaxSpanEvents: 3}, {Content: content.Full, MaxSpanEvents: 2}, {Deltas: mapping.DeltasMessage}} {
			spans, _ := feed{opts: opts}.spans(t, in)
			if err := mappingtest.Conserved(spans); err != nil {
				t.Errorf("%s with %+v: %v", short(name), opts, err)
			}
		}
	}
}

// TestCriticalPath walks Jaeger's critical path over every fixture.
func TestCriticalPath(t *testing.T) {
	walked := 0
	for name, in := range fixtures(t) {
		spans, _ := feed{}.spans(t, in)
		n, err := mappingtest.Covered(spans)
		if err != nil {
			t.Errorf("%s: %v", short(name), err)
		}
		walked += n
	}
	if walked < 30 {
		t.Errorf("%d roots walked", walked)
	}
}

// TestBackends checks what three backends would show of a trace with content.
func TestBackends(t *testing.T) {
	in := fixtures(t)["../testdata/cursor/fix-failing-test"]
	spans, _ := feed{opts: mapping.Options{Content: content.Full}}.spans(t, in)
	for backend, view := range map[string]mappingtest.View{
		"Jaeger": mappingtest.Jaeger(spans), "Langfuse": mappingtest.Langfuse(spans), "Phoenix": mappingtest.Phoenix(spans),
	} {
		t.Run(backend, func(t *testing.T) { checkView(t, backend, view, spans) })
	}
}

// types are the words of each backend for an agent, a model call and a tool.
var types = map[string][3]string{
	"Jaeger":   {"AGENT", "LLM_CALL", "TOOL_CALL"},
	"Langfuse": {"AGENT", "GENERATION", "TOOL"},
	"Phoenix":  {"AGENT", "LLM", "TOOL"},
}

func checkView(t *testing.T, backend string, view mappingtest.View, spans []*tracepb.Span) {
	t.Helper()
	want := types[backend]
	for _, s := range spans {
		shown := view.Of(s)
		operation := attr(s, "gen_ai.operation.name").GetStringValue()
		for i, op := range []string{"invoke_agent", "chat", "execute_tool"} {
			if operation == op && !strings.EqualFold(shown.Type, want[i]) {
				t.Errorf("%s is shown as %q, want %s", s.Name, shown.Type, want[i])
			}
		}
		if operation == "" && strings.Contains(strings.ToUpper(shown.Type), "AGENT") {
			t.Errorf("%s is shown as %q", s.Name, shown.Type)
		}
		if session := attr(s, "session.id").GetStringValue(); backend != "Jaeger" && shown.Session != session {
			t.Errorf("%s: session %q, want %q", s.Name, shown.Session, session)
		}
		if operation == "execute_tool" && (shown.Input == "" || shown.Output == "") {
			t.Errorf("%s: input %q, output %q", s.Name, shown.Input, shown.Output)
		}
		if operation == "chat" && shown.Output == "" {
			t.Errorf("%s: no output", s.Name)
		}
	}
	r := root(t, spans)
	if backend == "Jaeger" {
		return // its summary adds up model calls, and Cursor states no tokens per call
	}
	input, output := attr(r, "gen_ai.usage.input_tokens").GetIntValue(), attr(r, "gen_ai.usage.output_tokens").GetIntValue()
	got := view.Trace.Tokens
	if got.Output != output || got.Input+got.CacheRead+got.CacheWrite != input && got.Input != input {
		t.Errorf("tokens %+v, want %d in and %d out, once", got, input, output)
	}
	if shown := view.Of(r); !strings.Contains(shown.Output, "rounds the discount") && !strings.Contains(shown.Output, "pass") {
		t.Errorf("the output of the run is %q", shown.Output)
	}
}
