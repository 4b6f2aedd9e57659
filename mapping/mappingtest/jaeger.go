package mappingtest

import (
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

var jaegerTypes = map[string]string{
	"chat": "LLM_CALL", "text_completion": "LLM_CALL", "generate_content": "LLM_CALL", "embeddings": "LLM_CALL",
	"execute_tool": "TOOL_CALL", "invoke_agent": "AGENT", "create_agent": "AGENT", "invoke_workflow": "AGENT",
	"retrieval": "RETRIEVAL",
}

// Jaeger returns what Jaeger's GenAI view shows. It follows jaegertracing/jaeger-ui,
// packages/jaeger-ui/src/utils/genai/detect.ts (0609514) and execution-summary.ts
// (1439fb7), and the span tab's genAiData.ts (58506e1). The summary of a trace
// adds up the tokens of model calls only. Jaeger knows no sessions, no cost and
// no first token.
func Jaeger(spans []*tracepb.Span) View {
	var view View
	for _, span := range spans {
		shown := jaeger(span)
		view.Spans = append(view.Spans, shown)
		if shown.Type == "LLM_CALL" {
			view.Trace.Tokens.Input += shown.Tokens.Input
			view.Trace.Tokens.Output += shown.Tokens.Output
		}
	}
	return view
}

func jaeger(span *tracepb.Span) Shown {
	shown := Shown{Span: span, Type: jaegerType(span)}
	request, response := stringOf(span, "gen_ai.request.model"), stringOf(span, "gen_ai.response.model")
	switch {
	case response != "" && request != "" && response != request:
		shown.Model = response + " (requested: " + request + ")"
	case response != "":
		shown.Model = response
	default:
		shown.Model = request
	}
	shown.Tokens = Tokens{
		Input:      intOf(span, usage+"input_tokens"),
		Output:     intOf(span, usage+"output_tokens"),
		CacheRead:  intOf(span, usage+"cache_read.input_tokens"),
		CacheWrite: intOf(span, usage+"cache_write.input_tokens"),
		Reasoning:  intOf(span, usage+"reasoning.output_tokens"),
	}
	if messages := first(span, "gen_ai.input.messages", "gen_ai.prompt"); messages != "" {
		shown.Input = jaegerMessages(messages)
	} else {
		shown.Input = stringOf(span, "gen_ai.tool.call.arguments")
	}
	if messages := first(span, "gen_ai.output.messages", "gen_ai.completion"); messages != "" {
		shown.Output = jaegerMessages(messages)
	} else {
		shown.Output = stringOf(span, "gen_ai.tool.call.result")
	}
	return shown
}

func jaegerType(span *tracepb.Span) string {
	if operation := stringOf(span, "gen_ai.operation.name"); operation != "" {
		if kind, ok := jaegerTypes[operation]; ok {
			return kind
		}
		return "UNKNOWN_GENAI"
	}
	for _, a := range span.Attributes {
		if strings.HasPrefix(a.Key, "gen_ai.") {
			return "UNKNOWN_GENAI"
		}
	}
	return "STANDARD"
}

// jaegerMessages shows text that is not JSON unchanged, without a role.
func jaegerMessages(attribute string) string {
	if messages := parse(attribute); messages != nil {
		return render(messages, true)
	}
	return attribute
}
