package mapping_test

import "testing"

// A line without words that repeats a message after its end is no model call of its own,
// though it states tokens: the first estimate again.
func TestUsageAfterTheCallIsOver(t *testing.T) {
	event := func(event string) string {
		return `{"type":"stream_event","event":` + event + `,"parent_tool_use_id":null,"uuid":"u"}`
	}
	spans, _ := feed{}.spans(t, stream(
		claudeInit,
		event(`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":10,"output_tokens":1}}}`),
		event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"done"}}`),
		`{"type":"assistant","message":{"id":"msg_1","model":"m","role":"assistant","content":[{"type":"text","text":"done"}],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}},"uuid":"u"}`,
		event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":10,"output_tokens":50}}`),
		event(`{"type":"message_stop"}`),
		`{"type":"assistant","message":{"id":"msg_1","model":"m","role":"assistant","content":[{"type":"text","text":""}],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}},"uuid":"u"}`,
		`{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"num_turns":1,"total_cost_usd":0.1,"uuid":"u"}`,
	))
	chats := 0
	for _, s := range spans {
		if s.Name == "chat m" {
			chats++
			if got := attr(s, "gen_ai.usage.output_tokens"); got.GetIntValue() != 50 {
				t.Errorf("%v tokens out, want 50", got)
			}
		}
	}
	if chats != 1 {
		t.Errorf("%d chats, want 1", chats)
	}
}
