package mapping_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

// What a later build of an agent prints is counted by type, and names nothing that may be
// content or a secret. What another program prints beside lines that name their session is
// not the agent's.
func TestUnknownTypes(t *testing.T) {
	const session = "01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"
	claude := func(members string) string { return fmt.Sprintf(`{%s,"session_id":%q,"uuid":"u"}`, members, session) }
	row := func(members string) string {
		return fmt.Sprintf(`{%s,"sessionId":%q,"uuid":%q,"isSidechain":false}`, members, session, members)
	}
	dotted := func(typ, data string) string {
		return fmt.Sprintf(`{"type":%q,"data":{%s},"id":"i","timestamp":"2026-11-04T09:00:00.000Z","parentId":null}`, typ, data)
	}
	for name, of := range map[string]struct {
		lines []string
		want  []mapping.UnknownType
	}{
		"lines with their session": {
			lines: []string{
				claude(`"type":"system","subtype":"init","claude_code_version":"2.1.300","tools":[]`),
				claude(`"type":"dream","subtype":"deep"`), claude(`"type":"dream","subtype":"deep"`), claude(`"type":"nap"`),
				claude(`"type":"ghp_` + strings.Repeat("aB3", 12) + `"`), claude(`"type":"fix the test"`),
				`{"type":"hook.ran"}`,
			},
			want: []mapping.UnknownType{
				{Agent: "claude-code", Version: "2.1.300", Type: "dream/deep", Lines: 2},
				{Agent: "claude-code", Version: "2.1.300", Type: "nap", Lines: 1},
				{Agent: "claude-code", Version: "2.1.300", Type: "_OTHER", Lines: 2},
			},
		},
		"subtypes, blocks and deltas": {
			lines: []string{
				claude(`"type":"system","subtype":"init","claude_code_version":"2.1.300","tools":[]`),
				claude(`"type":"system","subtype":"status"`), claude(`"type":"system","subtype":"dreamt"`),
				claude(`"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"signature_delta"}}`),
				claude(`"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"dream_delta"}}`),
				claude(`"type":"stream_event","event":{"type":"message_dreamt"}`),
				claude(`"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"dream"},{"type":"text","text":"hi"}]}`),
				claude(`"type":"user","message":{"role":"user","content":[{"type":"image"}]}`),
			},
			want: []mapping.UnknownType{
				{Agent: "claude-code", Version: "2.1.300", Type: "system/dreamt", Lines: 1},
				{Agent: "claude-code", Version: "2.1.300", Type: "stream_event/dream_delta", Lines: 1},
				{Agent: "claude-code", Version: "2.1.300", Type: "stream_event/message_dreamt", Lines: 1},
				{Agent: "claude-code", Version: "2.1.300", Type: "assistant/dream", Lines: 1},
			},
		},
		"rows of a session log": {
			lines: []string{
				row(`"type":"user","message":{"role":"user","content":"hi"}`), row(`"type":"custom-title"`),
				row(`"type":"system","subtype":"dreamt"`), row(`"type":"dream","isSidechain":true,"agentId":"a1"`),
			},
			want: []mapping.UnknownType{{Agent: "claude-code", Type: "system/dreamt", Lines: 1}, {Agent: "claude-code", Type: "dream", Lines: 1}},
		},
		"dotted types": {
			lines: []string{
				dotted("session.start", `"sessionId":"`+session+`"`), dotted("user.message", `"content":"hi"`), dotted("assistant.turn_start", `"turnId":"0"`),
				dotted("session.info", ``), dotted("session.dreamt", ``), dotted("dream.requested", `"requestId":"r"`),
			},
			want: []mapping.UnknownType{{Agent: "copilot-cli", Type: "session.dreamt", Lines: 1}},
		},
		"parts of messages": {
			lines: []string{
				`{"type":"message","message":{"id":"m","role":"assistant","created":1790000000,"content":[{"type":"image"},{"type":"dream"},{"type":"text","text":"hi"}],"metadata":{"userVisible":true,"agentVisible":true}}}`,
			},
			want: []mapping.UnknownType{{Agent: "goose", Type: "message/dream", Lines: 1}},
		},
		"updates of a message": {
			lines: []string{
				`{"type":"session","version":3,"id":"` + session + `","timestamp":"2026-11-04T09:00:00.000Z","cwd":"/home/dev/shop"}`, `{"type":"agent_start"}`,
				`{"type":"message_start","message":{"role":"assistant","content":[],"provider":"anthropic","model":"claude-opus-5","timestamp":1790000000000}}`,
				`{"type":"message_update","assistantMessageEvent":{"type":"toolcall_delta","delta":"{"}}`,
				`{"type":"message_update","assistantMessageEvent":{"type":"dream_delta","delta":"zzz"}}`,
			},
			want: []mapping.UnknownType{{Agent: "pi", Type: "message_update/dream_delta", Lines: 1}},
		},
		"steps": {
			lines: []string{
				`{"event":"init","conversation_id":"` + session + `","init":{"model":"gemini-3","cwd":"/home/dev/shop","tools":["view_file"]}}`,
				`{"event":"step_update","step_update":{"conversation_id":"` + session + `","step_index":1,"state":"DONE","step_type":"user_input"}}`,
				`{"event":"step_update","step_update":{"conversation_id":"` + session + `","step_index":2,"state":"DONE","step_type":"dream"}}`,
			},
			want: []mapping.UnknownType{{Agent: "agy", Type: "step_update/dream", Lines: 1}},
		},
		"retries": {
			lines: []string{
				`{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":"` + session + `","model":"GPT-5","permissionMode":"default"}`,
				`{"type":"retry","subtype":"starting","attempt":1,"session_id":"` + session + `","timestamp_ms":1790000000000}`,
				`{"type":"retry","subtype":"dreamt","attempt":1,"session_id":"` + session + `","timestamp_ms":1790000001000}`,
			},
			want: []mapping.UnknownType{{Agent: "cursor-agent", Type: "retry/dreamt", Lines: 1}},
		},
		"lines without a session": {
			lines: []string{
				`{"type":"thread.started","thread_id":"` + session + `"}`, `{"type":"turn.started"}`,
				`{"type":"turn.paused"}`, `{"type":"item.completed","item":{"id":"item_1","type":"dream"}}`,
			},
			want: []mapping.UnknownType{
				{Agent: "codex", Type: "turn.paused", Lines: 1},
				{Agent: "codex", Type: "item.completed/dream", Lines: 1},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := feed{}.spans(t, []byte(strings.Join(of.lines, "\n")+"\n"))
			if diff := gocmp.Diff(of.want, m.UnknownTypes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A run counts the unknown lines since the agent's last one, so that the runs count them all.
func TestUnknownLinesOfRuns(t *testing.T) {
	const dream = `{"type":"dream","session_id":"s","uuid":"u"}`
	result := `{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"num_turns":1,"total_cost_usd":0.1,"session_id":"s","uuid":"u"}`
	said := `{"type":"assistant","message":{"id":"m","model":"m","role":"assistant","content":[{"type":"text","text":"done"}]},"parent_tool_use_id":null,"session_id":"s","uuid":"u"}`
	first := strings.Replace(claudeInit, `"type":"system"`, `"session_id":"s","type":"system"`, 1)
	for name, process := range map[string]*mapping.Process{"a pipe": nil, "exec": {Agent: agent.Find("claude")}} {
		t.Run(name, func(t *testing.T) {
			f := feed{opts: mapping.Options{Agent: "claude", Process: process}, live: true, start: now}
			spans, m := f.spans(t, stream(dream, first, dream, said, result, dream, dream, first, said, result))
			var counts []int64
			for _, s := range spans {
				if n := attr(s, "spantee.unknown_lines"); n != nil {
					counts = append(counts, n.GetIntValue())
				}
			}
			if want := []int64{2, 2}; !slices.Equal(counts, want) || m.UnknownTypes()[0].Lines != 4 {
				t.Errorf("the runs count %v unknown lines, want %v, the stream %+v", counts, want, m.UnknownTypes())
			}
		})
	}
}
