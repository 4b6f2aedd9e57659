package mapping_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Open calls take memory, and may never end. Beyond a limit, the oldest ones end and are
// counted, and later lines are traced as usual.
func TestOpenBudget(t *testing.T) {
	t.Parallel()
	const many = 5_000
	var calls, tasks, approvals, sessions strings.Builder
	calls.WriteString(initLine)
	tasks.WriteString(initLine)
	approvals.WriteString(initLine)
	for i := range many {
		const start = `{"type":"tool_call","subtype":"started","call_id":"%d","tool_call":{"xToolCall":{"args":{}}},"session_id":"s"}` + "\n"
		fmt.Fprintf(&calls, start, i)
		fmt.Fprintf(&tasks, start+`{"type":"tool_call","subtype":"completed","call_id":"%[1]d","tool_call":{"xToolCall":{"result":{"success":{"shellId":"%[1]d"},"isBackground":true}}},"session_id":"s"}`+"\n", i)
		fmt.Fprintf(&approvals, `{"type":"interaction_query","subtype":"request","query_type":"x","query":{"id":%d,"x":{}},"session_id":"s"}`+"\n", i)
		fmt.Fprintf(&sessions, `{"type":"system","subtype":"init","session_id":"s%[1]d"}`+"\n"+strings.Replace(start, `"s"`, `"s%[1]d"`, 1), i)
	}
	calls.WriteString(`{"type":"tool_call","subtype":"completed","call_id":"4999","tool_call":{"xToolCall":{"result":{"success":{}}}},"session_id":"s"}` + "\n")
	for name, in := range map[string]string{"calls": calls.String(), "tasks": tasks.String(), "approvals": approvals.String(), "sessions": sessions.String()} {
		t.Run(name, func(t *testing.T) {
			spans, m := feed{}.spans(t, []byte(in))
			if s := m.Stats(); s.Evicted < many/2 || s.Evicted >= many {
				t.Errorf("%d ended early", s.Evicted)
			}
			ids := map[string]bool{}
			for _, s := range spans {
				ids[string(s.TraceId)+string(s.SpanId)] = true
			}
			if len(ids) != len(spans) || len(spans) < many {
				t.Errorf("%d spans, %d of them apart", len(spans), len(ids))
			}
			last := slices.IndexFunc(spans, func(s *tracepb.Span) bool {
				return attribute([]*tracepb.Span{s}, s.Name, "gen_ai.tool.call.id") == "4999"
			})
			if name == "calls" && (last < 0 || attribute(spans[last:last+1], "execute_tool", "error.type") != "") {
				t.Errorf("the last call, span %d, has not ended well", last)
			}
		})
	}
}
