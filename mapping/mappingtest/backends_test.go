package mappingtest_test

import (
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/mappingtest"
)

func double(key string, f float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}}
}

const (
	question = `[{"role":"user","parts":[{"type":"text","content":"Why?"}]}]`
	answer   = `[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"So."},{"type":"tool_call","name":"shell","arguments":{"command":"ls"}}],"finish_reason":"tool_call"}]`
	bare     = `[{"role":"assistant","parts":[{"type":"text","content":"So."}]}]`
)

func TestBackends(t *testing.T) {
	operation := func(name string) *commonpb.KeyValue { return text("gen_ai.operation.name", name) }
	session := text("gen_ai.conversation.id", "s1")
	model := text("gen_ai.request.model", "gpt-5")
	for _, test := range []struct {
		name                      string
		attributes                []*commonpb.KeyValue
		jaeger, langfuse, phoenix mappingtest.Shown
	}{
		{
			"chat",
			[]*commonpb.KeyValue{
				operation("chat"), session, model, text("gen_ai.response.model", "gpt-5-2026"), text("gen_ai.response.id", "r1"),
				text("gen_ai.input.messages", question), text("gen_ai.output.messages", answer),
				number("gen_ai.usage.input_tokens", 100), number("gen_ai.usage.output_tokens", 30),
				number("gen_ai.usage.cache_read.input_tokens", 60), number("gen_ai.usage.cache_write.input_tokens", 10),
				number("gen_ai.usage.reasoning.output_tokens", 20), double("gen_ai.usage.cost", 0.5),
				text("langfuse.observation.completion_start_time", "2026-10-02T11:14:03.531Z"),
			},
			mappingtest.Shown{
				Type: "LLM_CALL", Model: "gpt-5-2026 (requested: gpt-5)",
				Tokens: mappingtest.Tokens{Input: 100, Output: 30, CacheRead: 60, CacheWrite: 10, Reasoning: 20},
				Input:  "user: Why?", Output: "assistant: Hm.\n\nSo.\n\n→ shell({\"command\":\"ls\"})",
			},
			mappingtest.Shown{
				Type: "GENERATION", Model: "gpt-5-2026", Session: "s1", Cost: 0.5,
				Tokens: mappingtest.Tokens{Input: 30, Output: 10, CacheRead: 60, CacheWrite: 10, Reasoning: 20},
				Input:  question, Output: answer, FirstToken: time.Date(2026, 10, 2, 11, 14, 3, 531e6, time.UTC),
			},
			mappingtest.Shown{
				Type: "LLM", Model: "gpt-5", Session: "s1",
				Tokens: mappingtest.Tokens{Input: 100, Output: 30, CacheRead: 60},
				Input:  "user: Why?", Output: "assistant: So.\n\n→ shell({\"command\":\"ls\"})",
			},
		},
		{
			"Phoenix drops an output message without a finish_reason, and shows the response's id",
			[]*commonpb.KeyValue{operation("chat"), text("gen_ai.output.messages", bare), text("gen_ai.response.id", "r1")},
			mappingtest.Shown{Type: "LLM_CALL", Output: "assistant: So."},
			mappingtest.Shown{Type: "GENERATION", Output: bare},
			mappingtest.Shown{Type: "LLM", Output: `{"id":"r1"}`},
		},
		{
			"tool",
			[]*commonpb.KeyValue{
				operation("execute_tool"), session, text("gen_ai.tool.name", "shell"),
				text("gen_ai.tool.call.arguments", `{"command":"ls"}`), text("gen_ai.tool.call.result", `{"exitCode":0}`),
			},
			mappingtest.Shown{Type: "TOOL_CALL", Input: `{"command":"ls"}`, Output: `{"exitCode":0}`},
			mappingtest.Shown{Type: "TOOL", Session: "s1", Input: `{"command":"ls"}`, Output: `{"exitCode":0}`},
			mappingtest.Shown{Type: "TOOL", Session: "s1", Input: `{"command":"ls"}`, Output: `{"exitCode":0}`},
		},
		{
			"a span with a model but no operation passes for a call of it",
			[]*commonpb.KeyValue{session, model},
			mappingtest.Shown{Type: "UNKNOWN_GENAI", Model: "gpt-5"},
			mappingtest.Shown{Type: "GENERATION", Session: "s1", Model: "gpt-5"},
			mappingtest.Shown{Type: "LLM", Session: "s1", Model: "gpt-5"},
		},
		{
			"unless it says that it is none",
			[]*commonpb.KeyValue{session, model, text("openinference.span.kind", "CHAIN")},
			mappingtest.Shown{Type: "UNKNOWN_GENAI", Model: "gpt-5"},
			mappingtest.Shown{Type: "CHAIN", Session: "s1", Model: "gpt-5"},
			mappingtest.Shown{Type: "CHAIN", Session: "s1", Model: "gpt-5"},
		},
		{
			"a call id without an operation makes a tool",
			[]*commonpb.KeyValue{text("gen_ai.tool.call.id", "c1")},
			mappingtest.Shown{Type: "UNKNOWN_GENAI"},
			mappingtest.Shown{Type: "TOOL"},
			mappingtest.Shown{Type: "TOOL"},
		},
		{
			"messages that were cut are shown by Jaeger alone as they are",
			[]*commonpb.KeyValue{operation("invoke_agent"), text("gen_ai.input.messages", question[:20])},
			mappingtest.Shown{Type: "AGENT", Input: question[:20]},
			mappingtest.Shown{Type: "AGENT", Input: question[:20]},
			mappingtest.Shown{Type: "AGENT"},
		},
		{
			"no GenAI at all",
			[]*commonpb.KeyValue{text("http.method", "GET")},
			mappingtest.Shown{Type: "STANDARD"},
			mappingtest.Shown{Type: "SPAN"},
			mappingtest.Shown{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			one := span(1, 0, 1000, 2000)
			one.Attributes = test.attributes
			spans := []*tracepb.Span{one}
			for _, backend := range []struct {
				name      string
				got, want mappingtest.Shown
			}{
				{"Jaeger", mappingtest.Jaeger(spans).Of(one), test.jaeger},
				{"Langfuse", mappingtest.Langfuse(spans).Of(one), test.langfuse},
				{"Phoenix", mappingtest.Phoenix(spans).Of(one), test.phoenix},
			} {
				backend.want.Span = one
				if backend.got != backend.want {
					t.Errorf("%s shows\n%+v, want\n%+v", backend.name, backend.got, backend.want)
				}
			}
		})
	}
}

// Counts on the root and on its chats are shown once by Jaeger, twice by the others.
func TestTokensOfTrace(t *testing.T) {
	root, chat := span(1, 0, 1000, 2000), span(2, 1, 1000, 2000)
	root.Attributes = []*commonpb.KeyValue{
		text("gen_ai.operation.name", "invoke_agent"), text("session.id", "s1"), number("gen_ai.usage.input_tokens", 7),
		text("gen_ai.input.messages", question), double("gen_ai.usage.cost", 0.25),
	}
	chat.Attributes = []*commonpb.KeyValue{text("gen_ai.operation.name", "chat"), number("gen_ai.usage.input_tokens", 7), text("gen_ai.input.messages", bare)}
	spans := []*tracepb.Span{root, chat}
	for _, test := range []struct {
		name string
		view mappingtest.View
		want mappingtest.Shown
	}{
		{"Jaeger", mappingtest.Jaeger(spans), mappingtest.Shown{Tokens: mappingtest.Tokens{Input: 7}}},
		{"Langfuse", mappingtest.Langfuse(spans), mappingtest.Shown{Tokens: mappingtest.Tokens{Input: 14}, Session: "s1", Input: question, Cost: 0.25}},
		{"Phoenix", mappingtest.Phoenix(spans), mappingtest.Shown{Tokens: mappingtest.Tokens{Input: 14}, Session: "s1", Input: "user: Why?"}},
	} {
		if test.view.Trace != test.want {
			t.Errorf("%s shows of the trace\n%+v, want\n%+v", test.name, test.view.Trace, test.want)
		}
	}
}
