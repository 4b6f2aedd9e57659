package mappingtest

import (
	"encoding/json"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

var phoenixTypes = map[string]string{
	"chat": "LLM", "text_completion": "LLM", "generate_content": "LLM", "embeddings": "EMBEDDING",
	"execute_tool": "TOOL", "retrieval": "RETRIEVER", "invoke_agent": "AGENT", "create_agent": "AGENT",
}

// Phoenix returns what Phoenix shows. It follows Arize-ai/phoenix,
// src/phoenix/trace/gen_ai/conversion.py (10c483a) and the models beside it
// (44e5316). OpenInference attributes that a span has already win. A list of
// messages with one that is malformed is dropped whole, and an output message
// without a finish_reason is malformed. A trace's tokens are the sum over all
// of its spans. Phoenix does not read cost or the first token from a span.
func Phoenix(spans []*tracepb.Span) View {
	var view View
	for _, span := range spans {
		shown := phoenix(span)
		view.Spans = append(view.Spans, shown)
		view.Trace.Tokens = view.Trace.Tokens.plus(shown.Tokens)
		if len(span.ParentSpanId) == 0 {
			view.Trace.Session, view.Trace.Input, view.Trace.Output = shown.Session, shown.Input, shown.Output
		}
	}
	return view
}

func phoenix(span *tracepb.Span) Shown {
	shown := Shown{
		Span:    span,
		Type:    phoenixType(span),
		Session: first(span, "session.id", "gen_ai.conversation.id"),
		Model:   first(span, "llm.model_name", "gen_ai.request.model"),
		Tokens: Tokens{
			Input:      intOf(span, usage+"input_tokens"),
			Output:     intOf(span, usage+"output_tokens"),
			CacheRead:  intOf(span, usage+"cache_read.input_tokens"),
			CacheWrite: intOf(span, usage+"cache_creation.input_tokens"),
		},
		Input:  stringOf(span, "input.value"),
		Output: phoenixOutput(span),
	}
	if shown.Type == "TOOL" {
		shown.Input = first(span, "tool.parameters", "gen_ai.tool.call.arguments")
		return shown
	}
	if messages := valid(stringOf(span, "gen_ai.input.messages"), false); messages != nil {
		shown.Input = render(messages, false)
	}
	if messages := valid(stringOf(span, "gen_ai.output.messages"), true); messages != nil {
		shown.Output = render(messages, false)
	}
	return shown
}

func phoenixType(span *tracepb.Span) string {
	if kind := stringOf(span, "openinference.span.kind"); kind != "" {
		return kind
	}
	if has(span, "gen_ai.operation.name") {
		return phoenixTypes[stringOf(span, "gen_ai.operation.name")]
	}
	switch {
	case first(span, "gen_ai.tool.call.id", "gen_ai.tool.name") != "":
		return "TOOL"
	case first(span, "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.request.model") != "":
		return "LLM"
	default:
		return ""
	}
}

// phoenixOutput is output.value: a tool's result, or else the response's id and
// model as JSON, on whatever span they are.
func phoenixOutput(span *tracepb.Span) string {
	if output := stringOf(span, "output.value"); output != "" {
		return output
	}
	if result := stringOf(span, "gen_ai.tool.call.result"); result != "" && phoenixType(span) == "TOOL" {
		return result
	}
	response := struct {
		ID    string `json:"id,omitempty"`
		Model string `json:"model,omitempty"`
	}{stringOf(span, "gen_ai.response.id"), stringOf(span, "gen_ai.response.model")}
	if response.ID == "" && response.Model == "" {
		return ""
	}
	text, err := json.Marshal(response)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// valid returns messages if all of them are as the models want them.
func valid(attribute string, output bool) []message {
	messages := parse(attribute)
	for _, m := range messages {
		if m.Role == "" || m.Parts == nil || output && m.FinishReason == nil {
			return nil
		}
		for _, raw := range m.Parts {
			// Any part with a type is one; what is no known part is not shown.
			var p struct{ Type *string }
			if json.Unmarshal(raw, &p) != nil || p.Type == nil {
				return nil
			}
		}
	}
	return messages
}
