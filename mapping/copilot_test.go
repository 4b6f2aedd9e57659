package mapping_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// A session log of Copilot may end with any line. What a process prints ends with a result.
func TestCopilotWithoutResult(t *testing.T) {
	in, err := os.ReadFile("../testdata/copilot/no-turns.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	in, _, _ = bytes.Cut(in, []byte(`{"type":"session.shutdown"`))
	for want, process := range []*mapping.Process{1: nil, 0: agentProcess()} {
		spans, _ := feed{opts: mapping.Options{Agent: "copilot", Process: process}}.spans(t, in)
		if runs := green(spans); len(runs) != want {
			t.Errorf("%d runs succeeded, want %d", len(runs), want)
		}
	}
}

// copilotCalls returns a session of a number of model calls in one turn. All but
// the last one call a tool. odd leaves out the texts of every other message.
func copilotCalls(calls int, turnLines, usageLines, odd bool, order copilotOrder) []byte {
	var b strings.Builder
	ms := 0
	line := func(typ, data string) {
		ms += 10
		fmt.Fprintf(&b, `{"type":%q,"data":%s,"id":"e%d","timestamp":"2026-10-02T09:%02d:%02d.%03dZ","parentId":null}`+"\n",
			typ, data, ms, ms/60000, ms/1000%60, ms%1000)
	}
	line("session.start", `{"sessionId":"s1"}`)
	line("user.message", `{"content":"Count."}`)
	if turnLines {
		line("assistant.turn_start", `{"turnId":"0"}`)
	}
	turn := 0
	for n := range calls {
		if n > 0 && turnLines && order == usageAfterTurnEnd {
			turn++
			line("assistant.turn_start", fmt.Sprintf(`{"turnId":"%d"}`, turn))
		}
		text, requests := "Next.", ""
		if odd && n%2 == 1 {
			text = ""
		}
		if n < calls-1 {
			requests = fmt.Sprintf(`{"toolCallId":"c%d","name":"bash","arguments":{}}`, n)
		}
		usage := func() {
			if usageLines {
				line("assistant.usage", fmt.Sprintf(`{"model":"gpt-5.4","inputTokens":%d,"outputTokens":%d,"cacheReadTokens":%d,"apiCallId":"a%d"}`, 1000+n, 10+n, n, n))
			}
		}
		if order == usageBeforeMessage {
			usage()
		}
		line("assistant.message", fmt.Sprintf(`{"messageId":"m%d","content":%q,"toolRequests":[%s],"outputTokens":%d}`, n, text, requests, 10+n))
		if order == usageAfterMessage {
			usage()
		}
		if n < calls-1 {
			line("tool.execution_start", fmt.Sprintf(`{"toolCallId":"c%d","toolName":"bash","arguments":{}}`, n))
			line("tool.execution_complete", fmt.Sprintf(`{"toolCallId":"c%d","success":true,"result":{"content":"1"}}`, n))
		}
		if order == usageAfterTools {
			usage()
		}
		if turnLines && (n == calls-1 || order == usageAfterTurnEnd) {
			line("assistant.turn_end", fmt.Sprintf(`{"turnId":"%d"}`, turn))
		}
		if order == usageAfterTurnEnd {
			line("session.idle", `{}`)
			usage()
		}
	}
	in, out, cached := 0, 0, 0
	for n := range calls {
		in, out, cached = in+1000+n, out+10+n, cached+n
	}
	line("session.shutdown", fmt.Sprintf(
		`{"shutdownType":"routine","modelMetrics":{"gpt-5.4":{"usage":{"inputTokens":%d,"outputTokens":%d,"cacheReadTokens":%d,"cacheWriteTokens":0}}}}`, in, out, cached))
	return []byte(b.String())
}

// A copilotOrder says where a call's usage is printed.
type copilotOrder int

const (
	usageAfterMessage copilotOrder = iota
	usageBeforeMessage
	usageAfterTools
	usageAfterTurnEnd // each call is a turn
	copilotOrders
)

// The model calls of a turn add up to what the session states, however many they
// are.
func TestCopilotCalls(t *testing.T) {
	t.Parallel()
	tried := oneIn(7)
	for calls := 1; calls <= 50; calls++ {
		for variant := range 8 * int(copilotOrders) {
			if !tried() {
				continue
			}
			order := copilotOrder(variant >> 3)
			turnLines, usageLines, odd := variant&1 != 0, variant&2 != 0, variant&4 != 0
			spans, _ := feed{}.spans(t, copilotCalls(calls, turnLines, usageLines, odd, order))
			got := totalsOf(spans)
			want := totals{Runs: 1, Turns: calls, Tools: calls - 1}
			for _, s := range spans {
				if len(s.ParentSpanId) == 0 {
					want.Output = attr(s, "spantee.usage.output_tokens").GetIntValue()
					if usageLines {
						want.Input = attr(s, "spantee.usage.input_tokens").GetIntValue()
						want.CacheRead = attr(s, "spantee.usage.cache_read_tokens").GetIntValue()
					}
				}
			}
			if got != want || want.Output == 0 {
				t.Fatalf("%d calls, turn lines %v, usage lines %v, odd %v, order %d: the chats have\n%+v, the session\n%+v", calls, turnLines, usageLines, odd, order, got, want)
			}
			if err := mappingtest.Conserved(spans); err != nil {
				t.Errorf("%d calls, turn lines %v, usage lines %v, odd %v, order %d: %v", calls, turnLines, usageLines, odd, order, err)
			}
		}
	}
}

// Without stamps, all spans of a recording wait for the result, and have the
// conversation id that is only there.
func TestCopilotLateID(t *testing.T) {
	in := fixtures(t)["../testdata/copilot/plain"]
	spans, _ := feed{}.spans(t, []byte(strings.ReplaceAll(string(in), `"timestamp":"2026`, `"timestamp":"at 2026`)))
	if len(spans) != 4 {
		t.Fatalf("%d spans, want 4", len(spans))
	}
	for _, s := range spans {
		for _, key := range []string{"gen_ai.conversation.id", "session.id"} {
			if got := attr(s, key).GetStringValue(); got != "91954dde-0912-4565-b76e-3954a95c4708" {
				t.Errorf("%s: %s = %q", s.Name, key, got)
			}
		}
	}
}
