package mapping_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

// interleaved returns a stream of sessions that take turns: all begin, each calls a
// tool in every round, and all end.
func interleaved(sessions, rounds int) []byte {
	var b strings.Builder
	at := now
	line := func(session int, l string) {
		at = at.Add(time.Millisecond)
		fmt.Fprintf(&b, "%s,\"session_id\":\"s%d\"}\n", strings.TrimSuffix(l, "}"), session)
	}
	for s := range sessions {
		line(s, initLine)
	}
	for r := range rounds {
		for _, subtype := range []string{"started", "completed"} {
			for s := range sessions {
				line(s, tool(at, subtype, fmt.Sprintf("call-%d-%d", s, r), fmt.Sprintf("req-%d-abcd", r)))
			}
		}
	}
	for s := range sessions {
		line(s, result(time.Minute))
	}
	return []byte(b.String())
}

// census counts the spans of a stream by their names, and its traces, roots, orphans
// and spans with an attribute.
func census(t *testing.T, in []byte, opts mapping.Options, seen ...string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	ids, traces := map[string]bool{}, map[string]bool{}
	var parents []string
	at := now
	opts.Redactor, opts.Now = redactor(), func() time.Time { return at }
	take := func(s *tracepb.Span) {
		counts[strings.Fields(s.Name)[0]]++
		for _, key := range seen {
			if attr(s, key) != nil {
				counts[strings.Fields(s.Name)[0]+" with "+key]++
			}
		}
		if ids[string(s.TraceId)+string(s.SpanId)] {
			counts["repeated ids"]++
		}
		ids[string(s.TraceId)+string(s.SpanId)] = true
		traces[string(s.TraceId)] = true
		if len(s.ParentSpanId) == 0 {
			counts["roots"]++
		} else {
			parents = append(parents, string(s.TraceId)+string(s.ParentSpanId))
		}
	}
	m, err := mapping.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	feed := func(in []byte) {
		for chunk := range slices.Chunk(in, 64<<10) {
			for _, s := range decoded(t, m.Map(chunk)) {
				take(s)
			}
			at = at.Add(10 * time.Millisecond)
		}
	}
	feed(in[:len(in)/2])
	open := map[string]bool{}
	var openParents []string
	for _, s := range openSpans(t, m) {
		open[string(s.TraceId)+string(s.SpanId)] = true
		if len(s.ParentSpanId) > 0 {
			openParents = append(openParents, string(s.TraceId)+string(s.ParentSpanId))
		}
	}
	for _, p := range openParents {
		if !ids[p] && !open[p] {
			counts["open orphans"]++
		}
	}
	feed(in[len(in)/2:])
	for _, s := range decoded(t, m.Close(false)) {
		take(s)
	}
	counts["traces"] = len(traces)
	for _, p := range parents {
		if !ids[p] {
			counts["orphans"]++
		}
	}
	return counts
}

// Up to a limit, each of the sessions that are open at once is one trace with all its calls.
func TestManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	const sessions = 500
	for name, opts := range map[string]mapping.Options{"replayed": {Source: mapping.Recording, Written: recorded}, "live": {}, "executed": {Process: agentProcess()}} {
		got := census(t, interleaved(sessions, 2), opts, "spantee.start_missing", "gen_ai.tool.call.id", "error.type")
		want := map[string]int{
			"traces": sessions, "roots": sessions, "invoke_agent": sessions, "chat": 2 * sessions,
			"execute_tool": 2 * sessions, "execute_tool with gen_ai.tool.call.id": 2 * sessions,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// Beyond 16 MiB, the sessions that have been silent for longest end, which their roots say, and
// the rest of their runs begins no others. No span is without its root, and none has another's id.
func TestTooManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	sessions := 3_000
	if thorough {
		sessions = 20_000
	}
	for name, opts := range map[string]mapping.Options{"replayed": {Source: mapping.Recording, Written: recorded}, "live": {}, "executed": {Process: agentProcess()}} {
		const early = "invoke_agent with spantee.ended_early"
		got := census(t, interleaved(sessions, 2), opts, "spantee.ended_early")
		delete(got, "chat") // in a recording, nothing says how long a run of one line waited for its model
		if got[early] < sessions/3 || got[early] >= sessions {
			t.Errorf("%s: %d of %d runs ended early", name, got[early], sessions)
		}
		if calls := got["execute_tool"] - 2*(sessions-got[early]); calls < 0 || calls > got[early] { // some were open when their runs ended
			t.Errorf("%s: %d calls of runs that ended early", name, calls)
		}
		delete(got, "execute_tool")
		want := map[string]int{
			"traces": sessions, "roots": sessions, "invoke_agent": sessions, early: got[early],
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// What runs hold counts, not how many they are.
func TestFewSessionsThatHoldMuch(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	argument := strings.Repeat("0123456789 ", 20<<10)
	for i := range 100 {
		fmt.Fprintf(&b, `{"type":"system","subtype":"init","session_id":"s%d"}`+"\n", i)
		fmt.Fprintf(&b, `{"type":"tool_call","subtype":"started","call_id":"x","tool_call":{"readToolCall":{"args":{"path":%q}}},"session_id":"s%d"}`+"\n", argument, i)
	}
	_, m := feed{opts: mapping.Options{Content: content.Full, MaxAttributeBytes: mapping.MaxAttribute}}.spans(t, []byte(b.String()))
	if got := m.Stats().Evicted; got < 60 || got >= 100 {
		t.Errorf("%d of 100 sessions with calls of 220 KB were evicted", got)
	}
}

// callers returns the starts of calls of 3,000 sessions, which evict all others.
func callers(from int) []byte {
	var b strings.Builder
	for i := range 3_000 {
		fmt.Fprintf(&b, `{"type":"tool_call","subtype":"started","call_id":"x","tool_call":{"readToolCall":{}},"session_id":"s%d"}`+"\n", from+i)
	}
	return []byte(b.String())
}

// What is left of a run that was evicted is in no trace. What was open ended incomplete with the
// session.
func TestSessionAfterItsEviction(t *testing.T) {
	in := slices.Concat(
		stream(initLine, tool(now, "started", "a", "")), callers(0),
		stream(tool(now.Add(1e9), "started", "b", ""), tool(now.Add(2e9), "completed", "b", ""), result(2*time.Second)))
	got := census(t, in, mapping.Options{Source: mapping.Recording, Written: recorded}, "error.type")
	want := map[string]int{
		"traces": 3_001, "roots": 3_001, "invoke_agent": 3_001, "chat": 3_001, "execute_tool": 3_001,
		"execute_tool with error.type": 3_001, "invoke_agent with error.type": 3_001,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The result of a run that was evicted begins no other, and neither does the agent's next run
// go on with it.
func TestResultAfterItsEviction(t *testing.T) {
	in := slices.Concat(stream(initLine, tool(now, "started", "a", "")), callers(0), stream(result(time.Second)), stream(initLine, result(time.Second)))
	got := census(t, in, mapping.Options{Source: mapping.Recording, Written: recorded}, "spantee.start_missing")
	if got["roots"] != 3_002 || got["invoke_agent with spantee.start_missing"] != 0 {
		t.Error(got)
	}
}
