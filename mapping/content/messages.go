package content

import "strings"

// Constructors for gen_ai.input.messages and gen_ai.output.messages, in the form of
// the GenAI conventions' JSON schemas.

// Messages returns a list of messages.
func Messages(m ...Value) Value { return Value{kind: array, typed: true, items: m} }

// Message returns a message of parts. An input has no finish reason.
func Message(role string, parts []Value, finishReason string) Value {
	v := Value{fixed: true}.member("role", fixedValue(role)).member("parts", Value{kind: array, typed: true, items: parts})
	if finishReason != "" {
		v = v.member("finish_reason", fixedValue(finishReason))
	}
	return v
}

// TextPart returns a part with a text, of type text or reasoning.
func TextPart(kind, content string) Value {
	content, cut := strings.CutSuffix(content, Truncated)
	text := stringValue(content)
	text.open = cut
	return Value{fixed: true}.member("type", fixedValue(kind)).member("content", text)
}

// ToolCallPart returns the part of a message in which the model calls a tool.
func ToolCallPart(id, name string, arguments Value) Value {
	return Value{fixed: true}.member("type", fixedValue("tool_call")).
		member("id", fixedValue(id)).member("name", fixedValue(name)).member("arguments", arguments)
}

// ToolResponsePart returns the part that answers a tool call.
func ToolResponsePart(id string, response Value) Value {
	return Value{fixed: true}.member("type", fixedValue("tool_call_response")).
		member("id", fixedValue(id)).member("response", response)
}

// Object returns an object without members.
func Object() Value { return Value{kind: object} }
