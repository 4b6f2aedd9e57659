package mapping_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
)

func text(at time.Time, text string) string {
	return stamped(at, fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}`, text))
}

func flushed(text string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}`, text)
}

func names(t *testing.T, in []byte) string {
	t.Helper()
	spans, _ := feed{opts: mapping.Options{Agent: "cursor"}}.spans(t, in)
	var names []string
	for _, s := range spans {
		name := s.Name
		if e := attr(s, "error.type").GetStringValue(); e != "" {
			name += " " + e
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Deltas that were lost are as long as the whole text says.
func TestLostDeltas(t *testing.T) {
	const lost = 8 << 20
	whole := flushed(`a\nb` + strings.Repeat("x", lost))
	spans, _ := feed{opts: mapping.Options{Agent: "cursor"}}.spans(t, stream(initLine, text(now, "a"), text(now.Add(time.Second), `\nb`), whole, result(2*time.Second)))
	for _, s := range spans {
		if got := attr(s, "spantee.text.bytes").GetIntValue(); got != lost+3 {
			t.Errorf("%s: %d bytes, want %d", s.Name, got, lost+3)
		}
	}
}

// A line that is too long to be parsed still ends its call: the call's id and the outcome
// come before its output, the session and the time after it.
func TestEndInATooLongLine(t *testing.T) {
	line := stamped(now.Add(3*time.Second), `{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"readToolCall":{"result":{"success":{"content":"`+
		strings.Repeat("x", 20<<20)+`"}}}},"session_id":"s"}`)
	spans, m := feed{}.spans(t, stream(initLine, tool(now.Add(time.Second), "started", "a", ""), line, result(3*time.Second)))
	wantTimes(t, spans, now, "execute_tool read 1.000-3.000", "chat GPT-5 0.000-1.000", "invoke_agent cursor-agent 0.000-3.000")
	for _, s := range spans {
		if e := attr(s, "error.type"); e != nil {
			t.Errorf("%s: %s", s.Name, e.GetStringValue())
		}
	}
	if s := m.Stats(); s.BadLines > 0 {
		t.Errorf("%d bad lines", s.BadLines)
	}
}

// TestOddStreams has what agents were seen, or are feared, to print.
func TestOddStreams(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	lateFlush := strings.TrimSuffix(stamped(at(3.5), flushed("ab")), "}") + `,"model_call_id":"r-0-abcd"}`
	for name, tc := range map[string]struct {
		in   []byte
		want string
	}{
		"a flush after its tool began repeats its deltas": {
			stream(initLine, text(at(1), "a"), text(at(2), "b"), tool(at(3), "started", "x", "r-0-abcd"), lateFlush,
				tool(at(4), "completed", "x", "r-0-abcd"), text(at(5), "c"), flushed("c"), result(5*time.Second)),
			"execute_tool read, chat GPT-5, chat GPT-5, invoke_agent cursor-agent",
		},
		"an error that the agent got over": {
			stream(initLine, `{"type":"system","subtype":"error","message":"busy"}`, tool(at(1), "started", "x", ""), tool(at(2), "completed", "x", ""), result(2*time.Second)),
			"execute_tool read, chat GPT-5, invoke_agent cursor-agent",
		},
		"an error that it did not": {
			stream(initLine, thinking(at(1)), `{"type":"system","subtype":"error","message":"quota"}`),
			"chat GPT-5 incomplete, invoke_agent cursor-agent _OTHER",
		},
		"a result twice, and a tool that ends after it": {
			stream(initLine, tool(at(1), "started", "x", ""), result(time.Second), result(time.Second), tool(at(2), "completed", "x", "")),
			"execute_tool read incomplete, chat GPT-5, invoke_agent cursor-agent",
		},
		"the init line's id again, which had been another session's": {
			stream(stamped(at(0), strings.TrimSuffix(initLine, "}")+`,"session_id":"init"}`), text(at(0), "a"),
				stamped(at(0), strings.TrimSuffix(initLine, "}")+`,"session_id":"init"}`), result(time.Second)),
			"chat GPT-5 incomplete, invoke_agent cursor-agent incomplete, invoke_agent cursor-agent",
		},
		"two lone results": {
			stream(result(time.Second), result(time.Second)),
			"invoke_agent cursor-agent, invoke_agent cursor-agent",
		},
		"a tool started twice is one turn": {
			stream(initLine, tool(at(1), "started", "x", "r"), tool(at(2), "started", "x", "r"), tool(at(3), "completed", "x", "r"), result(3*time.Second)),
			"execute_tool read incomplete, execute_tool read, chat GPT-5, invoke_agent cursor-agent",
		},
		"a line of zeros": {bytes.Repeat([]byte{0}, 1000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names(t, tc.in); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// The first stamp may come when a span without one was sent already, and be of
// another time: stamps then count from there.
func TestLiveStampAfterSpan(t *testing.T) {
	old := now.AddDate(0, -3, 0)
	approval := func(subtype, body string) string {
		return `{"type":"interaction_query","subtype":"` + subtype + `","query_type":"shellRequestQuery",` + body + `}`
	}
	spans := live(t, 0, initLine,
		approval("request", `"query":{"id":0,"shellRequestQuery":{}}`), approval("response", `"response":{"id":0,"shellRequestResponse":{"approved":{}}}`),
		tool(old, "started", "x", ""), tool(old.Add(4e9), "completed", "x", ""), result(4*time.Second))
	wantTimes(t, spans, now,
		"await_approval shell 0.000-0.000",
		"chat GPT-5 0.000-0.000",
		"execute_tool read 0.000-4.000",
		"invoke_agent cursor-agent 0.000-4.000")
}

// A first line that comes late says nothing about the lines that come in time.
func TestLateFirstLine(t *testing.T) {
	at := now
	m, err := mapping.New(mapping.Options{Agent: "cursor", Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for _, l := range []struct {
		arrival time.Duration
		line    string
	}{
		{3 * time.Second, initLine},
		{3 * time.Second, thinking(now.Add(time.Second))},
		{5 * time.Second, `{"type":"interaction_query","subtype":"request","query_type":"shellRequestQuery","query":{"id":0,"shellRequestQuery":{}}}`},
		{7 * time.Second, `{"type":"interaction_query","subtype":"response","query_type":"shellRequestQuery","response":{"id":0,"shellRequestResponse":{"approved":{}}}}`},
		{8 * time.Second, result(7 * time.Second)},
	} {
		at = now.Add(l.arrival)
		spans = append(spans, decoded(t, m.Map(stream(l.line)))...)
	}
	wantTimes(t, spans, now, "await_approval shell 5.000-7.000", "chat GPT-5 1.000-1.000", "invoke_agent cursor-agent 1.000-8.000")
}

// The first stamp of all may be that of a notification.
func TestStampOfNotification(t *testing.T) {
	spans, _ := feed{opts: mapping.Options{Agent: "cursor"}}.spans(t, stream(initLine,
		`{"type":"tool_call","subtype":"started","call_id":"x","tool_call":{"shellToolCall":{"args":{}}}}`,
		`{"type":"tool_call","subtype":"completed","call_id":"x","tool_call":{"shellToolCall":{"args":{},"result":{"success":{"shellId":7},"isBackground":true}}}}`,
		stamped(now, `{"type":"system","subtype":"task_notification","task_id":"7","status":"success"}`), result(time.Second)))
	wantTimes(t, spans, now, "execute_tool shell 0.000-0.000", "background shell 0.000-0.000",
		"chat GPT-5 -1.000-0.000", "invoke_agent cursor-agent -1.000-0.000")
}

// A line of many objects, or of one key over and over, costs no more than its
// length.
func TestHostileLines(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(strings.TrimSuffix(thinking(now), "}")+`,"session_id":"s"}`, 50_000)
	if _, m := (feed{opts: mapping.Options{Agent: "cursor"}}).spans(t, []byte(many)); m.Stats().Runs != 1 {
		t.Errorf("stats %+v", m.Stats())
	}
	usage := `{"type":"result",` + strings.Repeat(`"usage":{},`, 200_000) + `"duration_ms":5}`
	if spans, _ := (feed{opts: mapping.Options{Agent: "cursor"}}).spans(t, []byte(usage)); len(spans) != 1 {
		t.Errorf("%d spans", len(spans))
	}
}

// A session that goes on after another one has ended has its cut lines joined.
func TestCutLineBesideAnother(t *testing.T) {
	line := func(session, rest string) string {
		return fmt.Sprintf(`{"session_id":"5f2a0b1c-0000-4000-8000-00000000000%s",%s}`+"\n", session, rest)
	}
	init := `"type":"system","subtype":"init","apiKeySource":"login","cwd":"/w","model":"GPT-5","permissionMode":"default"`
	result := `"type":"result","subtype":"success","duration_ms":50,"duration_api_ms":50,"is_error":false,"request_id":"r","result":"one` + "\n" + `two"`
	in := line("1", init) + line("2", init) + line("1", result) + line("2", result)
	spans, m := feed{}.spans(t, []byte(in))
	if runs := green(spans); len(runs) != 2 || m.Stats().BadLines != 0 {
		t.Errorf("%d runs succeeded, %d bad lines", len(runs), m.Stats().BadLines)
	}
}
