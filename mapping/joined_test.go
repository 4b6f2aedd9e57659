package mapping_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

// A joinedStream is a stream whose lines come one a second, with the logs that are there when
// it ends.
type joinedStream struct {
	lines   []string
	start   time.Time
	tick    time.Duration
	process *mapping.Process
	logs    map[string]string // by path
}

// root maps the stream and returns its last root.
func (s joinedStream) root(t *testing.T) *tracepb.Span {
	t.Helper()
	spans := s.spans(t)
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool {
		return strings.HasPrefix(s.Name, "invoke_agent") && len(s.ParentSpanId) == 0
	})
	if i < 0 {
		t.Fatal("no root")
	}
	return spans[i]
}

// spans maps the stream.
func (s joinedStream) spans(t *testing.T) []*tracepb.Span {
	t.Helper()
	now := s.start
	m, err := mapping.New(mapping.Options{
		Now: func() time.Time { return now }, Process: s.process,
		ReadLog: func(_ agent.Folders, pattern string) []byte {
			for name, log := range s.logs {
				if ok, _ := path.Match(pattern, name); ok {
					return []byte(log)
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for _, line := range s.lines {
		spans = append(spans, decoded(t, m.Map([]byte(line)))...)
		now = now.Add(s.tick)
	}
	return append(spans, decoded(t, m.Close(false))...)
}

// tokens returns the totals of the run and of the session, "unknown" for those that are not
// stated.
func tokensOf(root *tracepb.Span) string {
	texts := []string{"unknown", "unknown"}
	for _, prefix := range []string{"gen_ai.usage.", "spantee.usage."} {
		if in := attr(root, prefix+"input_tokens"); in != nil {
			texts[0] = fmt.Sprintf("%d/%d", in.GetIntValue(), attr(root, prefix+"output_tokens").GetIntValue())
		}
	}
	if in := attr(root, "spantee.session.usage.input_tokens"); in != nil {
		texts[1] = fmt.Sprintf("%d/%d", in.GetIntValue(), attr(root, "spantee.session.usage.output_tokens").GetIntValue())
	}
	return strings.Join(texts, ", session ")
}

// The totals of a thread that is older than its stream are the session's. Its log, and those of
// its sub-agents, say what the run used.
func TestCodexThreadTotals(t *testing.T) {
	const thread, child = "01a2234c-61fb-73b3-95b5-8ef1a2f563a9", "01a2234c-8888-73b3-95b5-8ef1a2f563a9"
	born := time.UnixMilli(0x01a2234c61fb)
	stream := func(items ...string) (lines []string) {
		lines = append(lines, `{"type":"thread.started","thread_id":"`+thread+`"}`, `{"type":"turn.started"}`)
		lines = append(append(lines, items...), `{"type":"item.completed","item":{"id":"item_9","type":"agent_message","text":"Done."}}`)
		lines = append(lines, `{"type":"turn.completed","usage":{"input_tokens":10300,"cached_input_tokens":100,"output_tokens":232}}`)
		for i := range lines {
			lines[i] += "\n"
		}
		return lines
	}
	spawn := []string{
		`{"type":"item.started","item":{"id":"item_1","type":"collab_tool_call","tool":"spawn_agent","receiver_thread_ids":[],"status":"in_progress"}}`,
		`{"type":"item.completed","item":{"id":"item_1","type":"collab_tool_call","tool":"spawn_agent","receiver_thread_ids":["` + child + `"],"status":"completed"}}`,
	}
	row := func(at time.Time, text string) string {
		return fmt.Sprintf(`{"timestamp":%q,%s}`, at.UTC().Format("2006-01-02T15:04:05.000Z"), text) + "\n"
	}
	tokens := func(at time.Time, in, out int) string {
		return row(at, fmt.Sprintf(`"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"output_tokens":%d},"last_token_usage":{"input_tokens":%[1]d,"output_tokens":%[2]d}}}`, in, out))
	}
	started := func(at time.Time, turn string) string {
		return row(at, `"type":"event_msg","payload":{"type":"task_started","turn_id":"`+turn+`"}`) + row(at, `"type":"turn_context","payload":{"turn_id":"`+turn+`","model":"gpt-5.4"}`)
	}
	path := func(id string) string { return "2026/11/28/rollout-2026-11-28T17-55-38-" + id + ".jsonl" }
	later := born.Add(time.Hour)
	parentLog := row(born, `"type":"session_meta","payload":{"id":"`+thread+`"}`) + started(born, "t1") + tokens(born.Add(time.Second), 3800, 91) +
		row(born.Add(2*time.Second), `"type":"event_msg","payload":{"type":"task_complete"}`) + started(later.Add(time.Second), "t2") +
		row(later.Add(2*time.Second), `"type":"response_item","payload":{"type":"function_call","name":"spawn_agent","namespace":"multi_agent_v1","arguments":"{}","call_id":"c1"}`) +
		row(later.Add(2*time.Second), `"type":"event_msg","payload":{"type":"collab_agent_spawn_end","call_id":"c1","new_thread_id":"`+child+`"}`) +
		tokens(later.Add(3*time.Second), 10300, 232)
	childLog := row(later.Add(2*time.Second), `"type":"session_meta","payload":{"id":"`+child+`","parent_thread_id":"`+thread+`"}`) +
		started(later.Add(2*time.Second), "t3") + tokens(later.Add(3*time.Second), 700, 40)
	process := func(resumes bool) *mapping.Process {
		return &mapping.Process{Agent: agent.Find("codex"), Resumes: resumes}
	}
	for name, c := range map[string]struct {
		joinedStream
		want string
	}{
		"new":                     {joinedStream{lines: stream(), start: born, tick: time.Second}, "10300/232, session unknown"},
		"resumed":                 {joinedStream{lines: stream(), start: later, tick: time.Second}, "unknown, session 10300/232"},
		"resumed, all at once":    {joinedStream{lines: stream(), start: later}, "10300/232, session unknown"},
		"resumed, exec":           {joinedStream{lines: stream(), start: born.Add(time.Second), process: process(false)}, "unknown, session 10300/232"},
		"new, exec":               {joinedStream{lines: stream(), start: born.Add(-time.Second), process: process(false)}, "10300/232, session unknown"},
		"told to resume":          {joinedStream{lines: stream(), start: born.Add(-time.Second), process: process(true)}, "unknown, session 10300/232"},
		"resumed, with a log":     {joinedStream{lines: stream(), start: later, tick: time.Second, logs: map[string]string{path(thread): parentLog}}, "unknown, session unknown"},
		"sub-agent":               {joinedStream{lines: stream(spawn...), start: born, tick: time.Second}, "unknown, session unknown"},
		"resumed, with both logs": {joinedStream{lines: stream(spawn...), start: later, tick: time.Second, logs: map[string]string{path(thread): parentLog, path(child): childLog}}, "7200/181, session unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tokensOf(c.root(t)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Copilot's stream has no tokens, its log has those of each model call.
func TestCopilotLogTokens(t *testing.T) {
	log, err := os.ReadFile("../testdata/copilot/usage-records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte(`"session.`)) {
			lines = append(lines, string(line))
		}
	}
	const session = "3d1c99f4-54c0-4f60-9b7c-8d9e0f1a2b3c"
	lines = append(lines, `{"type":"result","timestamp":"2026-11-28T09:00:09.100Z","sessionId":"`+session+`","exitCode":0,"usage":{"premiumRequests":0,"sessionDurationMs":8100}}`+"\n")
	start := time.Date(2026, 11, 28, 9, 0, 1, 0, time.UTC)
	for logs, want := range map[string]string{"": "unknown, session unknown", session + "/events.jsonl": "3000/70, session unknown"} {
		root := joinedStream{lines: lines, start: start, tick: time.Second, logs: map[string]string{logs: string(log)}}.root(t)
		if got := tokensOf(root); got != want {
			t.Errorf("with the log %q: %s, want %s", logs, got, want)
		}
		if version := attr(root, "spantee.agent.version").GetStringValue(); (version == "1.0.102") != (logs != "") {
			t.Errorf("with the log %q: version %q", logs, version)
		}
	}
}

// A command has the times that the session log states of it, and the chat that made it ends when
// the model had asked for it. A command that ran before, or is not in the log, has its lines' times.
func TestCodexLogTimes(t *testing.T) {
	const thread = "01a2234c-61fb-73b3-95b5-8ef1a2f563a9"
	born := time.UnixMilli(0x01a2234c61fb)
	item := func(subtype, id, command, more string) string {
		return fmt.Sprintf(`{"type":"item.%s","item":{"id":%q,"type":"command_execution","command":"/bin/bash -lc '%s'","status":"in_progress"%s}}`+"\n", subtype, id, command, more)
	}
	lines := []string{
		`{"type":"thread.started","thread_id":"` + thread + `"}` + "\n", `{"type":"turn.started"}` + "\n", // at 0 and 1 s
		"\n", "\n", "\n", "\n", item("started", "item_0", "make a", ""), item("started", "item_1", "make b", ""), // at 6 and 7
		item("completed", "item_0", "make a", `,"exit_code":0`), item("completed", "item_1", "make b", `,"exit_code":0`), // at 8 and 9
		`{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":2}}` + "\n",
	}
	at := func(seconds float64) time.Time { return born.Add(time.Duration(seconds * 1e9)) }
	row := func(seconds float64, text string) string {
		return fmt.Sprintf(`{"timestamp":%q,%s}`, at(seconds).UTC().Format("2006-01-02T15:04:05.000Z"), text) + "\n"
	}
	ran := func(id, command string, from, to float64) string {
		return row(to, fmt.Sprintf(`"type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":%q,"command":["/bin/bash","-lc",%q],"exit_code":0},"started_at_ms":%d,"completed_at_ms":%d}`,
			id, command, at(from).UnixMilli(), at(to).UnixMilli()))
	}
	asked := func(seconds float64) string {
		return row(seconds, `"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"make a\"}","call_id":"call_1"}`)
	}
	log := row(0, `"type":"session_meta","payload":{"id":"`+thread+`"}`) + ran("call_0", "make a", -9, -8)
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"with its log":                {log + asked(2) + ran("call_1", "make a", 3, 5), []string{"execute_tool shell make 3.000-5.000", "execute_tool shell make 7.000-9.000", "chat gpt-5 1.000-2.000"}},
		"began with its call":         {log + asked(2) + ran("call_1", "make a", 2.14, 5), []string{"execute_tool shell make 2.000-5.000", "execute_tool shell make 7.000-9.000", "chat gpt-5 1.000-2.000"}},
		"its item is not written yet": {log + asked(5.8), []string{"execute_tool shell make 5.800-8.000", "execute_tool shell make 7.000-9.000", "chat gpt-5 1.000-5.800"}},
		"printed late, or waited":     {log + asked(5), []string{"execute_tool shell make 6.000-8.000", "execute_tool shell make 7.000-9.000", "chat gpt-5 1.000-6.000"}},
		"alone":                       {"", []string{"execute_tool shell make 6.000-8.000", "execute_tool shell make 7.000-9.000", "chat gpt-5 1.000-6.000"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range (joinedStream{lines: lines, start: born, tick: time.Second, logs: map[string]string{"2026/11/28/rollout-2026-11-28T17-55-38-" + thread + ".jsonl": c.log}}).spans(t) {
				if !strings.HasPrefix(s.Name, "invoke_agent") {
					got = append(got, strings.Replace(times(s, born), "chat ", "chat gpt-5 ", 1))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
