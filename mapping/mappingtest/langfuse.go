package mappingtest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// langfuseTypes are the simple mappers of ObservationTypeMapper.ts, in the
// order in which they are asked.
var langfuseTypes = []struct {
	key   string
	types map[string]string
}{
	{"langfuse.observation.type", map[string]string{
		"span": "SPAN", "generation": "GENERATION", "event": "EVENT", "embedding": "EMBEDDING", "agent": "AGENT",
		"tool": "TOOL", "chain": "CHAIN", "retriever": "RETRIEVER", "guardrail": "GUARDRAIL", "evaluator": "EVALUATOR",
	}},
	{"openinference.span.kind", map[string]string{
		"CHAIN": "CHAIN", "RETRIEVER": "RETRIEVER", "LLM": "GENERATION", "EMBEDDING": "EMBEDDING", "AGENT": "AGENT",
		"TOOL": "TOOL", "GUARDRAIL": "GUARDRAIL", "EVALUATOR": "EVALUATOR",
	}},
	{"gen_ai.operation.name", map[string]string{
		"chat": "GENERATION", "completion": "GENERATION", "text_completion": "GENERATION",
		"generate_content": "GENERATION", "generate": "GENERATION", "embeddings": "EMBEDDING",
		"invoke_agent": "AGENT", "create_agent": "AGENT", "execute_tool": "TOOL",
	}},
}

// Langfuse returns what Langfuse shows. It follows langfuse/langfuse,
// packages/shared/src/server/otel: ObservationTypeMapper.ts (98bf336),
// OtelIngestionProcessor.ts (0030ed8), and the usage of
// OtelIngestionProcessor.{cacheUsage,usageDetails}.test.ts (769752a, 1160d31),
// by which the input excludes what came from a cache or went there, and the
// output excludes reasoning. A trace's tokens and cost are the sums over all of
// its spans, agents included; its input and output are those of the span
// without a parent (#15860).
func Langfuse(spans []*tracepb.Span) View {
	var view View
	for _, span := range spans {
		shown := langfuse(span)
		view.Spans = append(view.Spans, shown)
		view.Trace.Tokens = view.Trace.Tokens.plus(shown.Tokens)
		view.Trace.Cost += shown.Cost
		if shown.Session != "" {
			view.Trace.Session = shown.Session
		}
		if len(span.ParentSpanId) == 0 {
			view.Trace.Input, view.Trace.Output = shown.Input, shown.Output
		}
	}
	return view
}

func langfuse(span *tracepb.Span) Shown {
	shown := Shown{
		Span:    span,
		Type:    langfuseType(span),
		Session: first(span, "langfuse.session.id", "session.id", "gen_ai.conversation.id"),
		Model:   first(span, "langfuse.observation.model.name", "gen_ai.response.model", "ai.model.id", "gen_ai.request.model", "llm.response.model", "llm.model_name", "model"),
		Tokens:  langfuseTokens(span),
		Cost:    langfuseCost(span),
	}
	if at, err := time.Parse(time.RFC3339Nano, stringOf(span, "langfuse.observation.completion_start_time")); err == nil {
		shown.FirstToken = at
	}
	// One key of a pair is enough to rule out the types that follow.
	for _, keys := range [][2]string{
		{"langfuse.observation.input", "langfuse.observation.output"},
		{"input.value", "output.value"},
		{"input", "output"},
		{"gen_ai.input.messages", "gen_ai.output.messages"},
		{"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"},
	} {
		shown.Input, shown.Output = stringOf(span, keys[0]), stringOf(span, keys[1])
		if shown.Input != "" || shown.Output != "" {
			break
		}
	}
	return shown
}

func langfuseType(span *tracepb.Span) string {
	for _, mapper := range langfuseTypes {
		if kind := mapper.types[stringOf(span, mapper.key)]; kind != "" {
			return kind
		}
	}
	if first(span, "gen_ai.tool.name", "gen_ai.tool.call.id") != "" {
		return "TOOL"
	}
	// Any span with a model counts as a model call.
	if first(span, "langfuse.observation.model.name", "gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "model") != "" {
		return "GENERATION"
	}
	return "SPAN"
}

// langfuseTokens counts every number under gen_ai.usage., whatever its name, except
// the cost.
func langfuseTokens(span *tracepb.Span) Tokens {
	var t Tokens
	for _, a := range span.Attributes {
		name, ok := strings.CutPrefix(a.Key, usage)
		if !ok || name == "cost" {
			continue
		}
		n, ok := numeric(a.Value)
		if !ok {
			continue
		}
		switch name {
		case "input_tokens", "prompt_tokens":
			t.Input = n
		case "output_tokens", "completion_tokens":
			t.Output = n
		case "cache_read.input_tokens":
			t.CacheRead = n
		case "cache_write.input_tokens":
			t.CacheWrite = n
		case "reasoning.output_tokens", "reasoning_tokens", "thoughts_tokens":
			t.Reasoning = n
		case "total_tokens":
		default:
			t.Other += n
		}
	}
	t.Input = max(0, t.Input-t.CacheRead-t.CacheWrite)
	t.Output = max(0, t.Output-t.Reasoning)
	return t
}

func langfuseCost(span *tracepb.Span) float64 {
	var details struct{ Total float64 }
	if json.Unmarshal([]byte(stringOf(span, "langfuse.observation.cost_details")), &details) == nil {
		return details.Total
	}
	cost := value(span.Attributes, usage+"cost")
	return cost.GetDoubleValue() + float64(cost.GetIntValue())
}

// numeric reads a value as JavaScript's Number does.
func numeric(v *commonpb.AnyValue) (int64, bool) {
	switch n := v.GetValue().(type) {
	case *commonpb.AnyValue_IntValue:
		return n.IntValue, true
	case *commonpb.AnyValue_DoubleValue:
		return int64(n.DoubleValue), true
	case *commonpb.AnyValue_StringValue:
		f, err := strconv.ParseFloat(n.StringValue, 64)
		return int64(f), err == nil
	default:
		return 0, false
	}
}
