package mapping_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

// A span's events take no more than 512 KiB, however few they are.
func TestSpanBytes(t *testing.T) {
	lines := []string{initLine}
	for i := range 100 {
		said := strings.Repeat(fmt.Sprintf("%09d ", i), 2000)
		lines = append(lines, stamped(now.Add(time.Duration(i)*time.Second), `{"type":"assistant","model_call_id":"r","message":{"content":[{"type":"text","text":"`+said+`"}]}}`))
	}
	spans, _ := feed{opts: mapping.Options{Content: content.Full, MaxAttributeBytes: 64 << 10}}.spans(t, stream(append(lines, result(100*time.Second))...))
	continued := 0
	for _, s := range spans {
		if n := proto.Size(s); n > 600<<10 {
			t.Errorf("%s has %d bytes", s.Name, n)
		}
		if s.Name == "deltas" {
			continued++
		}
	}
	if continued != 3 { // 100 texts of 20 KB are 2 MB
		t.Errorf("%d spans continue the turn, want 3", continued)
	}
}

// Past 3 MB, deltas within a second become one event; those a second apart do
// not.
func TestMergeWithinASecond(t *testing.T) {
	t.Parallel()
	for gap, merged := range map[time.Duration]bool{10 * time.Millisecond: true, 1100 * time.Millisecond: false} {
		lines := []string{initLine}
		for i := range 60_000 {
			lines = append(lines, thinking(now.Add(time.Duration(i)*gap)))
		}
		spans, _ := feed{}.spans(t, stream(append(lines, result(time.Second))...))
		most := int64(1)
		for _, s := range spans {
			for _, e := range s.Events {
				for _, kv := range e.Attributes {
					if kv.Key == "spantee.delta.count" {
						most = max(most, kv.Value.GetIntValue())
					}
				}
			}
		}
		if merged != (most > 1) || most > 101 {
			t.Errorf("%v apart, an event stands for up to %d deltas", gap, most)
		}
	}
}

// A text that comes while a tool runs opens its turn then: the agent did not wait
// for the model while the tool ran.
func TestTurnWhileAToolRuns(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	spans := live(t, time.Second, initLine, tool(at(1), "started", "a", "r-0-abcd"), thinking(at(2)), thinking(at(3)),
		tool(at(4), "completed", "a", "r-0-abcd"), thinking(at(5)), result(6*time.Second))
	wantTimes(t, spans, now, "chat GPT-5 0.000-1.000", "execute_tool read 1.000-4.000", "chat GPT-5 2.000-5.000", "invoke_agent cursor-agent 0.000-6.000")
}

// The oldest calls end to make room, with their sub-agents. What a sub-agent does after
// that is still in the trace.
func TestManyCallsBesideASubagent(t *testing.T) {
	lines := []string{
		claudeInit, claudeSays(`{"type":"tool_use","id":"task","name":"Task","input":{}}`, ""), claudeSays(textBlock("I look."), `,"parent_tool_use_id":"task"`),
	}
	for i := range 2100 {
		lines = append(lines, claudeSays(fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"X","input":{}}`, i), `,"parent_tool_use_id":"task"`))
	}
	lines = append(lines, `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2099","content":"ok"}]},"uuid":"u","parent_tool_use_id":"task"}`)
	spans, m := feed{opts: mapping.Options{Agent: "claude"}}.spans(t, stream(lines...))
	tools, well := 0, 0
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "execute_tool") {
			if tools++; attr(s, "error.type") == nil {
				well++
			}
		}
	}
	if tools != 2101 || well != 1 {
		t.Errorf("%d calls, %d of them ended well, want 2101 and 1", tools, well)
	}
	if got := m.Stats().Evicted; got == 0 {
		t.Error("no call ended early")
	}
}

// Approvals of two kinds have the same id.
func TestApprovalsAtOnce(t *testing.T) {
	query := func(s float64, subtype, kind, body string) string {
		return stamped(now.Add(time.Duration(s*1e9)), fmt.Sprintf(`{"type":"interaction_query","subtype":"%s","query_type":"%sRequestQuery",%s}`, subtype, kind, body))
	}
	spans, m := feed{}.spans(t, stream(initLine, thinking(now),
		query(1, "request", "shell", `"query":{"id":0,"shellRequestQuery":{}}`),
		query(2, "request", "webFetch", `"query":{"id":0,"webFetchRequestQuery":{}}`),
		query(3, "response", "webFetch", `"response":{"id":0,"webFetchRequestResponse":{"rejected":{}}}`),
		query(5, "response", "shell", `"response":{"id":0,"shellRequestResponse":{"approved":{}}}`),
		result(6*time.Second)))
	wantTimes(t, spans[:2], now, "await_approval webFetch 2.000-3.000", "await_approval shell 1.000-5.000")
	if outcome := attr(spans[0], "spantee.query.outcome").GetStringValue(); outcome != "rejected" || m.Stats().EndsWithoutStart != 0 {
		t.Errorf("outcome %q, stats %+v", outcome, m.Stats())
	}
}

// A secret can stand in the name of a JSON object's member, and be repeated there.
func TestSecretsInMemberNames(t *testing.T) {
	const token = "ghp_" + "a8F3kQ92mZx7Lw1PvT5cR4nB6yH0uJdEsG2i"
	args := fmt.Sprintf(`{"note":"the token is %s","%s":1,"list":{"x %s":2}}`, token, token, token)
	spans := full(t, initLine, stamped(now, `{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"xToolCall":{"args":`+args+`}}}`))
	if got := attribute(spans, "execute_tool x", "gen_ai.tool.call.arguments"); strings.Contains(got, token[4:]) || !strings.Contains(got, "redacted") {
		t.Error(got)
	}
}

// The messages repeat the ids of calls.
func TestASecretAsCallID(t *testing.T) {
	const token = "ghp_" + "a8F3kQ92mZx7Lw1PvT5cR4nB6yH0uJdEsG2i"
	call := `,"call_id":"` + token + `","tool_call":{"xToolCall":{"args":{},"result":{"success":{"a":1}}}}}`
	spans := full(t, initLine, stamped(now, `{"type":"tool_call","subtype":"started"`+call), stamped(now.Add(1*time.Second), `{"type":"tool_call","subtype":"completed"`+call),
		stamped(now.Add(2*time.Second), `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}`), stamped(now.Add(3*time.Second), `{"type":"result","subtype":"success"}`))
	hidden := 0
	for _, s := range spans {
		hidden += strings.Count(s.String(), "_OTHER")
		if strings.Contains(s.String(), token) {
			t.Errorf("%s has it: %s", s.Name, s)
		}
	}
	if counted := number(spans, "invoke_agent cursor-agent", "spantee.hidden_names"); hidden < 3 || counted != 1 {
		t.Errorf("hidden in %d places, counted %d times", hidden, counted)
	}
}

// The name of a provider is the stream's word, too.
func TestASecretAsProvider(t *testing.T) {
	const token = "ghp_" + "a8F3kQ92mZx7Lw1PvT5cR4nB6yH0uJdEsG2i"
	b, err := os.ReadFile("../testdata/pi/plain.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	spans, _ := feed{}.spans(t, bytes.ReplaceAll(b, []byte(`"zai"`), []byte(`"`+token+`"`)))
	if got := attribute(spans, "chat glm-5.3", "gen_ai.provider.name"); got != "_OTHER" {
		t.Errorf("the provider is %q", got)
	}
	for _, s := range spans {
		if strings.Contains(s.String(), token) {
			t.Errorf("%s has it: %s", s.Name, s)
		}
	}
}

// Without content, a token in the place of a name or an id does not get out.
func TestSecretsAsNames(t *testing.T) {
	tried := 0
	for _, secret := range redacttest.All() {
		token := secret.Bare
		if len(token) < 16 || strings.ContainsAny(token, "\"\\ \n") {
			continue
		}
		if len(redactor().Find(token)) == 0 {
			continue // nothing but its place gives it away
		}
		tried++
		line := func(format string, args ...any) string { return stamped(now, fmt.Sprintf(format, args...)) }
		spans, _ := feed{opts: mapping.Options{Agent: "cursor"}}.spans(t, stream(
			fmt.Sprintf(`{"type":"system","subtype":"init","apiKeySource":"%[1]s","permissionMode":"%[1]s","model":"%[1]s"}`, token),
			line(`{"type":"tool_call","subtype":"started","call_id":"%[1]s","model_call_id":"%[1]s","tool_call":{"mcpToolCall":{"args":{"toolName":"%[1]s"}}}}`, token),
			line(`{"type":"tool_call","subtype":"completed","call_id":"%[1]s","tool_call":{"mcpToolCall":{"args":{"toolName":"%[1]s"},"result":{"%[1]s":{}}}}}`, token),
			line(`{"type":"tool_call","subtype":"started","call_id":"b","tool_call":{"shellToolCall":{"args":{"command":"%[1]s x"}}}}`, token),
			line(`{"type":"tool_call","subtype":"completed","call_id":"b","tool_call":{"shellToolCall":{"result":{"success":{"shellId":"%[1]s"},"isBackground":true}}}}`, token),
			line(`{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"shellToolCall":{"args":{"command":"x"}}}}`),
			line(`{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"shellToolCall":{"result":{"failure":{"signal":"%[1]s"}}}}}`, token),
			line(`{"type":"interaction_query","subtype":"request","query_type":"%[1]s","query":{"id":0,"x":{"args":{"toolCallId":"%[1]s"}}}}`, token),
			line(`{"type":"interaction_query","subtype":"response","query_type":"%[1]s","response":{"id":0,"xResponse":{"%[1]s":{}}}}`, token),
			line(`{"type":"system","subtype":"task_notification","task_id":"%[1]s","status":"%[1]s"}`, token),
			fmt.Sprintf(`{"type":"result","subtype":"%[1]s","is_error":true,"request_id":"%[1]s"}`, token)))
		for _, s := range spans {
			for _, kv := range s.Attributes {
				if strings.Contains(kv.Value.GetStringValue(), token) {
					t.Errorf("%s: %s has it as %s", secret.Name, s.Name, kv.Key)
				}
			}
			if strings.Contains(s.String(), token) && !t.Failed() {
				t.Errorf("%s: %s has it", secret.Name, s.Name)
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d secrets tried", tried)
	}
}

// Without events for deltas, no span continues the events of a turn.
func TestNoSpansForDeltasThatAreOff(t *testing.T) {
	lines := []string{initLine}
	for i := range 10 {
		at := now.Add(time.Duration(i) * time.Second)
		lines = append(lines, thinking(at), text(at, fmt.Sprintf("words %d", i)))
	}
	spans, _ := feed{opts: mapping.Options{Content: content.Full, Deltas: mapping.DeltasOff, MaxSpanEvents: 2}}.spans(t, stream(append(lines, result(10*time.Second))...))
	for _, s := range spans {
		if s.Name == "deltas" {
			t.Errorf("a span of %d events", len(s.Events))
		}
	}
}
