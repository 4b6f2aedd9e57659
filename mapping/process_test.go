package mapping_test

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

func agentProcess() *mapping.Process {
	return &mapping.Process{Key: [32]byte{1, 2, 3}, Agent: agent.OfCommand([]string{"cursor-agent"}), Executable: "cursor-agent", PID: 4711}
}

func roots(spans []*tracepb.Span) (roots []*tracepb.Span) {
	for _, s := range spans {
		if s.Name == "invoke_agent cursor-agent" {
			roots = append(roots, s)
		}
	}
	return roots
}

// How a process printed and ended, and what its roots say of it.
func TestProcess(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	whole := []string{initLine, tool(at(0.001), "started", "a", ""), tool(at(0.002), "completed", "a", ""), result(2 * time.Millisecond)}
	failed := append(slices.Clone(whole[:3]), `{"type":"result","subtype":"error","is_error":true,"duration_ms":2}`)
	for name, tc := range map[string]struct {
		lines  []string
		code   int
		signal string
		want   []string // the error types of the roots
	}{
		"silent, and well":        {nil, 0, "", []string{""}},
		"silent, and not":         {nil, 1, "", []string{"1"}},
		"silent, and killed":      {nil, 0, "SIGKILL", []string{"SIGKILL"}},
		"no JSON at all":          {[]string{"not logged in"}, 1, "", []string{"1"}},
		"a run, and well":         {whole, 0, "", []string{""}},
		"a run, and not":          {whole, 1, "", []string{"1"}},
		"a run, and killed":       {whole, 0, "SIGKILL", []string{"SIGKILL"}},
		"incomplete, and well":    {whole[:2], 0, "", []string{"incomplete"}},
		"incomplete, and not":     {whole[:2], 137, "", []string{"137"}},
		"incomplete, and killed":  {whole[:2], 0, "SIGTERM", []string{"SIGTERM"}},
		"a failed run, and not":   {failed, 1, "", []string{"error"}},
		"two runs, and well":      {slices.Concat(whole, whole), 0, "", []string{"", ""}},
		"two runs, and not":       {slices.Concat(whole, whole), 1, "", []string{"", "1"}},
		"two runs, one is broken": {slices.Concat(whole, whole[:2]), 0, "", []string{"", "incomplete"}},
		"two at once":             {slices.Concat(whole[:2], []string{`{"type":"system","subtype":"init","apiKeySource":"login","permissionMode":"default","model":"GPT-5","session_id":"other"}`}), 0, "", []string{"incomplete", "incomplete"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, parent := range []trace.SpanContext{{}, parentContext()} {
				for _, ask := range []bool{false, true} {
					var want trace.SpanContext
					var chunks [][]byte
					for _, l := range tc.lines {
						chunks = append(chunks, stream(l))
					}
					ended := func(m *mapping.Mapper) { m.SetExit(tc.code, tc.signal, "") }
					opts := mapping.Options{Process: agentProcess(), Parent: parent}
					w := watch(t, chunks, opts, ask, ended)
					w.check(t)
					opts.Now = func() time.Time { return now }
					m, err := mapping.New(opts)
					if err != nil {
						t.Fatal(err)
					}
					want = m.Root()

					all := roots(w.emitted)
					var got []string
					for i, r := range all {
						got = append(got, attr(r, "error.type").GetStringValue())
						if i > 0 && bytes.Equal(r.SpanId, all[0].SpanId) {
							t.Error("two roots have one id")
						}
						if pid := attr(r, "process.pid").GetIntValue(); pid != 4711 || attr(r, "process.executable.name").GetStringValue() != "cursor-agent" {
							t.Errorf("of process %d", pid)
						}
						code, has := attr(r, "process.exit.code"), i == len(all)-1 && tc.signal == ""
						if (code != nil) != has || has && int(code.GetIntValue()) != tc.code {
							t.Errorf("exit code %v of root %d", code, i)
						}
						if (r.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != (got[i] != "") {
							t.Errorf("status %v of %q", r.Status, got[i])
						}
					}
					if diff := cmp.Diff(tc.want, got); diff != "" {
						t.Errorf("roots (-want +got)\n%s", diff)
					}
					if r := all[0]; !want.IsSampled() || trace.TraceID(r.TraceId) != want.TraceID() || trace.SpanID(r.SpanId) != want.SpanID() || r.TraceState != want.TraceState().String() {
						t.Errorf("the root is %x of %x, and was to be %v", r.SpanId, r.TraceId, want)
					}
					if parent.IsValid() && trace.SpanID(all[0].ParentSpanId) != parent.SpanID() {
						t.Errorf("its parent is %x", all[0].ParentSpanId)
					}
					if len(w.runs) != len(all) {
						t.Errorf("told of %d runs, %d roots", len(w.runs), len(all))
					}
				}
			}
		})
	}
}

func parentContext() trace.SpanContext {
	state, _ := trace.ParseTraceState("vendor=1")
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6}, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true,
	})
}

// A process has finished after a result, unless another run is open or works in the background.
func TestFinished(t *testing.T) {
	file, err := os.ReadFile("../testdata/cursor/background-of-earlier-run.jsonl") // two runs; the first one's task ends in the second
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(file, []byte("\n"))
	for name, tc := range map[string]struct {
		lines     [][]byte
		errorType string
		want      bool
	}{
		"silent":                    {nil, "", false},
		"began":                     {lines[:1], "", false},
		"background":                {lines[:8], "", false},
		"a second run":              {lines[:13], "", false},
		"the results of both":       {lines, "", true},
		"a lone result":             {[][]byte{[]byte(initLine + "\n"), []byte(result(time.Millisecond) + "\n")}, "", true},
		"a failure":                 {[][]byte{[]byte(initLine + "\n"), []byte(`{"type":"result","subtype":"error","is_error":true,"duration_ms":2}` + "\n")}, "error", true},
		"another run after success": {[][]byte{[]byte(initLine + "\n"), []byte(result(time.Millisecond) + "\n"), []byte(initLine + "\n")}, "", false},
	} {
		m, err := mapping.New(mapping.Options{Process: agentProcess()})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range tc.lines {
			for range m.Map(line) {
			}
		}
		if errorType, ok := m.Finished(); ok != tc.want || errorType != tc.errorType {
			t.Errorf("%s: %q, %v", name, errorType, ok)
		}
	}
}

// The first root begins with the process, and the last ends with it; those
// between are as long as their runs, for whoever asks before as well.
func TestProcessTimes(t *testing.T) {
	run := func(session string) []string {
		return []string{
			`{"type":"system","subtype":"init","apiKeySource":"login","permissionMode":"default","model":"GPT-5","session_id":"` + session + `"}`,
			`{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"session_id":"` + session + `"}`,
		}
	}
	var chunks [][]byte
	for _, l := range slices.Concat(run("a"), run("b"), []string{`{"type":"system","subtype":"init","apiKeySource":"login","permissionMode":"default","model":"GPT-5","session_id":"c"}`}) {
		chunks = append(chunks, stream(l))
	}
	w := watch(t, chunks, mapping.Options{Process: agentProcess()}, true, nil)
	w.check(t)
	wantTimes(t, roots(w.emitted), now, "invoke_agent cursor-agent 0.000-0.010", "invoke_agent cursor-agent 0.020-0.030", "invoke_agent cursor-agent 0.040-0.050")
	wantTimes(t, roots(w.open[len(w.open)-1]), now, "invoke_agent cursor-agent 0.000-0.010", "invoke_agent cursor-agent 0.020-0.030", "invoke_agent cursor-agent 0.040-0.040")
}

// The first root says how long its agent took to print a line, in a pipe as behind exec.
func TestStartup(t *testing.T) {
	run := []string{initLine, result(time.Millisecond)}
	chunks := [][]byte{nil, nil, nil, stream(run...), stream(run...)} // 10 ms apart
	for name, process := range map[string]*mapping.Process{"exec": agentProcess(), "a pipe": nil} {
		w := watch(t, chunks, mapping.Options{Process: process}, false, nil)
		for i, root := range roots(w.emitted) {
			if got, want := attr(root, "spantee.startup_ms").GetIntValue(), []int64{30, 0}[i]; got != want {
				t.Errorf("%s: root %d began %d ms after the process, want %d", name, i, got, want)
			}
		}
		if n := len(roots(w.emitted)); n != 2 {
			t.Errorf("%s: %d roots", name, n)
		}
	}
}

// While a process lives its roots are open, whatever its runs say.
func TestRootsOfAProcessAreOpenToTheEnd(t *testing.T) {
	w := watch(t, [][]byte{stream(initLine), stream(result(time.Millisecond))}, mapping.Options{Process: agentProcess()}, true,
		func(m *mapping.Mapper) { m.SetExit(0, "", "") })
	for i, open := range w.open {
		all := roots(open)
		if len(all) != 1 || !bytes.Equal(all[0].SpanId, roots(w.emitted)[0].SpanId) {
			t.Errorf("%d roots are open after %d lines", len(all), i)
		}
		if e := attr(all[0], "error.type").GetStringValue(); (e == "killed") != (i < 2) {
			t.Errorf("after %d lines the root ends as %q", i, e)
		}
	}
}
