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

// However many sessions are open at once, each is one trace with all its calls, and
// no span is without its root.
func TestManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	many := 1_500
	if thorough {
		many = 12_000
	}
	for _, sessions := range []int{500, many} {
		for name, opts := range map[string]mapping.Options{"replayed": {Replay: recorded}, "live": {}, "executed": {Process: agentProcess()}} {
			got := census(t, interleaved(sessions, 2), opts, "spantee.start_missing", "gen_ai.tool.call.id", "error.type")
			results := 0
			if sessions > 1_000 {
				results = sessions // the root of an evicted run is emitted before its result
			}
			want := map[string]int{
				"traces": sessions, "roots": sessions, "invoke_agent": sessions + results, "chat": 2 * sessions,
				"execute_tool": 2 * sessions, "execute_tool with gen_ai.tool.call.id": 2 * sessions,
			}
			if results > 0 {
				want["invoke_agent with error.type"] = sessions
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d sessions, %s (-want +got)\n%s", sessions, name, diff)
			}
		}
	}
}

// callers returns the starts of calls of 1,500 sessions, which evict all others.
func callers(from int) []byte {
	var b strings.Builder
	for i := range 1_500 {
		fmt.Fprintf(&b, `{"type":"tool_call","subtype":"started","call_id":"x","tool_call":{"readToolCall":{}},"session_id":"s%d"}`+"\n", from+i)
	}
	return []byte(b.String())
}

// Of several calls in flight the newest is remembered when its run is evicted. The
// end of another is a call of the same trace, and a call that never ends is one too.
func TestCallsOfAnEvictedRun(t *testing.T) {
	lines := []string{initLine, tool(now, "started", "a", ""), tool(now, "started", "b", ""), tool(now, "started", "c", "")}
	after := []string{tool(now.Add(1e9), "completed", "a", ""), tool(now.Add(2e9), "completed", "c", "")}
	in := slices.Concat(stream(lines...), callers(0), stream(after...), callers(1_500))
	got := census(t, in, mapping.Options{Replay: recorded}, "spantee.start_missing", "error.type")
	want := map[string]int{
		"traces": 3_001, "roots": 3_001, "invoke_agent": 3_001, "chat": 3_001, "execute_tool": 3_004,
		"execute_tool with spantee.start_missing": 1, "execute_tool with error.type": 3_002,
		"invoke_agent with error.type": 3_001,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// If a run is evicted twice, a call that is still in flight ends at the second eviction
// if a later call is in flight.
func TestCallsOfARunEvictedTwice(t *testing.T) {
	in := slices.Concat(
		stream(initLine, tool(now, "started", "a", "")), callers(0),
		stream(tool(now.Add(1e9), "started", "b", "")), callers(1_500),
		stream(tool(now.Add(2e9), "completed", "b", "")))
	got := census(t, in, mapping.Options{Replay: recorded}, "spantee.start_missing", "gen_ai.tool.call.id")
	want := map[string]int{
		"traces": 3_001, "roots": 3_001, "invoke_agent": 3_001, "chat": 3_002, "execute_tool": 3_002,
		"execute_tool with gen_ai.tool.call.id": 3_002,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Deltas that go on after an eviction are in the trace of their session, also among
// another agent's lines.
func TestDeltasOfAnEvictedRun(t *testing.T) {
	delta := func(second int) string {
		return stamped(now.Add(time.Duration(second)*time.Second),
			fmt.Sprintf(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"words %d"}]}}`, second))
	}
	var others strings.Builder
	for i := range 1_100 {
		fmt.Fprintf(&others, `{"type":"system","subtype":"init","session_id":"c%d","tools":[],"model":"opus","uuid":"u%d"}`+"\n", i, i)
	}
	in := slices.Concat(
		stream(initLine, delta(0), delta(1), delta(2), delta(3)), []byte(others.String()),
		stream(delta(4), delta(5), result(6*time.Second)))
	got := census(t, in, mapping.Options{Replay: recorded}, "gen_ai.request.stream")
	delete(got, "chat") // of the others
	if want := map[string]int{"traces": 1_101, "roots": 1_101, "invoke_agent": 1_102, "chat with gen_ai.request.stream": 2}; !cmp.Equal(want, got) {
		t.Errorf("(-want +got)\n%s", cmp.Diff(want, got))
	}
}

// A killed spantee leaves the calls in flight of all sessions, evicted or not.
func TestOpenCallsOfEvictedRuns(t *testing.T) {
	calls := func(spans []*tracepb.Span) map[string]bool {
		ids := map[string]bool{}
		for _, s := range spans {
			if strings.HasPrefix(s.Name, "execute_tool") {
				ids[string(s.TraceId)+string(s.SpanId)] = true
			}
		}
		return ids
	}
	m, err := mapping.New(mapping.Options{Redactor: redactor(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	decoded(t, m.Map(callers(0)))
	open, ended := calls(openSpans(t, m)), calls(decoded(t, m.Close(false)))
	if len(open) != 1_500 || !cmp.Equal(open, ended) {
		t.Errorf("%d calls are open, %d end", len(open), len(ended))
	}
}
