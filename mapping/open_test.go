package mapping_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping"
)

// A watched stream is one of which the open spans are asked for after every chunk.
type watched struct {
	emitted []*tracepb.Span
	open    [][]*tracepb.Span // after each chunk
	until   []int             // how many spans were emitted by then
	runs    []mapping.Run
	stats   mapping.Stats
}

// watch feeds a stream, a chunk a tick. end, if not nil, is what happens
// before Close.
func watch(t testing.TB, chunks [][]byte, opts mapping.Options, ask bool, end func(*mapping.Mapper)) (w watched) {
	t.Helper()
	at := now
	opts.Now = func() time.Time { return at }
	take := func(outputs iter.Seq[mapping.Output]) {
		for out := range outputs {
			if out.Span != nil {
				w.emitted = append(w.emitted, decode(t, out.Span))
			}
			if out.Ended != nil {
				w.runs = append(w.runs, *out.Ended)
			}
		}
	}
	m, err := mapping.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	peek := func() {
		before := m.Stats()
		open := openSpans(t, m)
		if m.Stats() != before {
			t.Errorf("Open changed the counts to %+v, were %+v", m.Stats(), before)
		}
		w.open, w.until = append(w.open, open), append(w.until, len(w.emitted))
	}
	if ask {
		peek()
	}
	for _, chunk := range chunks {
		take(m.Map(bytes.Clone(chunk)))
		if ask {
			peek()
		}
		at = at.Add(10 * time.Millisecond)
	}
	if end != nil {
		end(m)
	}
	take(m.Close(false))
	if open := openSpans(t, m); len(open) > 0 {
		t.Errorf("%d spans are open after Close", len(open))
	}
	w.stats = m.Stats()
	return w
}

// check checks what holds of the open spans of any stream: with what was
// emitted before they are whole traces, and what goes on keeps its ids.
func (w watched) check(t testing.TB) {
	t.Helper()
	ended := map[string]*tracepb.Span{}
	for _, s := range w.emitted {
		ended[string(s.TraceId)+string(s.SpanId)] = s
	}
	for i, open := range w.open {
		if len(w.open) > 300 && i%20 != 0 {
			continue // it takes the square of the stream
		}
		checkSpans(t, slices.Concat(w.emitted[:w.until[i]], open), 2048)
		for _, s := range open {
			if e := ended[string(s.TraceId)+string(s.SpanId)]; e != nil && !strings.HasPrefix(e.Name, strings.Fields(s.Name)[0]) {
				t.Errorf("%q has the id of %q", s.Name, e.Name)
			}
		}
	}
	checkSpans(t, w.emitted, 2048)
}

// TestOpenChangesNothing asks for the open spans after every line of every
// fixture, and after other chunks: the same spans come out, to the byte.
func TestOpenChangesNothing(t *testing.T) {
	t.Parallel()
	tried := oneIn(10)
	streams := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		in := streams[name]
		t.Run(short(name), func(t *testing.T) {
			lines := bytes.SplitAfter(in, []byte("\n"))
			ways := [][][]byte{lines}
			if len(in) < 20_000 {
				ways = append(ways, slices.Collect(slices.Chunk(in, 101)))
			}
			if len(in) < 1_000 {
				ways = append(ways, slices.Collect(slices.Chunk(in, 1)))
			}
			for _, chunks := range ways {
				for i, opts := range []mapping.Options{{}, {Deltas: mapping.DeltasMessage, MaxSpanEvents: 5}, {Process: agentProcess()}} {
					if len(lines) > 150 && i > 0 {
						break // one way to ask will do
					}
					if !tried() {
						continue
					}
					want := watch(t, chunks, opts, false, nil)
					got := watch(t, chunks, opts, true, nil)
					if !bytes.Equal(encode(t, got.emitted), encode(t, want.emitted)) {
						t.Errorf("other spans than if nobody asks: %s", cmp.Diff(treetest.Golden(want.emitted), treetest.Golden(got.emitted)))
					}
					if diff := cmp.Diff(want.runs, got.runs); diff != "" || got.stats != want.stats {
						t.Errorf("other runs than if nobody asks (-want +got)\n%s", diff)
					}
					got.check(t)
				}
			}
		})
	}
}

// TestOpenReplay asks for the open spans of recordings without timestamps, whose times
// all change when a run ends.
func TestOpenReplay(t *testing.T) {
	t.Parallel()
	stamps := regexp.MustCompile(`,"(timestamp_ms|timestamp)":("[^"]*"|\d+)`)
	tried := oneIn(17)
	streams := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		if !tried() {
			continue
		}
		in := streams[name]
		agent, _, _ := strings.Cut(short(name), "/")
		opts := mapping.Options{Agent: agent, Source: mapping.Recording, Written: now, MaxSpanEvents: 100}
		lines := bytes.SplitAfter(stamps.ReplaceAll(in, nil), []byte("\n"))
		want := watch(t, lines, opts, false, nil)
		got := watch(t, lines, opts, true, nil)
		if !bytes.Equal(encode(t, got.emitted), encode(t, want.emitted)) {
			t.Errorf("%s: other spans than if nobody asks", short(name))
		}
	}
}

// What is open when spantee is killed ends as killed, and as it stood.
func TestOpenSpans(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	for name, tc := range map[string]struct {
		in   []byte
		want []string
	}{
		"nothing came":   {nil, nil},
		"a run began":    {stream(initLine), []string{"chat GPT-5 killed", "invoke_agent cursor-agent killed"}},
		"a turn is open": {stream(initLine, thinking(at(1))), []string{"chat GPT-5 killed", "invoke_agent cursor-agent killed"}},
		"a tool runs":    {stream(initLine, tool(at(1), "started", "a", "")), []string{"execute_tool read killed", "chat GPT-5", "invoke_agent cursor-agent killed"}},
		"between turns": {
			stream(initLine, tool(at(1), "started", "a", ""), tool(at(1.005), "completed", "a", "")),
			[]string{"chat GPT-5", "chat GPT-5 killed", "invoke_agent cursor-agent killed"},
		},
		"all has ended": {stream(initLine, thinking(at(1)), result(time.Second)), nil},
		"something runs in the background": {
			stream(initLine,
				`{"type":"tool_call","subtype":"started","call_id":"x","tool_call":{"shellToolCall":{"args":{}}}}`,
				`{"type":"tool_call","subtype":"completed","call_id":"x","tool_call":{"shellToolCall":{"args":{},"result":{"success":{"shellId":7},"isBackground":true}}}}`,
				result(time.Second)),
			[]string{"background shell"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, [][]byte{tc.in}, mapping.Options{}, true, nil)
			w.check(t)
			var got []string
			for _, s := range w.open[1] {
				got = append(got, strings.TrimSpace(s.Name+" "+attr(s, "error.type").GetStringValue()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("open (-want +got)\n%s", diff)
			}
		})
	}
}

// The events of an open turn are those it has so far. A first text is known for
// what it is when another line follows.
func TestOpenTurnHasItsEvents(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	w := watch(t, [][]byte{stream(initLine), stream(thinking(at(1))), stream(thinking(at(2))), stream(text(at(3), "b")), stream(thinking(at(4))), stream(result(time.Second))}, mapping.Options{}, true, nil)
	w.check(t)
	for i, want := range []int{0, 0, 1, 2, 2, 4} {
		events := -1
		for _, s := range w.open[i] {
			if strings.HasPrefix(s.Name, "chat") {
				events = len(s.Events)
			}
		}
		if events != want && i > 0 {
			t.Errorf("after %d lines %d events, want %d", i, events, want)
		}
	}
}

// A kill after any line leaves ids that the trace would have had, from its
// first stamp on, which its ids are made of.
func TestOpenSpansKeepTheirTrace(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	w := watch(t, bytes.SplitAfter(stream(initLine, tool(at(1), "started", "a", ""), tool(at(2), "completed", "a", ""), result(2*time.Second)), []byte("\n")),
		mapping.Options{}, true, nil)
	last := root(t, w.emitted)
	for i, open := range w.open[2:4] {
		if r := root(t, open); !bytes.Equal(r.TraceId, last.TraceId) || !bytes.Equal(r.SpanId, last.SpanId) {
			t.Errorf("after line %d the root is %x of trace %x, and in the end %x of %x", i+2, r.SpanId, r.TraceId, last.SpanId, last.TraceId)
		}
	}
}

// What a sub-agent in the background left running is open when the sub-agent has ended.
func TestOpenWorkOfAnEndedSubagent(t *testing.T) {
	launched := func(id, parent, outcome string) string {
		return `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"ok"}]},"tool_use_result":` + outcome + `,"uuid":"u"` + parent + `}`
	}
	const nested = `,"parent_tool_use_id":"task"`
	w := watch(t, [][]byte{stream(
		claudeInit,
		claudeSays(`{"type":"tool_use","id":"task","name":"Task","input":{}}`, ""),
		launched("task", "", `{"status":"async_launched","agentId":"a1"}`),
		claudeSays(`{"type":"tool_use","id":"shell","name":"Bash","input":{}}`, nested),
		launched("shell", nested, `{"backgroundTaskId":"b1"}`),
		`{"type":"system","subtype":"task_notification","task_id":"a1","status":"completed","uuid":"u"}`,
	)}, mapping.Options{Agent: "claude"}, true, nil)
	w.check(t)
	var names []string
	for _, s := range w.open[1] {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, "background Bash") {
		t.Errorf("open are %q", names)
	}
}

// Whoever keeps the open spans for the case of a kill is told when there are
// other roots, or roots of other ids: one kept before would be nobody's.
func TestGenerationTellsOfOtherRoots(t *testing.T) {
	t.Parallel()
	tried := oneIn(5)
	for name, in := range fixtures(t) {
		if !tried() {
			continue
		}
		m, err := mapping.New(mapping.Options{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		generation, before := 0, ""
		for i, line := range bytes.SplitAfter(in, []byte("\n")) {
			m.Map(line)
			var ids []string
			for _, r := range roots(openSpans(t, m)) {
				ids = append(ids, fmt.Sprintf("%x-%x", r.TraceId, r.SpanId))
			}
			slices.Sort(ids)
			after := strings.Join(ids, " ")
			if after != before && m.Stats().Generation == generation {
				t.Errorf("%s, line %d: other roots without another generation", name, i+1)
			}
			generation, before = m.Stats().Generation, after
		}
	}
}
