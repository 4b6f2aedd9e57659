package content

import "strings"

// Constructors for gen_ai.input.messages and gen_ai.output.messages, in the form of
// the GenAI conventions' JSON schemas.

// Messages returns a list of messages.
func Messages(m ...Value) Value { return Value{kind: array, typed: true, items: m} }

// Message returns a message of parts. An input has no finish reason.
func Message(role string, parts []Value, finishReason string) Value {
	v := fixedObject(named("role", fixedValue(role)), named("parts", Value{kind: array, typed: true, items: parts}))
	if finishReason != "" {
		v.items = append(v.items, named("finish_reason", fixedValue(finishReason)))
	}
	return v
}

// TextPart returns a part with a text, of type text or reasoning.
func TextPart(kind, content string) Value {
	content, cut := strings.CutSuffix(content, Truncated)
	text := stringValue(content)
	text.open = cut
	return fixedObject(named("type", fixedValue(kind)), named("content", text))
}

// ToolCallPart returns the part of a message in which the model calls a tool.
func ToolCallPart(id, name string, arguments Value) Value {
	return fixedObject(named("type", fixedValue("tool_call")), named("id", fixedValue(valid(id))), named("name", fixedValue(name)), named("arguments", arguments))
}

// ToolResponsePart returns the part that answers a tool call.
func ToolResponsePart(id string, response Value) Value {
	return fixedObject(named("type", fixedValue("tool_call_response")), named("id", fixedValue(valid(id))), named("response", response))
}

// Object returns an object without members.
func Object() Value { return Value{kind: object} }
